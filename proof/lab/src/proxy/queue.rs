//! The release queue of one direction decides when bytes may leave: stamps, token clock, jitter,
//! end of stream. Pure: no bytes, no sockets, no clock; time comes in as nanoseconds.

use std::collections::VecDeque;

use super::config::Link;

/// How a direction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The sender closed its half in order.
    Eof,
    /// The sender's connection broke.
    Reset,
}

/// Lengths of queued bytes with the time at which each may leave, in order.
pub(super) struct ReleaseQueue {
    delay_ns: u64,
    jitter_ns: u64,
    bandwidth: Option<u64>,
    random: SplitMix,
    /// Bytes on the line; release times never fall from front to back.
    marks: VecDeque<Mark>,
    /// Bytes whose time has come and that were not delivered yet.
    due: usize,
    /// Bytes in `marks` and `due`.
    queued: usize,
    /// When the last byte taken so far has been put on the line (token clock).
    line_free_ns: u64,
    /// The latest release time given out; nothing later may undercut it.
    latest_ns: u64,
    /// The end of this direction; it leaves after all bytes.
    end: Option<(End, u64)>,
}

struct Mark {
    release_ns: u64,
    bytes: usize,
}

impl ReleaseQueue {
    pub(super) fn new(link: &Link, seed: u64) -> Self {
        let mut queue = ReleaseQueue {
            delay_ns: 0,
            jitter_ns: 0,
            bandwidth: None,
            random: SplitMix(seed),
            marks: VecDeque::new(),
            due: 0,
            queued: 0,
            line_free_ns: 0,
            latest_ns: 0,
            end: None,
        };
        queue.set_link(link);
        queue
    }

    /// For bytes that are pushed from now on; those on the line keep their time, and none overtakes
    /// them.
    pub(super) fn set_link(&mut self, link: &Link) {
        self.delay_ns = nanoseconds(link.delay);
        self.jitter_ns = nanoseconds(link.jitter);
        self.bandwidth = link.bandwidth;
        self.line_free_ns = 0;
    }

    /// `bytes` were read at `now_ns`.
    pub(super) fn push(&mut self, now_ns: u64, bytes: usize) {
        let delay_ns = self.draw_delay();
        let Some(bandwidth) = self.bandwidth else {
            return self.push_mark(now_ns, now_ns + delay_ns, bytes);
        };
        // A slow line delivers in pieces of about a millisecond, not a whole read at its last
        // byte's time.
        let piece_max = ((bandwidth / 1000) as usize).clamp(PIECE_MIN, PIECE_MAX);
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(piece_max);
            let serialisation_ns = (piece as u128 * NS_PER_S / u128::from(bandwidth)) as u64;
            self.line_free_ns = self.line_free_ns.max(now_ns) + serialisation_ns;
            self.push_mark(now_ns, self.line_free_ns + delay_ns, piece);
            left -= piece;
        }
    }

    /// The direction ends, as seen at `now_ns`. A reset replaces an end of stream that is still on
    /// the line.
    pub(super) fn push_end(&mut self, now_ns: u64, end: End) {
        let delay_ns = self.draw_delay();
        let release_ns = (self.line_free_ns.max(now_ns) + delay_ns).max(self.latest_ns);
        self.latest_ns = release_ns;
        self.end = Some((end, release_ns));
    }

    /// How many bytes may be delivered at `now_ns`.
    pub(super) fn due(&mut self, now_ns: u64) -> usize {
        while let Some(mark) = self.marks.front() {
            if mark.release_ns > now_ns {
                break;
            }
            self.due += mark.bytes;
            self.marks.pop_front();
        }
        self.due
    }

    /// `bytes` of the due ones were delivered.
    pub(super) fn delivered(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.due, "only due bytes are delivered");
        self.due -= bytes;
        self.queued -= bytes;
    }

    /// Takes the end of the direction if its time has come and all bytes before it were delivered.
    pub(super) fn take_end(&mut self, now_ns: u64) -> Option<End> {
        let (end, release_ns) = self.end?;
        if self.queued > 0 || release_ns > now_ns {
            return None;
        }
        self.end = None;
        Some(end)
    }

    /// Forgets all bytes; an end stays.
    pub(super) fn discard(&mut self) {
        self.marks.clear();
        self.due = 0;
        self.queued = 0;
    }

    /// Bytes read and not delivered.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// When [`due`](Self::due) or [`take_end`](Self::take_end) will next have something; 0 if bytes
    /// are due already.
    pub(super) fn next_release_ns(&self) -> Option<u64> {
        if self.due > 0 {
            return Some(0);
        }
        match self.marks.front() {
            Some(mark) => Some(mark.release_ns),
            None => self.end.map(|(_, release_ns)| release_ns),
        }
    }

    fn push_mark(&mut self, now_ns: u64, release_ns: u64, bytes: usize) {
        let mut release_ns = release_ns.max(self.latest_ns);
        if release_ns > now_ns {
            // Never early, at most a microsecond late: so many tiny reads share a mark, and their
            // number is bounded by the time on the line.
            release_ns = release_ns.next_multiple_of(TICK_NS);
        }
        self.latest_ns = release_ns;
        self.queued += bytes;
        match self.marks.back_mut() {
            Some(mark) if mark.release_ns == release_ns => mark.bytes += bytes,
            _ => self.marks.push_back(Mark { release_ns, bytes }),
        }
    }

    fn draw_delay(&mut self) -> u64 {
        if self.jitter_ns == 0 {
            return self.delay_ns;
        }
        let offset = self.random.next() % (2 * self.jitter_ns + 1);
        (self.delay_ns + offset).saturating_sub(self.jitter_ns)
    }
}

/// Nanoseconds as the queue counts them; delays are checked to be small ([`super::DELAY_MAX`]).
fn nanoseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// The SplitMix64 generator (Steele, Lea and Flood 2014): enough for jitter, and the same on every
/// machine.
pub(super) struct SplitMix(pub(super) u64);

impl SplitMix {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

const NS_PER_S: u128 = 1_000_000_000;

/// Release times are rounded up to this: 1 µs, a tenth of the timer's own error.
const TICK_NS: u64 = 1_000;

/// Bytes of the smallest piece under a bandwidth limit: one Ethernet segment's payload.
const PIECE_MIN: usize = 1_448;

/// Bytes of the largest piece under a bandwidth limit.
const PIECE_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn link(delay_ms: u64, jitter_ms: u64, bandwidth: Option<u64>) -> Link {
        Link {
            delay: Duration::from_millis(delay_ms),
            jitter: Duration::from_millis(jitter_ms),
            bandwidth,
        }
    }

    #[test]
    fn bytes_without_delay_are_due_at_once() {
        let mut queue = ReleaseQueue::new(&link(0, 0, None), 1);
        queue.push(7, 10);
        assert_eq!(queue.due(7), 10);
        queue.delivered(10);
        assert_eq!((queue.queued(), queue.next_release_ns()), (0, None));
    }

    #[test]
    fn bytes_leave_after_the_delay_and_not_before() {
        let mut queue = ReleaseQueue::new(&link(5, 0, None), 1);
        queue.push(MS, 10);
        queue.push(2 * MS, 20);
        assert_eq!(queue.next_release_ns(), Some(6 * MS));
        assert_eq!(queue.due(6 * MS - 1), 0);
        assert_eq!(queue.due(6 * MS), 10);
        assert_eq!(queue.due(7 * MS), 30);
        queue.delivered(25);
        assert_eq!((queue.due(7 * MS), queue.queued()), (5, 5));
        assert_eq!(queue.next_release_ns(), Some(0));
    }

    #[test]
    fn serialisation_time_adds_up_and_an_idle_line_saves_nothing() {
        // 1,000,000 bytes/s: 1,000 bytes take 1 ms.
        let mut queue = ReleaseQueue::new(&link(5, 0, Some(1_000_000)), 1);
        queue.push(0, 1_000);
        queue.push(0, 1_000);
        assert_eq!(queue.due(6 * MS), 1_000);
        assert_eq!(queue.due(7 * MS - 1), 1_000);
        assert_eq!(queue.due(7 * MS), 2_000);
        queue.push(100 * MS, 1_000);
        assert_eq!(queue.due(106 * MS - 1), 2_000);
        assert_eq!(queue.due(106 * MS), 3_000);
    }

    #[test]
    fn a_large_read_is_delivered_in_pieces_under_a_bandwidth_limit() {
        let mut queue = ReleaseQueue::new(&link(0, 0, Some(1_000_000)), 1);
        queue.push(0, 100_000);
        let half = queue.due(50 * MS);
        assert!((47_000..=50_000).contains(&half), "{half} bytes after 50 ms");
        assert_eq!(queue.due(100 * MS + 1_000), 100_000);
    }

    #[test]
    fn jitter_keeps_the_order_and_its_bounds_and_repeats_by_seed() {
        let releases = |seed| {
            let mut queue = ReleaseQueue::new(&link(5, 2, None), seed);
            let mut last = 0;
            (0..1000_u64)
                .map(|i| {
                    let now = i * 10 * MS;
                    queue.push(now, 1);
                    let release = queue.next_release_ns().unwrap();
                    assert!(
                        release >= last
                            && release >= now + 3 * MS
                            && release <= now + 7 * MS + 1_000
                    );
                    last = release;
                    queue.due(release);
                    queue.delivered(1);
                    release - now
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(releases(3), releases(3));
        assert_ne!(releases(3), releases(4));
        let mean = releases(3).iter().sum::<u64>() / 1000;
        assert!((4_800_000..5_200_000).contains(&mean), "mean {mean} ns");
    }

    #[test]
    fn dense_bytes_under_jitter_never_overtake() {
        let mut queue = ReleaseQueue::new(&link(5, 5, None), 9);
        for now in 0..5000 {
            queue.push(now * 1_000, 1);
        }
        let releases: Vec<u64> = queue.marks.iter().map(|mark| mark.release_ns).collect();
        assert!(releases.is_sorted());
        assert_eq!(queue.due(u64::MAX), 5000);
    }

    #[test]
    fn the_end_waits_for_its_own_delay_and_for_all_bytes() {
        let mut queue = ReleaseQueue::new(&link(5, 0, None), 1);
        queue.push(0, 10);
        queue.push_end(MS, End::Eof);
        assert_eq!(queue.due(10 * MS), 10);
        assert_eq!(queue.take_end(10 * MS), None);
        queue.delivered(10);
        assert_eq!(queue.next_release_ns(), Some(6 * MS));
        assert_eq!(queue.take_end(6 * MS - 1), None);
        assert_eq!(queue.take_end(6 * MS), Some(End::Eof));
        assert_eq!(queue.take_end(6 * MS), None);
    }

    #[test]
    fn a_reset_replaces_an_end_of_stream_on_the_line() {
        let mut queue = ReleaseQueue::new(&link(5, 0, None), 1);
        queue.push_end(0, End::Eof);
        queue.push_end(MS, End::Reset);
        assert_eq!(queue.take_end(5 * MS), None);
        assert_eq!(queue.take_end(6 * MS), Some(End::Reset));
    }

    #[test]
    fn a_shorter_delay_does_not_let_bytes_overtake() {
        let mut queue = ReleaseQueue::new(&link(50, 0, None), 1);
        queue.push(0, 10);
        queue.set_link(&link(0, 0, None));
        queue.push(MS, 10);
        assert_eq!(queue.due(50 * MS - 1), 0);
        assert_eq!(queue.due(50 * MS), 20);
    }

    #[test]
    fn tiny_reads_share_marks() {
        let mut queue = ReleaseQueue::new(&link(5, 0, None), 1);
        for now in 0..100_000 {
            queue.push(now, 1);
        }
        assert!(queue.marks.len() <= 101, "{} marks for 100 µs", queue.marks.len());
        assert_eq!(queue.due(u64::MAX), 100_000);
    }
}
