//! Where a shared statement goes: what is known of each connection's load, and the choice.

use std::time::Duration;

use super::{Expected, IdleOrder, Limits};
use crate::Time;

/// What a host knows of the work on one connection.
///
/// A statement counts from the moment in which the connection was chosen for it, before it is
/// encoded and sent, until its reply is complete. A host that counts later lets two callers find
/// the same connection idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Statements without a complete reply, sent or not. The connection is idle if there are none.
    pub unanswered: usize,
    /// Bytes of them.
    pub unanswered_bytes: usize,
    /// If statements are unanswered: when the oldest of them was sent, or chosen for this
    /// connection if it was not sent yet. A host that knows the round trip adds it to this time, so
    /// that a distant server does not look slow. On an idle connection: when the last statement was
    /// answered ([`Time::ZERO`] if there was none yet).
    pub since: Time,
    /// How many more it takes before its window and queue are full; [`usize::MAX`] for a host that
    /// does not count them. At 0 the connection is left out, unless it is idle.
    pub room: usize,
    /// How long the server is expected to work on them
    /// ([`Workload::expected`](super::Workload::expected)).
    pub expected: Duration,
    /// How many of them may be slow ([`Workload::unsure`](super::Workload::unsure)).
    pub unsure: usize,
    /// How many of them may wait for a lock ([`Workload::locking`](super::Workload::locking)).
    pub locking: usize,
    /// How many of those are never taken away from what is behind them
    /// ([`Workload::staying`](super::Workload::staying)).
    pub staying: usize,
    /// About how long a round trip takes ([`Workload::trip`](super::Workload::trip)).
    pub trip: Duration,
}

impl Load {
    /// Whether nothing is on the connection.
    pub fn is_idle(&self) -> bool {
        self.unanswered == 0
    }

    pub(super) fn takes_shared(&self) -> bool {
        self.room > 0 || self.is_idle()
    }

    /// Whether such a statement put here would wait behind one that is slow or may be.
    pub(super) fn is_slow(&self, asked: &Asked<'_>) -> bool {
        !self.is_idle() && (self.since < asked.slow_before || self.may_be_slow(asked.of))
    }

    /// Whether nothing but time shows that a statement put here would not wait for long.
    fn may_be_slow(&self, of: Expected) -> bool {
        self.unsure > 0 || self.locking > 0 && !of.is_locking()
    }

    /// Whether it looks to such a statement as if one here waits for a lock. A statement whose
    /// caller has gone is unanswered, but nothing is known of it any more. A host that names no texts
    /// knows nothing of any.
    pub(super) fn is_stuck(&self, asked: &Asked<'_>) -> bool {
        let is_told = !matches!(asked.of, Expected::Untold);
        let is_unknown = is_told && self.unsure == 0 && self.expected.is_zero();
        (self.locking > 0 || is_unknown)
            && self.staying == 0
            && self.late_at(asked.limits) <= asked.now
    }

    /// When something here will have taken so long that it might wait for a lock, though no text
    /// shows that.
    pub(super) fn late_at(&self, limits: &Limits) -> Time {
        if self.is_idle() { Time::NEVER } else { self.since.after(limits.yield_after / 2) }
    }

    /// Up to this much work, a quick statement goes here rather than to an idle connection. A
    /// quarter of a round trip is not noticed: it is within the jitter.
    fn share_wait(&self, limits: &Limits) -> Duration {
        limits.share_wait.max(self.trip / 4)
    }

    /// The lower the better.
    pub(super) fn rank(&self, asked: &Asked<'_>) -> Rank {
        self.rank_by(asked, self.share_wait(asked.limits))
    }

    fn rank_by(&self, asked: &Asked<'_>, share_wait: Duration) -> Rank {
        let (of, limits) = (asked.of, asked.limits);
        let statements = self.unanswered.saturating_mul(STATEMENT_WEIGHT);
        let weight = self.unanswered_bytes.saturating_add(statements);
        match limits.idle_order {
            IdleOrder::Lifo if self.is_idle() => Rank::Idle(u64::MAX - self.since.as_nanos()),
            IdleOrder::Fifo if self.is_idle() => Rank::Idle(self.since.as_nanos()),
            _ if self.staying > 0 && !of.is_locking() => {
                Rank::Staying(asked.now.since(self.since), weight)
            }
            _ if self.is_slow(asked) => {
                let age = asked.now.since(self.since);
                // What waits for a lock is taken away, so its age says little.
                let stuck = if self.is_stuck(asked) { limits.yield_after / 2 } else { age };
                Rank::Slow(age.min(stuck), weight, self.may_be_slow(of))
            }
            _ if matches!(of, Expected::Untold) => Rank::Busy(Duration::ZERO, weight),
            // It keeps other statements away from here, so it would rather wait for its own kind.
            _ if of.is_locking() && self.locking == 0 => {
                Rank::Busy(self.expected * 2 + share_wait, weight)
            }
            _ if self.expected > share_wait => Rank::Busy(self.expected, weight),
            _ => Rank::Joined(self.expected, weight),
        }
    }
}

/// A statement that is to be placed, and when. What every load is held against is computed once.
pub(super) struct Asked<'a> {
    now: Time,
    limits: &'a Limits,
    of: Expected,
    /// A statement that has been running since before this moment is slow.
    slow_before: Time,
}

impl Asked<'_> {
    pub(super) fn new(now: Time, limits: &Limits, of: Expected) -> Asked<'_> {
        Asked { now, limits, of, slow_before: now.before(limits.slow_head) }
    }
}

/// How well a connection would do, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Idle(u64),
    /// The work in front is negligible.
    Joined(Duration, usize),
    Busy(Duration, usize),
    /// A statement put here would wait behind one of this age that is slow or may be.
    Slow(Duration, usize, bool),
    /// The same, and that may wait for a lock, and is never taken away.
    Staying(Duration, usize),
}

/// Up to this many unanswered statements share one connection. More are worth the wake of another
/// one: the server works on several connections at once, and so do the client's threads.
const SHARED_MAX: usize = 32;

/// What a statement weighs in addition to its bytes, since the server works for each, however
/// short. About the size of a small statement, so that their number decides between small ones and
/// their bytes between large ones.
const STATEMENT_WEIGHT: usize = 256;

/// What [`choose`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice<K> {
    /// The connection to put the statement on; `None` if none can take it.
    pub on: Option<K>,
    /// Whether one more connection would help. Then call [`Pool::grow`](super::Pool::grow).
    pub helps: bool,
    /// What it would be placed behind there: see [`Patience::waits`].
    pub behind: Behind,
    /// What was expected of the statement.
    pub of: Expected,
}

/// What a statement is placed behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Nothing: the connection is idle.
    Nothing,
    /// Statements that are expected to be quick.
    Quick,
    /// A statement that has been running for so long that it is slow.
    Slow(Duration),
    /// A statement that may be slow.
    Unsure,
    /// A statement that seems to wait for a lock, as on all other connections. It will be
    /// [taken away](super::Limits::yield_after).
    Stuck,
    /// A statement that may wait for a lock, and is never taken away.
    Staying,
}

impl<K> Choice<K> {
    /// Whether the choice is still right, now that its connection has this load. A host with many
    /// threads asks once it has the connection's lock, because another thread may have put a slow
    /// statement there meanwhile.
    pub fn holds(&self, now: Time, limits: &Limits, load: Load) -> bool {
        match self.behind {
            Behind::Slow(_) | Behind::Unsure | Behind::Stuck | Behind::Staying => true,
            // Two threads that found it idle must not go one behind the other.
            Behind::Nothing if self.of.is_unsure() => load.is_idle(),
            Behind::Nothing | Behind::Quick => !load.is_slow(&Asked::new(now, limits, self.of)),
        }
    }
}

/// When a statement waits in line rather than behind another statement. See
/// [`Pool::patience`](super::Pool::patience).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Another connection is being opened or may be. A statement waits for it rather than behind
    /// one that has been running for longer than this.
    pub coming: Option<Duration>,
    /// There is another connection besides the chosen one, or one may be opened.
    pub others: bool,
    /// Somebody has a connection to himself, and so may hold a lock and wait for the statement.
    pub holders: bool,
}

impl Patience {
    /// Whether a statement for which this was the best choice waits in line.
    pub fn waits<K>(&self, choice: &Choice<K>) -> bool {
        match (choice.behind, choice.of) {
            (Behind::Nothing, _) => false,
            // Whoever holds that lock may wait for this very statement.
            (Behind::Stuck, _) => self.coming.is_some(),
            // Nothing frees what is behind it. In line it waits for no longer than a limit.
            (Behind::Staying, _) if self.holders => true,
            (_, Expected::Unsure) => self.others,
            (Behind::Quick, _) => false,
            (Behind::Slow(age), Expected::Untold) => self.coming.is_some_and(|max| age > max),
            (Behind::Slow(_) | Behind::Unsure | Behind::Staying, _) => self.others,
        }
    }
}

/// Where to put one shared statement, `of` being what is expected of it:
///
/// 1. if it is known to be quick, on the busy connection with the least work, as long as all
///    connections together have at most [`Limits::share_wait`] of work (or a quarter of a round
///    trip, if that is more), and less than 32 statements: for so few, no other connection needs to
///    be woken or opened;
/// 2. on an idle connection, the first by [`Limits::idle_order`]; if it may be slow, on the second, so
///    that quick statements keep the one on which they are prepared;
/// 3. on the one whose work is expected to take least time, and then by bytes and number of
///    statements;
/// 4. only if there is no other, on one with a statement that is slower than
///    [`Limits::slow_head`] or may be, the youngest of these; if all are late, and one seems to wait
///    for a lock, on such a one with the least bytes and statements;
/// 5. last, on one with a statement that may wait for a lock and is never taken away.
///
/// A statement that may wait for a lock goes behind its own kind. For any other, one that may is as
/// one that may be slow.
///
/// Among equals it is the first. [`Patience::waits`] decides whether the statement goes there or
/// waits.
///
/// The choice depends only on the arguments, so a host with many threads can call it without a
/// lock, with the connections that [`Output::Shared`](super::Output::Shared) opened to shared work.
/// `K` is whatever names a connection there.
pub fn choose<K>(
    now: Time,
    limits: &Limits,
    of: Expected,
    loads: impl IntoIterator<Item = (K, Load)>,
) -> Choice<K> {
    let (mut best, mut joined, mut next_idle) = (None, None, None);
    let (mut work, mut share_wait, mut statements) = (Duration::ZERO, limits.share_wait, 0_usize);
    let (mut are_late, mut is_any_stuck) = (true, false);
    let asked = Asked::new(now, limits, of);
    for (key, load) in loads {
        if !load.takes_shared() {
            continue;
        }
        are_late = are_late && load.late_at(limits) <= now;
        is_any_stuck |= are_late && load.is_stuck(&asked);
        let own_wait = load.share_wait(limits);
        let rank = load.rank_by(&asked, own_wait);
        work += load.expected;
        share_wait = share_wait.max(own_wait);
        statements = statements.saturating_add(load.unanswered);
        // The first among equals.
        let least = match rank {
            Rank::Joined(..) => &mut joined,
            _ => &mut best,
        };
        let beaten = match least.as_ref().is_none_or(|(least, _)| rank < *least) {
            true => least.replace((rank, key)),
            false => Some((rank, key)),
        };
        if let Some((idle @ Rank::Idle(_), key)) = beaten
            && next_idle.as_ref().is_none_or(|(next, _)| idle < *next)
        {
            next_idle = Some((idle, key));
        }
    }
    if of.is_unsure() && next_idle.is_some() {
        best = next_idle;
    }
    let few = work <= share_wait && statements < SHARED_MAX;
    let joins = few && matches!(of, Expected::Quick(_)) || of.is_locking();
    let chosen = match (best, joined) {
        (Some(best), Some(joined)) if best.0 < joined.0 && !joins => Some(best),
        (best, joined) => joined.or(best),
    };
    let (behind, helps) = match chosen.as_ref().map(|(rank, _)| *rank) {
        None => (Behind::Nothing, true),
        Some(Rank::Idle(_)) => (Behind::Nothing, false),
        Some(Rank::Joined(..)) => (Behind::Quick, of.is_unsure()),
        Some(Rank::Busy(..)) => (Behind::Quick, true),
        Some(Rank::Slow(..)) if are_late && is_any_stuck => (Behind::Stuck, true),
        Some(Rank::Slow(age, _, false)) => (Behind::Slow(age), true),
        Some(Rank::Slow(_, _, true)) => (Behind::Unsure, true),
        Some(Rank::Staying(..)) => (Behind::Staying, true),
    };
    Choice { on: chosen.map(|(_, key)| key), helps, behind, of }
}
