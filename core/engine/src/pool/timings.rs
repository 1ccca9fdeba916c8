//! How long statements take, by their text, and what that lets the pool expect of the next one.
//!
//! A connection answers in order, so a statement that runs long holds up all that were placed behind
//! it. The pool can't look into a statement, but it can remember: a text that was quick so far will
//! be quick, but for a small share of its calls, and that share is what is measured.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Limits;
use crate::Time;

/// A statement's text, as the pool knows it: a number that is the same for the same text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TextKey(u32);

impl TextKey {
    /// The host says nothing about the statement: it is placed by what else is on the connections.
    pub const UNTOLD: TextKey = TextKey(0);
    /// The statement's caller wants nothing behind it.
    pub const ALONE: TextKey = TextKey(1);

    /// The key that a host was given before as a number.
    pub const fn from_number(number: u32) -> TextKey {
        TextKey(number)
    }

    /// It as a number. 0 and 1 are [`UNTOLD`](Self::UNTOLD) and [`ALONE`](Self::ALONE).
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The key of a text. Digits and what stands between single quotes don't count, so texts that
    /// differ only in the numbers and strings written into them are one.
    pub fn of(text: &str) -> TextKey {
        // FNV-1a: the texts are the program's own, and a collision costs a wrong guess.
        let mut hash = 0x811c_9dc5_u32;
        let mut quoted = false;
        for byte in text.bytes() {
            quoted ^= byte == b'\'';
            if !quoted && byte != b'\'' && !byte.is_ascii_digit() {
                hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
            }
        }
        TextKey(hash.max(2))
    }

    fn is_measured(self) -> bool {
        self.0 > 1
    }
}

/// What the pool expects of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing was said about it.
    Untold,
    /// It was never seen, takes long, or did so at times: nothing goes behind it while there is
    /// another way.
    Unsure,
    /// It was quick each time, but was seen only a few times. It takes about so long.
    Likely(Duration),
    /// It was quick, and seen often enough. It takes about so long.
    Quick(Duration),
}

impl Expected {
    /// How long others will wait for it, as far as that is known.
    pub fn takes(self) -> Duration {
        match self {
            Expected::Untold | Expected::Unsure => Duration::ZERO,
            Expected::Likely(takes) | Expected::Quick(takes) => takes,
        }
    }

    /// Whether nothing is to go behind it.
    pub fn is_unsure(self) -> bool {
        self == Expected::Unsure
    }
}

/// How long the texts of one pool took. It is shared by its connections, and threads may read and
/// write it at the same time: a measurement that is lost by that does no harm.
///
/// It keeps 4,096 texts in 32 KiB; one more takes the place of another, which is then new again.
pub struct Timings {
    /// Sets of [`WAYS`] entries; a text is in one of those of its set. Made for the first text.
    entries: OnceLock<Box<[AtomicU64]>>,
    slow_head: Duration,
}

/// What is remembered of one text, in one word so that it is read and written whole.
#[derive(Clone, Copy)]
struct Entry {
    /// Bits of the key that don't say the set.
    tag: u32,
    /// How long it takes as a rule, in microseconds.
    typical: u32,
    /// The share of its calls that took long, of [`WHOLE`].
    slow: u32,
    /// How long those took: a power of two of microseconds; 0 if there was none.
    slow_log: u32,
}

const SETS: usize = 1024;
const WAYS: usize = 4;

const TAG_BITS: u32 = 22;
const TYPICAL_BITS: u32 = 20;
const SLOW_BITS: u32 = 16;
const SLOW_LOG_BITS: u32 = 6;
const TYPICAL_MAX: u32 = (1 << TYPICAL_BITS) - 1;

/// A share of one.
const WHOLE: u32 = (1 << SLOW_BITS) - 1;

/// What one call counts in the share: 1/64. The last hundred or so decide.
const CALL: u32 = WHOLE >> 6;

/// A text is unsure above this share: two slow calls among about forty, or the first of a new text,
/// which begins with one slow call on its account.
const UNSURE_ABOVE: u32 = CALL + CALL / 2;

/// A new text is only likely to be quick until its share has fallen to this: for 32 calls.
const LIKELY_ABOVE: u32 = CALL * 3 / 5;

/// What a new measurement counts in the typical time: 1/4 where it is less, and 1/32 where it is more. A
/// pause of the client's own machine looks like a slow statement, and nothing looks like a fast one.
const LESS_WEIGHT: i64 = 4;
const MORE_WEIGHT: i64 = 32;

impl Timings {
    /// Without any.
    pub fn new(limits: &Limits) -> Timings {
        Timings { entries: OnceLock::new(), slow_head: limits.slow_head }
    }

    /// What the next statement of this text will be like.
    pub fn expected(&self, key: TextKey) -> Expected {
        match key {
            TextKey::UNTOLD => return Expected::Untold,
            TextKey::ALONE => return Expected::Unsure,
            _ => {}
        }
        let Some((_, entry)) = self.find(key) else { return Expected::Unsure };
        let typical = Duration::from_micros(entry.typical.into());
        let takes = typical + entry.risk();
        match entry.slow {
            slow if slow > UNSURE_ABOVE || typical > self.slow_head => Expected::Unsure,
            slow if slow > LIKELY_ABOVE => Expected::Likely(takes),
            _ => Expected::Quick(takes),
        }
    }

    /// Whether no statement of this text has ended yet.
    pub(super) fn is_new(&self, key: TextKey) -> bool {
        key.is_measured() && self.find(key).is_none()
    }

    /// A statement took this long at the server, on a connection whose round trip takes `trip`.
    /// Whether that is long: longer than [`Limits::slow_head`] and than a trip.
    pub fn took(&self, key: TextKey, took: Duration, trip: Duration) -> bool {
        let slow = took > self.slow_head.max(trip);
        if !key.is_measured() {
            return slow;
        }
        let micros = u32::try_from(micros_of(took)).unwrap_or(TYPICAL_MAX).clamp(1, TYPICAL_MAX);
        let (at, old) = match self.find(key) {
            Some(found) => found,
            None => {
                let new = Entry { tag: tag(key), typical: micros, slow: CALL, slow_log: 0 };
                (place_for(self.entries(), key), new)
            }
        };
        let typical = i64::from(old.typical);
        let change = i64::from(micros) - typical;
        let step = change / if change < 0 { LESS_WEIGHT } else { MORE_WEIGHT };
        let share = old.slow - old.slow / 64 + if slow { CALL } else { 0 };
        let entry = Entry {
            typical: u32::try_from(typical + step).unwrap_or(0),
            slow: share.min(WHOLE),
            slow_log: if slow { micros.ilog2().max(old.slow_log) } else { old.slow_log },
            ..old
        };
        self.entries()[at].store(entry.packed(), Ordering::Relaxed);
        slow
    }

    fn entries(&self) -> &[AtomicU64] {
        self.entries.get_or_init(|| (0..SETS * WAYS).map(|_| AtomicU64::new(0)).collect())
    }

    fn find(&self, key: TextKey) -> Option<(usize, Entry)> {
        let entries = self.entries.get()?;
        let first = set(key);
        (first..first + WAYS).find_map(|at| {
            let entry = Entry::unpacked(entries[at].load(Ordering::Relaxed))?;
            (entry.tag == tag(key)).then_some((at, entry))
        })
    }
}

/// Where a new text goes: to a free place of its set, or else to one that its key says.
fn place_for(entries: &[AtomicU64], key: TextKey) -> usize {
    let first = set(key);
    let free = (first..first + WAYS).find(|at| entries[*at].load(Ordering::Relaxed) == 0);
    free.unwrap_or(first + tag(key) as usize % WAYS)
}

/// Without the 128 bits of `as_micros`.
fn micros_of(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000).saturating_add(time.subsec_micros().into())
}

fn set(key: TextKey) -> usize {
    key.0 as usize % SETS * WAYS
}

/// Never zero, so that an entry never is.
fn tag(key: TextKey) -> u32 {
    (key.0 / SETS as u32).max(1)
}

impl Entry {
    /// What its slow calls add to the time of each, on average: how long others will wait behind it is
    /// as sure as that.
    fn risk(self) -> Duration {
        match self.slow_log {
            0 => Duration::ZERO,
            log => Duration::from_micros((u64::from(self.slow) << log) / u64::from(WHOLE)),
        }
    }

    fn packed(self) -> u64 {
        let Entry { tag, typical, slow, slow_log } = self;
        let fields = [(typical, TYPICAL_BITS), (slow, SLOW_BITS), (slow_log, SLOW_LOG_BITS)];
        fields.iter().fold(u64::from(tag), |word, (value, bits)| word << bits | u64::from(*value))
    }

    fn unpacked(word: u64) -> Option<Entry> {
        let field = |word: u64, bits: u32| (word & ((1 << bits) - 1)) as u32;
        let above = |bits: u32| word >> bits;
        (word != 0).then(|| Entry {
            tag: field(above(TYPICAL_BITS + SLOW_BITS + SLOW_LOG_BITS), TAG_BITS),
            typical: field(above(SLOW_BITS + SLOW_LOG_BITS), TYPICAL_BITS),
            slow: field(above(SLOW_LOG_BITS), SLOW_BITS),
            slow_log: field(word, SLOW_LOG_BITS),
        })
    }
}

impl std::fmt::Debug for Timings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timings").field("slow_head", &self.slow_head).finish_non_exhaustive()
    }
}

/// A round trip that is longer than the shortest by less than this part of it shows no work of the
/// server.
const JITTER: u32 = 8;

/// The statements on one shared connection of which the pool expects something, and when the last of
/// them ended. Replies come in order, so what a statement took is counted from the end of the one in
/// front of it.
#[derive(Debug)]
pub struct Workload {
    statements: usize,
    unsure: usize,
    expected: Duration,
    last_end: Time,
    /// About how long a round trip takes: the shortest that was seen.
    trip: Duration,
}

/// One statement of a [`Workload`], kept with its request until that ends.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    key: TextKey,
    expected: Expected,
    began: Time,
}

/// A statement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How long it took at the server.
    pub took: Duration,
    /// Statements that wait behind it.
    pub behind: usize,
    /// Its text.
    pub key: TextKey,
    /// Whether it took long.
    pub slow: bool,
}

impl Task {
    /// Its text.
    pub fn key(&self) -> TextKey {
        self.key
    }
}

impl Workload {
    /// Of a connection without any, on which a round trip takes no longer than this, as its login
    /// showed.
    pub fn new(trip: Duration) -> Workload {
        let (expected, last_end) = (Duration::ZERO, Time::ZERO);
        Workload { statements: 0, unsure: 0, expected, last_end, trip }
    }

    /// About how long a round trip takes.
    pub fn trip(&self) -> Duration {
        self.trip
    }

    /// A round trip takes no longer than this.
    pub fn see_trip(&mut self, trip: Duration) {
        self.trip = self.trip.min(trip);
    }

    /// A statement was put on the connection.
    pub fn begin(&mut self, now: Time, key: TextKey, timings: &Timings) -> Task {
        let expected = timings.expected(key);
        self.statements += 1;
        self.unsure += usize::from(expected.is_unsure());
        self.expected += expected.takes();
        Task { key, expected, began: now }
    }

    /// A statement left the connection without running: it was taken back, or the connection ended.
    pub fn leave(&mut self, task: Task) {
        self.statements = self.statements.saturating_sub(1);
        self.unsure = self.unsure.saturating_sub(usize::from(task.expected.is_unsure()));
        self.expected = self.expected.saturating_sub(task.expected.takes());
    }

    /// Nothing is unanswered, so nothing is expected: a statement whose end was never told holds up
    /// nobody for longer than this.
    pub fn clear(&mut self) {
        (self.statements, self.unsure, self.expected) = (0, 0, Duration::ZERO);
    }

    /// Its reply is complete, and says nothing of how long it took: it was not sent when it was put there.
    pub fn pass(&mut self, now: Time, task: Task) {
        self.leave(task);
        self.last_end = now;
    }

    /// Its reply is complete.
    pub fn end(&mut self, now: Time, task: Task, timings: &Timings) -> Ended {
        self.leave(task);
        let first = task.began > self.last_end;
        let since = now.since(task.began.max(self.last_end));
        self.last_end = now;
        // What came behind another one was under way while that ran.
        let took = if first { self.beyond_trip(since) } else { since };
        if first {
            self.see_trip(since);
        }
        let slow = timings.took(task.key, took, self.trip);
        Ended { took, behind: self.statements, key: task.key, slow }
    }

    /// What of this time was not spent on the way.
    fn beyond_trip(&self, since: Duration) -> Duration {
        let beyond = since.saturating_sub(self.trip);
        if beyond > self.trip / JITTER { beyond } else { Duration::ZERO }
    }

    /// Statements after which nothing is to be placed.
    pub fn unsure(&self) -> usize {
        self.unsure
    }

    /// The sum of what the others are expected to take.
    pub fn expected(&self) -> Duration {
        self.expected
    }
}
