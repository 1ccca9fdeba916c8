//! Streams of TCP, put together from segments that may be lost, repeated or out of order.

use std::collections::{BTreeMap, HashMap};

use crate::Profiler;
use crate::piece::{Legs, Nanos, Piece, Side};

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Address {
    /// An address of version 4 stands in the first four bytes.
    pub(super) host: [u8; 16],
    pub(super) port: u16,
}

/// A packet, as far as it concerns streams.
pub(super) struct Segment<'a> {
    pub(super) at: Nanos,
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) sequence: u32,
    pub(super) acknowledged: Option<u32>,
    pub(super) syn: bool,
    pub(super) ends: bool,
    pub(super) payload: &'a [u8],
}

/// Bytes that are kept until those before them come, for each direction.
const PENDING_MAX: usize = 1 << 20;

/// One direction.
#[derive(Debug, Default)]
struct Flow {
    /// The number of the next byte; `None` before the first.
    next: Option<u32>,
    /// What came too early, by its distance from the first number of all.
    early: BTreeMap<u64, Vec<u8>>,
    early_bytes: usize,
    /// Bytes that were handed over.
    taken: u64,
    /// The number behind a segment that the other side has not confirmed yet, and when it passed.
    timed: Option<(u32, Nanos)>,
}

#[derive(Debug)]
struct Stream {
    number: u64,
    client: Address,
    /// Of client and server.
    flows: [Flow; 2],
}

/// All streams of a capture.
pub(super) struct Streams {
    open: HashMap<(Address, Address), Stream>,
    ports: Vec<u16>,
    numbers: u64,
    holes: u64,
}

/// Connections that are followed at once.
const OPEN_MAX: usize = 100_000;

impl Streams {
    pub(super) fn new(ports: &[u16]) -> Streams {
        Streams { open: HashMap::new(), ports: ports.to_vec(), numbers: 0, holes: 0 }
    }

    pub(super) fn holes(&self) -> u64 {
        self.holes
    }

    pub(super) fn segment(&mut self, it: &Segment<'_>, profiler: &mut Profiler) {
        let key = if it.from < it.to { (it.from, it.to) } else { (it.to, it.from) };
        let begins = it.syn && it.acknowledged.is_none();
        if begins && let Some(old) = self.open.remove(&key) {
            // The ports are used again.
            profiler.closed(old.number);
        }
        if !self.open.contains_key(&key) {
            if (it.payload.is_empty() && !it.syn) || self.open.len() >= OPEN_MAX {
                return;
            }
            self.numbers += 1;
            let stream = Stream {
                number: self.numbers,
                client: self.client_of(it),
                flows: Default::default(),
            };
            self.open.insert(key, stream);
        }
        let Some(stream) = self.open.get_mut(&key) else { return };
        self.holes += stream.take(it, profiler);
        if it.ends {
            let number = stream.number;
            self.open.remove(&key);
            profiler.closed(number);
        }
    }

    /// Who is the client: who begins, or whose port is not that of a server.
    fn client_of(&self, it: &Segment<'_>) -> Address {
        let is_server = |address: Address| self.ports.contains(&address.port);
        match (it.syn, it.acknowledged) {
            (true, None) => it.from,
            (true, Some(_)) => it.to,
            _ if is_server(it.to) => it.from,
            _ if is_server(it.from) => it.to,
            // Servers have the lower ports.
            _ if it.from.port > it.to.port => it.from,
            _ => it.to,
        }
    }
}

impl Stream {
    /// Takes a segment, and returns how many holes were found.
    fn take(&mut self, it: &Segment<'_>, profiler: &mut Profiler) -> u64 {
        let from = if it.from == self.client { Side::Client } else { Side::Server };
        let (own, other) = if from == Side::Client { (0, 1) } else { (1, 0) };
        if let Some(leg) = it.acknowledged.and_then(|number| self.flows[other].leg(it.at, number)) {
            let legs = match from {
                Side::Client => Legs { client: Some(leg), server: None },
                Side::Server => Legs { client: None, server: Some(leg) },
            };
            profiler.rtt(self.number, legs);
        }
        self.flows[own].time(it);
        if it.syn {
            self.flows[own].next = Some(it.sequence.wrapping_add(1));
            return 0;
        }
        let mut holes = 0;
        // What the other side has confirmed and was not captured will not come any more.
        if let Some(acknowledged) = it.acknowledged
            && self.flows[other].lacks(acknowledged)
        {
            holes += u64::from(self.flows[other].skip_hole());
            profiler.missing(self.number);
        }
        if it.payload.is_empty() {
            return holes;
        }
        let number = self.number;
        let give = |bytes: &[u8]| {
            profiler.piece(Piece { at: it.at, connection: number, from, bytes });
        };
        if !self.flows[own].add(it.sequence, it.payload, give) {
            holes += u64::from(self.flows[own].skip_hole());
            profiler.missing(self.number);
        }
        holes
    }
}

impl Flow {
    /// Times a segment until it is confirmed: SYN to SYN/ACK to ACK, and of data as well, since the
    /// first may have been slow. One that may be confirmed for an earlier copy is not timed.
    fn time(&mut self, it: &Segment<'_>) {
        let end = it.sequence.wrapping_add(it.payload.len() as u32 + u32::from(it.syn));
        let is_new = self.next.is_none_or(|next| next == it.sequence);
        if !is_new {
            self.timed = None;
        } else if end != it.sequence && self.timed.is_none() {
            self.timed = Some((end, it.at));
        }
    }

    /// The round trip of the segment that was timed, if this number confirms it.
    fn leg(&mut self, at: Nanos, acknowledged: u32) -> Option<Nanos> {
        let (end, since) = self.timed?;
        if (acknowledged.wrapping_sub(end) as i32) < 0 {
            return None;
        }
        self.timed = None;
        at.checked_sub(since)
    }

    /// Hands over what is next. False if too much came too early.
    fn add(&mut self, sequence: u32, payload: &[u8], mut give: impl FnMut(&[u8])) -> bool {
        let next = *self.next.get_or_insert(sequence);
        let ahead = sequence.wrapping_sub(next) as i32;
        if ahead > 0 {
            self.early_bytes += payload.len();
            self.early.entry(self.taken + ahead as u64).or_insert_with(|| payload.to_vec());
            return self.early_bytes <= PENDING_MAX;
        }
        let known = ahead.unsigned_abs() as usize;
        if let Some(new) = payload.get(known..).filter(|it| !it.is_empty()) {
            self.give(new, &mut give);
        }
        self.give_early(&mut give);
        true
    }

    fn give(&mut self, bytes: &[u8], give: &mut impl FnMut(&[u8])) {
        give(bytes);
        self.taken += bytes.len() as u64;
        self.next = self.next.map(|it| it.wrapping_add(bytes.len() as u32));
    }

    fn give_early(&mut self, give: &mut impl FnMut(&[u8])) {
        while let Some(first) = self.early.first_entry().filter(|it| *it.key() <= self.taken) {
            let (at, bytes) = first.remove_entry();
            self.early_bytes -= bytes.len();
            let known = (self.taken - at) as usize;
            if let Some(new) = bytes.get(known..) {
                self.give(new, give);
            }
        }
    }

    /// Whether a byte before this number was never seen, and something behind it was.
    fn lacks(&self, acknowledged: u32) -> bool {
        self.next.is_some_and(|next| {
            // A FIN has a number as well, so one more is nothing.
            let ahead = acknowledged.wrapping_sub(next) as i32;
            ahead > 1 && (self.taken > 0 || !self.early.is_empty())
        })
    }

    /// Goes on behind what is missing.
    fn skip_hole(&mut self) -> bool {
        self.early.clear();
        self.early_bytes = 0;
        // The next segment tells where it goes on.
        self.next.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(segments: &[(u32, &[u8])]) -> Vec<u8> {
        let (mut flow, mut bytes) = (Flow::default(), Vec::new());
        for (sequence, payload) in segments {
            assert!(flow.add(*sequence, payload, |it| bytes.extend_from_slice(it)));
        }
        bytes
    }

    #[test]
    fn segments_that_are_repeated_or_out_of_order_are_put_right() {
        assert_eq!(joined(&[(7, b"ab"), (9, b"cd")]), b"abcd");
        assert_eq!(joined(&[(7, b"ab"), (11, b"ef"), (9, b"cd")]), b"abcdef");
        assert_eq!(joined(&[(7, b"ab"), (7, b"abc"), (9, b"cd")]), b"abcd");
        assert_eq!(joined(&[(7, b"ab"), (13, b"g"), (11, b"ef"), (9, b"cd")]), b"abcdefg");
    }

    #[test]
    fn numbers_go_on_behind_the_largest() {
        assert_eq!(joined(&[(u32::MAX, b"ab"), (1, b"cd")]), b"abcd");
    }

    #[test]
    fn what_comes_too_early_is_bounded() {
        let mut flow = Flow::default();
        assert!(flow.add(0, b"a", |_| {}));
        let large = vec![0; PENDING_MAX + 1];
        assert!(!flow.add(2, &large, |_| {}));
        assert!(flow.skip_hole() && flow.early_bytes == 0);
    }
}
