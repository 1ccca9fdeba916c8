//! Whole replies, one behind the other in one block.

use bytes::{Buf, Bytes};
use onetrip_redis::scan::{Scan, ScanLimits, Scanner};

/// The replies in a block, in order. What is broken off at the end is left out.
#[derive(Debug)]
pub(crate) struct Frames {
    rest: Bytes,
    scanner: Scanner,
}

impl Frames {
    pub(crate) fn new(block: Bytes) -> Frames {
        Frames { rest: block, scanner: Scanner::new(ScanLimits::default()) }
    }

    /// The items of an aggregate.
    pub(crate) fn within(mut aggregate: Bytes) -> Frames {
        let head = aggregate.windows(2).position(|pair| pair == b"\r\n").map_or(0, |at| at + 2);
        aggregate.advance(head);
        Frames::new(aggregate)
    }

    /// What stands behind the first reply in a block.
    pub(crate) fn behind_first(block: Bytes) -> Bytes {
        let mut frames = Frames::new(block);
        frames.next();
        frames.rest
    }

    /// Puts more bytes behind the rest.
    pub(crate) fn add(&mut self, more: Bytes) {
        if self.rest.is_empty() {
            self.rest = more;
            return;
        }
        let mut all = bytes::BytesMut::with_capacity(self.rest.len() + more.len());
        all.extend_from_slice(&self.rest);
        all.extend_from_slice(&more);
        self.rest = all.freeze();
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
                frame.advance(start);
                Some(frame)
            }
            _ => None,
        }
    }
}
