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
    /// When the oldest of them was sent, or chosen for this connection if it was not sent yet; on
    /// an idle connection, when the last one was answered ([`Time::ZERO`] if there was none yet). A
    /// host that knows how long a round trip takes adds that to the former, so that a distant server
    /// does not look slow.
    pub since: Time,
    /// How many more it takes before its window and queue are full; [`usize::MAX`] for a host that
    /// does not count them. At 0 the connection is left out, unless it is idle.
    pub room: usize,
    /// How long the server is expected to work on them
    /// ([`Workload::expected`](super::Workload::expected)).
    pub expected: Duration,
    /// Those behind which nothing is to be placed ([`Workload::unsure`](super::Workload::unsure)).
    pub unsure: usize,
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

    /// Whether a statement put here would wait behind a slow one, or what may be one.
    pub(super) fn is_slow(&self, now: Time, limits: &Limits) -> bool {
        !self.is_idle() && (self.unsure > 0 || now.since(self.since) > limits.slow_head)
    }

    /// Work up to which a quick statement goes here rather than to an idle connection. A quarter of a
    /// round trip is not noticed: what differs by less is jitter.
    fn share_wait(&self, limits: &Limits) -> Duration {
        limits.share_wait.max(self.trip / 4)
    }

    /// The lower the better.
    pub(super) fn rank(&self, now: Time, limits: &Limits, of: Expected) -> Rank {
        let statements = self.unanswered.saturating_mul(STATEMENT_WEIGHT);
        let weight = self.unanswered_bytes.saturating_add(statements);
        match limits.idle_order {
            // One that may be slow leaves the connection that was used last to those that are quick:
            // their statements are prepared there.
            IdleOrder::Lifo if self.is_idle() && !of.is_unsure() => {
                Rank::Idle(u64::MAX - self.since.as_nanos())
            }
            _ if self.is_idle() => Rank::Idle(self.since.as_nanos()),
            _ if self.is_slow(now, limits) => {
                Rank::Slow(now.since(self.since), weight, self.unsure > 0)
            }
            _ if matches!(of, Expected::Untold) => Rank::Busy(Duration::ZERO, weight),
            _ if self.expected > self.share_wait(limits) => Rank::Busy(self.expected, weight),
            _ => Rank::Joined(self.expected, weight),
        }
    }
}

/// How well a connection would do, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Idle(u64),
    /// What is in front takes no time worth mentioning.
    Joined(Duration, usize),
    Busy(Duration, usize),
    /// A statement put here would wait behind one of this age that takes long, or may do so.
    Slow(Duration, usize, bool),
}

/// Statements under way, up to which they go on one connection. More are worth the wakes: the server
/// works on several connections at once, and so do threads here.
const SHARED_MAX: usize = 32;

/// What a statement weighs beside its bytes: the server works for each, however short it is. A
/// judgement, about the size of a small statement; it makes count decide among small ones and
/// bytes among large ones.
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
}

impl<K> Choice<K> {
    /// Whether it would be made again of a connection whose load is this by now. A host with many
    /// threads asks when it has the connection's lock: what another put there meanwhile may be slow.
    pub fn holds(&self, now: Time, limits: &Limits, load: Load) -> bool {
        match self.behind {
            Behind::Slow(_) | Behind::Unsure => true,
            // Two who found it idle would go one behind the other.
            Behind::Nothing if self.of.is_unsure() => load.is_idle(),
            Behind::Nothing | Behind::Quick => !load.is_slow(now, limits),
        }
    }
}

/// When a statement waits in line rather than behind another; see [`Pool::patience`](super::Pool::patience).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Another connection is being opened or may be: it is worth waiting for, rather than behind a
    /// statement that has been running for longer than this.
    pub coming: Option<Duration>,
    /// There is another connection than the one that was chosen, or may be.
    pub others: bool,
}

impl Patience {
    /// Whether a statement for which this was the best choice waits in line.
    pub fn waits<K>(&self, choice: &Choice<K>) -> bool {
        match (choice.behind, choice.of) {
            (Behind::Nothing, _) => false,
            (_, Expected::Unsure) => self.others,
            (Behind::Quick, _) => false,
            (Behind::Slow(age), Expected::Untold) => self.coming.is_some_and(|max| age > max),
            (Behind::Slow(_) | Behind::Unsure, _) => self.others,
        }
    }
}

/// Where to put one shared statement of which so much is expected:
///
/// 1. where it is known to be quick, on the busy connection with the least work, as long as all
///    connections together have less than [`Limits::share_wait`] of it (or a quarter of a round trip,
///    if that is more), and less than 32 statements: so few need no other connection to be woken or
///    opened;
/// 2. on an idle connection: by [`Limits::idle_order`], but where it may be slow, on the one that has
///    been idle for longest;
/// 3. on the one whose work is expected to take least, and then by bytes and number of statements;
/// 4. only if there is no other, on one with a statement that takes longer than
///    [`Limits::slow_head`] or may do so, the youngest of these.
///
/// Among equals it is the first. Whether it goes there at all is for [`Patience::waits`] to say.
///
/// It looks at nothing but its arguments, so a host with many threads can call it without a lock,
/// with the connections that [`Output::Shared`](super::Output::Shared) opened to shared work. `K`
/// is whatever names a connection there.
pub fn choose<K>(
    now: Time,
    limits: &Limits,
    of: Expected,
    loads: impl IntoIterator<Item = (K, Load)>,
) -> Choice<K> {
    let (mut best, mut joined) = (None, None);
    let (mut work, mut share_wait, mut statements) = (Duration::ZERO, limits.share_wait, 0_usize);
    for (key, load) in loads {
        if !load.takes_shared() {
            continue;
        }
        let rank = load.rank(now, limits, of);
        work += load.expected;
        share_wait = share_wait.max(load.share_wait(limits));
        statements = statements.saturating_add(load.unanswered);
        // The first among equals.
        let least = match rank {
            Rank::Joined(..) => &mut joined,
            _ => &mut best,
        };
        if least.as_ref().is_none_or(|(least, _)| rank < *least) {
            *least = Some((rank, key));
        }
    }
    let few = work <= share_wait && statements < SHARED_MAX;
    let joins = few && matches!(of, Expected::Quick(_));
    let chosen = match (best, joined) {
        (Some(best), Some(joined)) if best.0 < joined.0 && !joins => Some(best),
        (best, joined) => joined.or(best),
    };
    let (behind, helps) = match chosen.as_ref().map(|(rank, _)| *rank) {
        None => (Behind::Nothing, true),
        Some(Rank::Idle(_)) => (Behind::Nothing, false),
        Some(Rank::Joined(..)) => (Behind::Quick, of.is_unsure()),
        Some(Rank::Busy(..)) => (Behind::Quick, true),
        Some(Rank::Slow(age, _, false)) => (Behind::Slow(age), true),
        Some(Rank::Slow(_, _, true)) => (Behind::Unsure, true),
    };
    Choice { on: chosen.map(|(_, key)| key), helps, behind, of }
}
