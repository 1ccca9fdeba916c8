//! A connection to a Sentinel: from bytes to its answer and its announcements.

use bytes::{Bytes, BytesMut};
use onetrip_engine::Time;

use crate::scan::{Scan, ScanLimits, Scanner};

/// A connection to a Sentinel, as the host names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(pub u64);

pub(super) struct Line {
    pub(super) id: LineId,
    /// When it has answered at the latest; [`Time::NEVER`] once it has.
    pub(super) deadline: Time,
    scanner: Scanner,
    input: BytesMut,
    /// Replies of the answer that have come.
    pub(super) replies: Vec<Bytes>,
}

/// The most bytes of one reply. A list of 64 replicas has 50 kB.
const REPLY_MAX: usize = 256 << 10;

impl Line {
    pub(super) fn new(id: LineId, deadline: Time) -> Line {
        let limits = ScanLimits {
            string_bytes_max: 64 << 10,
            items_max: 4096,
            depth_max: 8,
            ..ScanLimits::default()
        };
        let (scanner, input) = (Scanner::new(limits), BytesMut::new());
        Line { id, deadline, scanner, input, replies: Vec::new() }
    }

    pub(super) fn take_in(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next whole reply; an error if the bytes are none.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, &'static str> {
        match self.scanner.scan(&self.input) {
            Err(_) => Err("it does not speak the protocol of Redis (RESP)"),
            Ok(Scan::Whole { len, .. }) => Ok(Some(self.input.split_to(len).freeze())),
            Ok(Scan::Need(_)) if self.input.len() > REPLY_MAX => Err("its answer is too long"),
            Ok(Scan::Need(_)) => Ok(None),
        }
    }
}
