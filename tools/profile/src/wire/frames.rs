//! Bytes of one direction, cut into messages, however they were split.

use bytes::{Buf, BytesMut};

use crate::piece::Nanos;

/// Bytes of a message that are kept; of a longer one only its beginning is seen.
pub(super) const KEPT_MAX: usize = 1 << 20;

/// What has come of one direction and is not read yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    buffer: BytesMut,
    /// Bytes to come that nobody reads.
    skip: usize,
    /// When the first byte in the buffer came.
    begin: Nanos,
    now: Nanos,
}

impl Inbox {
    pub(super) fn add(&mut self, at: Nanos, bytes: &[u8]) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        let bytes = &bytes[skipped..];
        if self.buffer.is_empty() {
            self.begin = at;
        }
        self.now = at;
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// When the first byte in the buffer came.
    pub(super) fn begin(&self) -> Nanos {
        self.begin
    }

    /// So many bytes were read, some of which may still be to come.
    pub(super) fn take(&mut self, len: usize) {
        let here = len.min(self.buffer.len());
        self.buffer.advance(here);
        self.skip += len - here;
        // What is left came with the last piece: a message that came before it was not whole.
        self.begin = self.now;
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_MAX {
            self.buffer = BytesMut::new();
        }
    }

    /// Whether a message has begun and is not whole.
    pub(super) fn is_amid(&self) -> bool {
        !self.buffer.is_empty() || self.skip > 0
    }
}
