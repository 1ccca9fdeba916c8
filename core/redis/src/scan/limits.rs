//! Limits on what a peer may send.

/// What a scanner accepts from a peer.
#[derive(Clone, Debug)]
pub struct ScanLimits {
    /// How deep aggregates may be nested. Default 128.
    pub depth_max: usize,
    /// Bytes of a line (a number, a length, a simple string), and of an error in either form.
    /// Default 64 KiB.
    pub line_bytes_max: usize,
    /// Bytes of one string, over all its chunks. Default 512 MiB, the longest that a server accepts
    /// (`proto-max-bulk-len`).
    pub string_bytes_max: u64,
    /// Items of one aggregate. A map's entry counts as two. Default 2^32.
    pub items_max: u64,
    /// Bytes of a push, and of attributes in front of a reply, which a host hands on only when they
    /// are whole. Default 513 MiB: a message with the longest string, and its names.
    pub push_bytes_max: u64,
}

impl Default for ScanLimits {
    fn default() -> ScanLimits {
        ScanLimits {
            depth_max: 128,
            line_bytes_max: 64 << 10,
            string_bytes_max: 512 << 20,
            items_max: 1 << 32,
            push_bytes_max: 513 << 20,
        }
    }
}

impl ScanLimits {
    /// For bytes that are complete already.
    pub(crate) const NONE: ScanLimits = ScanLimits {
        depth_max: usize::MAX,
        line_bytes_max: usize::MAX,
        string_bytes_max: u64::MAX,
        items_max: u64::MAX,
        push_bytes_max: u64::MAX,
    };
}
