//! Splits a block into whole replies.

use bytes::{Buf, Bytes, BytesMut};
use onetrip_redis::scan::{Scan, ScanLimits, Scanner};

/// The replies in a block, in order. An incomplete one at the end is left out.
#[derive(Debug)]
pub(crate) struct Frames {
    rest: Bytes,
    scanner: Scanner,
    /// How long a reply may be, in bytes. Of a longer one nothing is kept.
    len_max: usize,
    /// How many bytes of the current reply were dropped.
    dropped: usize,
}

impl Frames {
    pub(crate) fn new(block: Bytes) -> Frames {
        let scanner = Scanner::new(ScanLimits::default());
        Frames { rest: block, scanner, len_max: usize::MAX, dropped: 0 }
    }

    /// No replies yet. Each may have `len_max` bytes; a longer one is replaced by an empty one.
    pub(crate) fn up_to(len_max: usize) -> Frames {
        Frames { len_max, ..Frames::new(Bytes::new()) }
    }

    /// The bytes behind the first reply in a block.
    pub(crate) fn behind_first(block: Bytes) -> Bytes {
        let mut frames = Frames::new(block);
        frames.next();
        frames.rest
    }

    /// Appends more bytes.
    pub(crate) fn add(&mut self, more: Bytes) {
        if self.rest.is_empty() {
            self.rest = more;
            return;
        }
        // The buffer grows in place; copying it each time would take quadratic time.
        let mut all = match std::mem::take(&mut self.rest).try_into_mut() {
            Ok(all) => all,
            Err(rest) => BytesMut::from(&rest[..]),
        };
        all.extend_from_slice(&more);
        self.rest = all.freeze();
    }

    /// Drops a reply that has become too large.
    fn drop_seen(&mut self) {
        let seen = self.scanner.seen();
        if self.dropped + seen > self.len_max {
            self.rest.advance(seen);
            self.scanner.consumed(seen);
            self.dropped += seen;
        }
    }
}

impl Iterator for Frames {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.rest.is_empty() {
            return None;
        }
        match self.scanner.scan(&self.rest) {
            Ok(Scan::Whole { len, start, .. }) => {
                let mut frame = self.rest.split_to(len);
                if std::mem::take(&mut self.dropped) + len > self.len_max {
                    return Some(Bytes::new());
                }
                frame.advance(start);
                Some(frame)
            }
            Ok(Scan::Need(_)) => {
                self.drop_seen();
                None
            }
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reply_grows_in_place() {
        let mut frames = Frames::new(Bytes::from_static(b"$1000000\r\n"));
        let mut moves = 0;
        for _ in 0..1_000 {
            let before = frames.rest.as_ptr();
            frames.add(Bytes::from(vec![b'x'; 1_000]));
            assert_eq!(frames.next(), None);
            moves += usize::from(frames.rest.as_ptr() != before);
        }
        frames.add(Bytes::from_static(b"\r\n+OK\r\n"));
        assert_eq!(frames.next().map(|frame| frame.len()), Some(1_000_012));
        assert_eq!(frames.next().as_deref(), Some(&b"+OK\r\n"[..]));
        assert!(moves < 100, "{moves} copies");
    }

    #[test]
    fn of_a_reply_that_is_too_large_nothing_is_kept() {
        let mut frames = Frames::up_to(100);
        let whole = b"$300\r\n".iter().copied().chain([b'x'; 300]).chain(*b"\r\n+OK\r\n");
        let mut replies = Vec::new();
        for byte in whole {
            frames.add(Bytes::copy_from_slice(&[byte]));
            assert!(frames.rest.len() <= 101);
            replies.extend(frames.next());
        }
        assert_eq!(replies, [&b""[..], b"+OK\r\n"]);
    }
}
