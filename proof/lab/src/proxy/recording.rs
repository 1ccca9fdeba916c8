//! A recording of the bytes on the line: when they left, and when they arrived.

use std::collections::VecDeque;
use std::time::Duration;

use super::config::Direction;

/// Bytes that the proxy read at once, on their way from one end of the line to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The connection, as in [`ConnectionStats::id`](super::ConnectionStats::id).
    pub connection: u64,
    /// Their direction.
    pub direction: Direction,
    /// When they were read from their sender, since the recording began.
    pub left: Duration,
    /// When the last of them was handed to their receiver, since the recording began.
    pub arrived: Duration,
    /// How many there were.
    pub bytes: usize,
    /// The first of them: at most [`HEAD_MAX`].
    pub head: Vec<u8>,
}

/// Bytes of a passage that are kept: 4 KiB.
pub const HEAD_MAX: usize = 4 << 10;

/// Passages that are kept for each connection and direction: the last 256. At most as many are on
/// their way; bytes that leave after them are added to the last one.
pub const PASSAGES_MAX: usize = 256;

/// One direction of one connection. Pure: time comes in as nanoseconds.
pub(super) struct Recording {
    connection: u64,
    direction: Direction,
    began_ns: u64,
    /// Bytes that left before the recording began and are still to arrive.
    unrecorded: usize,
    on_the_way: VecDeque<Departure>,
    arrived: VecDeque<Passage>,
}

struct Departure {
    left_ns: u64,
    bytes: usize,
    to_arrive: usize,
    head: Vec<u8>,
}

impl Recording {
    /// Of one direction of a connection.
    pub(super) fn new(connection: u64, direction: Direction, began_ns: u64) -> Self {
        Recording {
            connection,
            direction,
            began_ns,
            unrecorded: 0,
            on_the_way: VecDeque::new(),
            arrived: VecDeque::new(),
        }
    }

    /// The same with this many unknown bytes already on the line.
    pub(super) fn behind(self, unrecorded: usize) -> Self {
        Recording { unrecorded, ..self }
    }

    /// These bytes were read at `now_ns`. Bytes read at the same moment are one passage.
    pub(super) fn left(&mut self, now_ns: u64, bytes: &[u8]) {
        let is_full = self.on_the_way.len() >= PASSAGES_MAX;
        let last = self.on_the_way.back().is_some_and(|it| it.left_ns == now_ns);
        if !last && !is_full {
            let head = Vec::new();
            self.on_the_way.push_back(Departure { left_ns: now_ns, bytes: 0, to_arrive: 0, head });
        }
        if let Some(departure) = self.on_the_way.back_mut() {
            departure.bytes += bytes.len();
            departure.to_arrive += bytes.len();
            let room = HEAD_MAX - departure.head.len();
            departure.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// So many bytes were delivered at `now_ns`.
    pub(super) fn arrived(&mut self, now_ns: u64, bytes: usize) {
        let unrecorded = self.unrecorded.min(bytes);
        self.unrecorded -= unrecorded;
        let mut bytes = bytes - unrecorded;
        while bytes > 0
            && let Some(first) = self.on_the_way.front_mut()
        {
            let some = first.to_arrive.min(bytes);
            first.to_arrive -= some;
            bytes -= some;
            if first.to_arrive > 0 {
                break;
            }
            if let Some(departure) = self.on_the_way.pop_front() {
                if self.arrived.len() >= PASSAGES_MAX {
                    self.arrived.pop_front();
                }
                self.arrived.push_back(self.passage(departure, now_ns));
            }
        }
    }

    fn passage(&self, it: Departure, now_ns: u64) -> Passage {
        Passage {
            connection: self.connection,
            direction: self.direction,
            left: self.since(it.left_ns),
            arrived: self.since(now_ns),
            bytes: it.bytes,
            head: it.head,
        }
    }

    fn since(&self, at_ns: u64) -> Duration {
        Duration::from_nanos(at_ns.saturating_sub(self.began_ns))
    }

    /// The passages that have arrived so far.
    pub(super) fn end(self) -> impl Iterator<Item = Passage> {
        self.arrived.into_iter()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn recording() -> Recording {
        Recording::new(7, Direction::Up, 1_000)
    }

    fn ns(passages: impl Iterator<Item = Passage>) -> Vec<(u128, u128, usize)> {
        passages.map(|it| (it.left.as_nanos(), it.arrived.as_nanos(), it.bytes)).collect()
    }

    #[test]
    fn a_passage_has_arrived_when_its_last_byte_has() {
        let mut recording = recording();
        recording.left(1_500, b"abc");
        recording.left(1_500, b"de");
        recording.left(1_700, b"f");
        recording.arrived(2_000, 4);
        recording.arrived(2_300, 2);
        assert_eq!(ns(recording.end()), [(500, 1_300, 5), (700, 1_300, 1)]);
    }

    #[test]
    fn bytes_from_before_and_bytes_on_their_way_are_no_passages() {
        let mut recording = recording().behind(10);
        recording.left(1_500, b"abc");
        recording.arrived(2_000, 8);
        recording.arrived(2_100, 5);
        recording.left(2_200, b"d");
        assert_eq!(ns(recording.end()), [(500, 1_100, 3)]);
    }

    #[test]
    fn the_last_passages_and_the_first_bytes_of_each_are_kept() {
        let mut recording = recording();
        let long = vec![b'x'; HEAD_MAX + 1];
        for _ in 0..2 * PASSAGES_MAX as u64 {
            recording.left(2_000, &long);
            recording.arrived(3_000, long.len());
        }
        recording.left(4_000, b"last");
        recording.arrived(5_000, 4);
        let kept: Vec<Passage> = recording.end().collect();
        assert_eq!((kept.len(), kept[0].head.len()), (PASSAGES_MAX, HEAD_MAX));
        assert_eq!(kept.last().unwrap().head, b"last");
    }

    #[test]
    fn what_is_on_the_way_is_bounded_and_nothing_of_it_is_lost() {
        let mut recording = recording();
        let count = PASSAGES_MAX + 10;
        (0..count).for_each(|i| recording.left(1_000 + i as u64, b"x"));
        recording.arrived(9_000, count);
        let kept: Vec<Passage> = recording.end().collect();
        assert_eq!((kept.len(), kept.last().unwrap().bytes), (PASSAGES_MAX, 11));
    }
}
