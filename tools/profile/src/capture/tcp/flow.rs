//! One direction of a connection.

use std::collections::BTreeMap;
use std::fmt;

use super::Segment;
use crate::piece::Nanos;

/// Bytes are numbered from 0 here, since the numbers of TCP begin anywhere and start over.
#[derive(Default)]
pub(super) struct Flow {
    /// The number in TCP of the next byte; `None` until it is known.
    next: Option<u32>,
    /// Its first number, of the SYN.
    first: Option<u32>,
    /// What came too early, by the place of its first byte.
    early: BTreeMap<u64, Vec<u8>>,
    pub(super) early_bytes: usize,
    /// The place of the next byte.
    taken: u64,
    /// The place behind the last byte, once the FIN has come.
    end: Option<u64>,
    /// The number behind a segment that the other side has not confirmed yet, and when it passed.
    timed: Option<(u32, Nanos)>,
}

/// Contents are a program's, so none are shown.
impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl Flow {
    pub(super) fn begin(&mut self, sequence: u32) {
        self.first = Some(sequence);
        if self.taken == 0 {
            self.next = Some(sequence.wrapping_add(1));
        }
    }

    pub(super) fn begins_at(&self, sequence: u32) -> bool {
        self.first == Some(sequence)
    }

    /// Times a segment until it is confirmed: SYN to SYN/ACK to ACK, and of data as well, since the
    /// first may have been slow. One that may be confirmed for an earlier copy is not timed.
    pub(super) fn time(&mut self, it: &Segment<'_>) {
        let end = it.sequence.wrapping_add(it.payload.len() as u32 + u32::from(it.syn));
        let is_new = self.next.is_none_or(|next| next == it.sequence);
        if !is_new {
            self.timed = None;
        } else if end != it.sequence && self.timed.is_none() {
            self.timed = Some((end, it.at));
        }
    }

    /// The round trip of the segment that was timed, if this number confirms it.
    pub(super) fn leg(&mut self, at: Nanos, acknowledged: u32) -> Option<Nanos> {
        let (end, since) = self.timed?;
        if (acknowledged.wrapping_sub(end) as i32) < 0 {
            return None;
        }
        self.timed = None;
        at.checked_sub(since)
    }

    /// Hands over what is next. False if too much came too early.
    pub(super) fn add(
        &mut self,
        it: &Segment<'_>,
        early_max: usize,
        mut give: impl FnMut(&[u8]),
    ) -> bool {
        if it.payload.is_empty() && !it.fin {
            return true;
        }
        let next = *self.next.get_or_insert(it.sequence);
        let ahead = it.sequence.wrapping_sub(next) as i32;
        if it.fin {
            let end = i64::from(ahead) + it.payload.len() as i64;
            self.end = Some(self.taken.saturating_add_signed(end));
        }
        if ahead > 0 {
            self.keep(self.taken + ahead as u64, it.payload);
            return self.early_bytes <= early_max;
        }
        let known = ahead.unsigned_abs() as usize;
        if let Some(new) = it.payload.get(known..).filter(|it| !it.is_empty()) {
            self.give(new, &mut give);
        }
        self.give_early(&mut give);
        true
    }

    fn keep(&mut self, place: u64, payload: &[u8]) {
        // Some bytes are for the entry itself.
        const ENTRY: usize = 64;
        if payload.is_empty() {
            return;
        }
        let old = self.early.entry(place).or_default();
        if payload.len() > old.len() {
            let entry = if old.is_empty() { ENTRY } else { 0 };
            self.early_bytes += payload.len() - old.len() + entry;
            *old = payload.to_vec();
        }
    }

    fn give(&mut self, bytes: &[u8], give: &mut impl FnMut(&[u8])) {
        give(bytes);
        self.taken += bytes.len() as u64;
        self.next = self.next.map(|it| it.wrapping_add(bytes.len() as u32));
    }

    fn give_early(&mut self, give: &mut impl FnMut(&[u8])) {
        while let Some(first) = self.early.first_entry().filter(|it| *it.key() <= self.taken) {
            let (at, bytes) = first.remove_entry();
            let known = (self.taken - at) as usize;
            if let Some(new) = bytes.get(known..).filter(|it| !it.is_empty()) {
                self.give(new, give);
            }
        }
        if self.early.is_empty() {
            self.early_bytes = 0;
        }
    }

    /// Whether a byte before this number was never seen.
    pub(super) fn lacks(&self, acknowledged: u32) -> bool {
        // A FIN has a number as well.
        let fin = i32::from(self.end.is_some());
        self.next.is_some_and(|next| acknowledged.wrapping_sub(next) as i32 > fin)
    }

    /// Goes on at this number: what is missing before it will not come.
    pub(super) fn skip_to(&mut self, number: u32) {
        if let Some(next) = self.next {
            self.taken += u64::from(number.wrapping_sub(next));
            self.next = Some(number);
        }
        self.drop_early();
    }

    /// Goes on wherever the next segment does.
    pub(super) fn skip_early(&mut self) {
        self.next = None;
        self.drop_early();
    }

    fn drop_early(&mut self) {
        self.early.clear();
        self.early_bytes = 0;
    }

    /// Whether all of it has come, up to its FIN.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.taken >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Address;
    use super::*;

    fn segment(sequence: u32, payload: &[u8], fin: bool) -> Segment<'_> {
        let nobody = Address { host: [0; 16], port: 0 };
        let (syn, rst, acknowledged) = (false, false, None);
        Segment { at: 0, from: nobody, to: nobody, sequence, acknowledged, syn, fin, rst, payload }
    }

    fn joined(segments: &[(u32, &[u8])]) -> Vec<u8> {
        let (mut flow, mut bytes) = (Flow::default(), Vec::new());
        for (sequence, payload) in segments {
            let it = segment(*sequence, payload, false);
            assert!(flow.add(&it, 1000, |it| bytes.extend_from_slice(it)));
        }
        bytes
    }

    #[test]
    fn segments_that_are_repeated_or_out_of_order_are_put_right() {
        assert_eq!(joined(&[(7, b"ab"), (9, b"cd")]), b"abcd");
        assert_eq!(joined(&[(7, b"ab"), (11, b"ef"), (9, b"cd")]), b"abcdef");
        assert_eq!(joined(&[(7, b"ab"), (7, b"abc"), (9, b"cd")]), b"abcd");
        assert_eq!(joined(&[(7, b"ab"), (13, b"g"), (11, b"ef"), (9, b"cd")]), b"abcdefg");
        assert_eq!(joined(&[(7, b"ab"), (11, b"e"), (11, b"efg"), (9, b"cd")]), b"abcdefg");
    }

    #[test]
    fn numbers_go_on_behind_the_largest() {
        assert_eq!(joined(&[(u32::MAX, b"ab"), (1, b"cd")]), b"abcd");
    }

    #[test]
    fn what_comes_too_early_is_bounded() {
        let mut flow = Flow::default();
        assert!(flow.add(&segment(0, b"a", false), 1000, |_| {}));
        assert!(!flow.add(&segment(2, &[0; 1001], false), 1000, |_| {}));
        flow.skip_early();
        assert_eq!(flow.early_bytes, 0);
    }

    #[test]
    fn it_is_over_when_all_before_its_fin_has_come() {
        let mut flow = Flow::default();
        assert!(flow.add(&segment(7, b"ab", false), 1000, |_| {}));
        assert!(flow.add(&segment(11, b"ef", true), 1000, |_| {}));
        assert!(!flow.is_over());
        assert!(flow.add(&segment(9, b"cd", false), 1000, |_| {}));
        assert!(flow.is_over());
    }
}
