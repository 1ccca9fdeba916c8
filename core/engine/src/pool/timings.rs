//! How long the statements of each text take, and what the pool expects of the next one.
//!
//! A connection answers in order, so a slow statement holds up all that were placed behind it. The
//! pool can't look into a statement, but it can remember its text: a text that was quick so far
//! will be quick again, except for a small share of its calls. That share is measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::Limits;
use crate::{Cause, End, Failure, Holders, Outcome, Time};

/// The pool's name for the text of a statement: the same number for the same text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TextKey(u32);

impl TextKey {
    /// The host does not name the text. The statement is placed by the load of the connections
    /// only.
    pub const UNTOLD: TextKey = TextKey(0);
    /// The caller wants no other statement behind it.
    pub const ALONE: TextKey = TextKey(1);

    /// The key for a number that [`number`](Self::number) returned.
    pub const fn from_number(number: u32) -> TextKey {
        TextKey(number)
    }

    /// The key as a number. 0 and 1 are [`UNTOLD`](Self::UNTOLD) and [`ALONE`](Self::ALONE).
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The same key, for a text whose statements may wait for a lock that somebody holds.
    #[must_use]
    pub const fn locking(self, locks: bool) -> TextKey {
        match locks && self.is_measured() {
            true => TextKey(self.0 | LOCKS),
            false => self,
        }
    }

    /// Whether its statements may wait for a lock.
    pub const fn may_lock(self) -> bool {
        self.0 & LOCKS != 0
    }

    /// The same key, for statements that are never taken away from those behind them: those of a
    /// text like CALL, whose error does not prove that it had no effect, and those of a pipeline.
    #[must_use]
    pub const fn staying(self, stays: bool) -> TextKey {
        match stays && self.is_measured() {
            true => TextKey(self.0 | STAYS),
            false => self,
        }
    }

    /// Whether its statements may wait for a lock, and are never taken away.
    pub const fn stays(self) -> bool {
        self.may_lock() && self.0 & STAYS != 0
    }

    /// The key of a text. Digits and everything between single quotes are left out, so that texts
    /// that differ only in literal numbers and strings have the same key.
    pub fn of(text: &str) -> TextKey {
        // FNV-1a. The texts are the program's own, and a collision costs no more than a wrong
        // guess.
        let mut hash = 0x811c_9dc5_u32;
        let mut quoted = false;
        for byte in text.bytes() {
            quoted ^= byte == b'\'';
            if !quoted && byte != b'\'' && !byte.is_ascii_digit() {
                hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
            }
        }
        TextKey((hash & !(LOCKS | STAYS)).max(2))
    }

    const fn is_measured(self) -> bool {
        self.0 > 1
    }
}

/// The bit of a key that says that the statements may wait for a lock.
const LOCKS: u32 = 1 << 31;

/// The bit of a key that says that they are never taken away.
const STAYS: u32 = 1 << 30;

/// What the pool expects of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The host did not name its text.
    Untold,
    /// Its text is new, takes long, or did so at times. Nothing is placed behind it while there is
    /// another way.
    Unsure,
    /// Each call of its text was quick, but there were only a few. It takes about this long.
    Likely(Duration),
    /// Its text was quick, and was seen often enough. It takes about this long.
    Quick(Duration),
    /// Its text was quick, but its statements may wait for a lock, and then for any time. It goes
    /// behind others of its kind, and no other statement behind it while there is another way.
    Locking(Duration),
}

impl Expected {
    /// How long statements behind it will wait for it, as far as that is known.
    pub fn takes(self) -> Duration {
        match self {
            Expected::Untold | Expected::Unsure => Duration::ZERO,
            Expected::Likely(takes) | Expected::Quick(takes) | Expected::Locking(takes) => takes,
        }
    }

    /// Whether nothing shall be placed behind it.
    pub fn is_unsure(self) -> bool {
        self == Expected::Unsure
    }

    /// Whether it may wait for a lock, and is expected not to.
    pub fn is_locking(self) -> bool {
        matches!(self, Expected::Locking(_))
    }
}

/// How long the statements of each text took, for one pool. The connections share it, and threads
/// may read and write it at the same time; if a measurement is lost by that, it does no harm.
///
/// It keeps 4,096 texts in 32 KiB. A further text takes the place of another, which then counts as
/// new again.
pub struct Timings {
    /// Sets of [`WAYS`] entries. A text is in one entry of its set. Allocated for the first text.
    entries: OnceLock<Box<[AtomicU64]>>,
    slow_head: Duration,
    /// The same in whole microseconds, in which typical times are kept.
    slow_head_micros: u64,
    yield_after: Duration,
    wait_timeout: Duration,
    holders: Arc<Holders>,
}

/// The record of one text, in one word so that it is read and written as a whole.
#[derive(Clone, Copy)]
struct Entry {
    /// The bits of the key that don't choose the set.
    tag: u32,
    /// How long a call takes as a rule, in microseconds.
    typical: u32,
    /// The share of its calls that took long, of [`WHOLE`].
    slow: u32,
    /// How long the slow calls took, as the exponent of a power of two of microseconds. 0 if there
    /// was none.
    slow_log: u32,
}

const SETS: usize = 1024;
const WAYS: usize = 4;

const TAG_BITS: u32 = 22;
const TYPICAL_BITS: u32 = 20;
const SLOW_BITS: u32 = 16;
const SLOW_LOG_BITS: u32 = 6;
const TYPICAL_MAX: u32 = (1 << TYPICAL_BITS) - 1;

/// A share of 100 %.
const WHOLE: u32 = (1 << SLOW_BITS) - 1;

/// How much one call counts in the share: 1/64. About the last hundred calls decide.
const CALL: u32 = WHOLE >> 6;

/// Above this share a text is unsure. Two slow calls among about forty exceed it, or one early slow
/// call of a new text, since each text begins with one slow call on its account.
const UNSURE_ABOVE: u32 = CALL + CALL / 2;

/// A new text is only likely to be quick until its share has fallen to this, after 32 calls.
const LIKELY_ABOVE: u32 = CALL * 3 / 5;

/// How much a measurement counts in the typical time: 1/4 if it is less than that, and 1/32 if it
/// is more. A pause of the client's own machine looks like a slow statement; nothing looks like a
/// fast one.
const LESS_WEIGHT: i64 = 4;
const MORE_WEIGHT: i64 = 32;

impl Timings {
    /// Without any measurement.
    pub fn new(limits: &Limits) -> Timings {
        Timings {
            entries: OnceLock::new(),
            slow_head: limits.slow_head,
            slow_head_micros: micros_of(limits.slow_head),
            yield_after: limits.yield_after_of_members(),
            wait_timeout: limits.wait_timeout,
            holders: Arc::default(),
        }
    }

    /// For the [limit of the same name](crate::Limits::yield_after) of each connection of the pool.
    pub fn yield_after(&self) -> Duration {
        self.yield_after
    }

    /// For [`wait_behind_max`](crate::Limits::wait_behind_max) of each connection of the pool.
    pub fn wait_timeout(&self) -> Duration {
        self.wait_timeout
    }

    /// Whether a caller has a connection of the pool to itself.
    pub fn holders(&self) -> &Arc<Holders> {
        &self.holders
    }

    /// What the pool expects of the next statement of this text.
    pub fn expected(&self, key: TextKey) -> Expected {
        match self.learned(key) {
            // One that waits for a lock and is waited for by its holder would wait for ever.
            Expected::Likely(_) | Expected::Quick(_) if key.may_lock() && self.holders.any() => {
                Expected::Unsure
            }
            Expected::Likely(takes) | Expected::Quick(takes) if key.may_lock() => {
                Expected::Locking(takes)
            }
            learned => learned,
        }
    }

    /// The same by its time alone, whatever it may wait for.
    pub fn learned(&self, key: TextKey) -> Expected {
        match key {
            TextKey::UNTOLD => return Expected::Untold,
            TextKey::ALONE => return Expected::Unsure,
            _ => {}
        }
        let Some((_, entry)) = self.find(key) else { return Expected::Unsure };
        let typical = u64::from(entry.typical);
        if entry.slow > UNSURE_ABOVE || typical > self.slow_head_micros {
            return Expected::Unsure;
        }
        let takes = Duration::from_micros(typical + entry.risk_micros());
        match entry.slow {
            slow if slow > LIKELY_ABOVE => Expected::Likely(takes),
            _ => Expected::Quick(takes),
        }
    }

    /// Whether no statement of this text has ended yet.
    pub(super) fn is_new(&self, key: TextKey) -> bool {
        key.is_measured() && self.find(key).is_none()
    }

    /// A statement took this long at the server, on a connection whose round trip takes `trip`.
    /// Returns whether it was slow: longer than [`Limits::slow_head`] and than a round trip.
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

    // JavaScript's module, whose size counts for more, has it once.
    #[cfg_attr(not(target_family = "wasm"), inline(always))]
    fn find(&self, key: TextKey) -> Option<(usize, Entry)> {
        let entries = self.entries.get()?;
        let first = set(key);
        (first..first + WAYS).find_map(|at| {
            let entry = Entry::unpacked(entries[at].load(Ordering::Relaxed))?;
            (entry.tag == tag(key)).then_some((at, entry))
        })
    }
}

/// The place for a new text: a free one of its set, or else one that its key chooses.
fn place_for(entries: &[AtomicU64], key: TextKey) -> usize {
    let first = set(key);
    let free = (first..first + WAYS).find(|at| entries[*at].load(Ordering::Relaxed) == 0);
    free.unwrap_or(first + tag(key) as usize % WAYS)
}

/// Avoids the 128-bit arithmetic of `as_micros`.
fn micros_of(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000).saturating_add(time.subsec_micros().into())
}

fn set(key: TextKey) -> usize {
    (key.0 & !STAYS) as usize % SETS * WAYS
}

/// Never zero, so that no entry is.
fn tag(key: TextKey) -> u32 {
    ((key.0 & !STAYS) / SETS as u32).max(1)
}

impl Entry {
    /// What the slow calls add to the time of each call on average. Statements behind it must
    /// expect to wait that much longer.
    fn risk_micros(self) -> u64 {
        match self.slow_log {
            0 => 0,
            log => (u64::from(self.slow) << log) / u64::from(WHOLE),
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

/// A reply that takes longer than the shortest round trip, by less than this fraction of it, shows
/// no work of the server.
const JITTER: u32 = 8;

/// The statements on one shared connection that the pool has expectations of, and when the last of
/// them ended. Replies come in order, so the time of a statement is counted from the end of the one
/// in front of it.
#[derive(Debug)]
pub struct Workload {
    statements: usize,
    unsure: usize,
    locking: usize,
    staying: usize,
    expected: Duration,
    last_end: Time,
    /// The shortest round trip that was seen.
    trip: Duration,
    pipeline: Members,
}

/// The members of a pipeline whose replies are complete, until its sync point is answered.
#[derive(Debug, Default)]
struct Members {
    keys: Vec<TextKey>,
    /// When the server could begin with the first, at the earliest.
    began: Time,
    /// Nothing was in front of the first.
    is_first: bool,
}

/// Members of a pipeline that are measured; those behind them are not.
const MEMBERS_MAX: usize = 64;

/// One statement of a [`Workload`], kept with its request until that ends.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    key: TextKey,
    expected: Expected,
    began: Time,
    stays: bool,
    is_member: bool,
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
    /// A connection without statements. `trip` is a round trip that its login showed.
    pub fn new(trip: Duration) -> Workload {
        let (expected, last_end) = (Duration::ZERO, Time::ZERO);
        let pipeline = Members::default();
        Workload {
            statements: 0,
            unsure: 0,
            locking: 0,
            staying: 0,
            expected,
            last_end,
            trip,
            pipeline,
        }
    }

    /// About how long a round trip takes: the shortest that was seen.
    pub fn trip(&self) -> Duration {
        self.trip
    }

    /// Reports a round trip that took this long.
    pub fn see_trip(&mut self, trip: Duration) {
        self.trip = self.trip.min(trip);
    }

    /// A statement was put on the connection.
    pub fn begin(&mut self, now: Time, key: TextKey, timings: &Timings) -> Task {
        let expected = timings.expected(key);
        let task = Task { key, expected, began: now, stays: key.stays(), is_member: false };
        self.count(&task);
        self.expected += expected.takes();
        task
    }

    /// The same for a member of a pipeline, which is never taken away.
    pub fn begin_member(&mut self, now: Time, key: TextKey, timings: &Timings) -> Task {
        let task = self.begin(now, key.staying(true), timings);
        Task { is_member: true, ..task }
    }

    fn count(&mut self, task: &Task) {
        self.statements += 1;
        self.unsure += usize::from(task.expected.is_unsure());
        self.locking += usize::from(task.key.may_lock());
        self.staying += usize::from(task.stays);
    }

    /// A statement left the connection without running: it was taken back, or the connection ended.
    pub fn leave(&mut self, task: Task) {
        self.statements = self.statements.saturating_sub(1);
        self.unsure = self.unsure.saturating_sub(usize::from(task.expected.is_unsure()));
        self.locking = self.locking.saturating_sub(usize::from(task.key.may_lock()));
        self.staying = self.staying.saturating_sub(usize::from(task.stays));
        self.expected = self.expected.saturating_sub(task.expected.takes());
    }

    /// A statement is sent again. It may have held up those behind it, so no other is placed behind
    /// it now.
    pub fn restart(&mut self, task: &mut Task) {
        self.leave(*task);
        task.expected = Expected::Unsure;
        self.count(task);
    }

    /// A statement has ended like this for its caller. Returns how it ended at the server, where that
    /// is known of it alone.
    pub fn ended(&mut self, now: Time, task: Task, end: &End, timings: &Timings) -> Option<Ended> {
        if matches!(end, End::Failed(Failure { outcome: Outcome::NotSent, .. })) {
            self.leave(task);
            return None;
        }
        if matches!(end, End::Failed(Failure { cause: Cause::Deadline, .. })) {
            // The server may still be at it. Nothing tells of its answer, so what stays does so until
            // nothing is unanswered.
            self.staying += usize::from(task.stays);
        }
        if task.is_member {
            self.end_member(now, task, !matches!(end, End::Failed(_)));
            return None;
        }
        Some(self.end(now, task, timings))
    }

    /// Nothing is unanswered, so all expectations are dropped. If the end of a statement was never
    /// reported, it holds up others no longer than this.
    pub fn clear(&mut self) {
        (self.statements, self.unsure, self.locking, self.staying) = (0, 0, 0, 0);
        self.expected = Duration::ZERO;
    }

    /// Its reply is complete, but says nothing about its time, because it was not sent when it was
    /// placed.
    pub fn pass(&mut self, now: Time, task: Task) {
        self.leave(task);
        self.last_end = now;
    }

    /// The reply to a member of a pipeline is complete. How long it took is not known, since the
    /// server sends the replies of a pipeline when it likes.
    pub fn end_member(&mut self, now: Time, task: Task, completed: bool) {
        let members = &mut self.pipeline;
        if members.keys.is_empty() {
            members.began = task.began.max(self.last_end);
            members.is_first = task.began > self.last_end;
        }
        match completed {
            true if members.keys.len() < MEMBERS_MAX => members.keys.push(task.key),
            true => {}
            false => members.keys.clear(),
        }
        self.pass(now, task);
    }

    /// The sync point of a pipeline is answered. If all its members together were quick, so was
    /// each of them. If they were not, it is not known which of them is slow.
    pub fn end_pipeline(&mut self, now: Time, timings: &Timings) {
        let Members { began, is_first, .. } = self.pipeline;
        let since = now.since(began);
        let took = if is_first { self.beyond_trip(since) } else { since };
        let is_quick = took <= timings.slow_head.max(self.trip);
        let count = u32::try_from(self.pipeline.keys.len()).unwrap_or(u32::MAX).max(1);
        for key in self.pipeline.keys.drain(..) {
            if is_quick {
                timings.took(key, took / count, self.trip);
            }
        }
    }

    /// Its reply is complete.
    pub fn end(&mut self, now: Time, task: Task, timings: &Timings) -> Ended {
        self.leave(task);
        let first = task.began > self.last_end;
        let since = now.since(task.began.max(self.last_end));
        self.last_end = now;
        // A statement that was sent behind another was already at the server while that ran.
        let took = if first { self.beyond_trip(since) } else { since };
        if first {
            self.see_trip(since);
        }
        let slow = timings.took(task.key, took, self.trip);
        Ended { took, behind: self.statements, key: task.key, slow }
    }

    /// The part of this time that exceeds the round trip.
    fn beyond_trip(&self, since: Duration) -> Duration {
        let beyond = since.saturating_sub(self.trip);
        if beyond > self.trip / JITTER { beyond } else { Duration::ZERO }
    }

    /// Statements behind which nothing shall be placed.
    pub fn unsure(&self) -> usize {
        self.unsure
    }

    /// Statements that may wait for a lock, whatever else is expected of them.
    pub fn locking(&self) -> usize {
        self.locking
    }

    /// Those of them that are never taken away from what is behind them.
    pub fn staying(&self) -> usize {
        self.staying
    }

    /// The sum of the times that the other statements are expected to take.
    pub fn expected(&self) -> Duration {
        self.expected
    }
}
