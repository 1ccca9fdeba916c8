//! The hash slot of a key: the part of a cluster's data, one of 16,384, that it belongs to.

/// How many hash slots a cluster has (`CLUSTER_SLOTS` in cluster.h).
pub const SLOTS: u16 = 16_384;

/// The hash slot of a key: the CRC16 of the key. If the key contains `{…}`, only the part between
/// the first `{` and the next `}` counts, unless that is empty.
///
/// ```
/// use onetrip_redis::slots::slot_of;
///
/// assert_eq!(slot_of(b"foo"), 12_182);
/// assert_eq!(slot_of(b"{user}.name"), slot_of(b"{user}.mail"));
/// ```
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hashed(key)) % SLOTS
}

/// The part of a key that is hashed.
fn hashed(key: &[u8]) -> &[u8] {
    let find = |bytes: &[u8], wanted| bytes.iter().position(|&byte| byte == wanted);
    let Some(open) = find(key, b'{') else { return key };
    match find(&key[open + 1..], b'}') {
        None | Some(0) => key,
        Some(len) => &key[open + 1..][..len],
    }
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0, not reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| (crc << 8) ^ STEPS[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The change of the checksum for each byte.
static STEPS: [u16; 256] = {
    let mut steps = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
            bit += 1;
        }
        steps[byte] = crc;
        byte += 1;
    }
    steps
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-16/XMODEM.
    #[test]
    fn checksum_is_that_of_the_standard() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
    }

    #[test]
    fn only_the_first_tag_counts_and_only_if_it_holds_something() {
        assert_eq!(hashed(b"{user1000}.following"), b"user1000");
        assert_eq!(hashed(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hashed(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hashed(b"foo{bar}{zap}"), b"bar");
        assert_eq!(hashed(b"}foo{bar"), b"}foo{bar");
        assert_eq!(hashed(b""), b"");
    }
}
