//! Where a shared statement goes: what is known of each connection's load, and the choice.

use std::time::Duration;

use super::{IdleOrder, Limits};
use crate::Time;

/// What a host knows of the work on one connection.
///
/// A statement counts from the moment in which the connection was chosen for it, before it is
/// encoded and sent, until its reply is complete. A host that counts later lets two callers find
/// the same connection idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl Load {
    /// Whether nothing is on the connection.
    pub fn is_idle(&self) -> bool {
        self.unanswered == 0
    }

    /// Counts `promised` more statements, which the host does not know of yet.
    pub(super) fn with_promised(self, promised: usize) -> Load {
        Load {
            unanswered: self.unanswered.saturating_add(promised),
            room: self.room.saturating_sub(promised),
            ..self
        }
    }

    pub(super) fn takes_shared(&self) -> bool {
        self.room > 0 || self.is_idle()
    }

    /// The lower the better.
    pub(super) fn rank(&self, now: Time, limits: &Limits) -> Rank {
        let statements = self.unanswered.saturating_mul(STATEMENT_WEIGHT);
        let weight = self.unanswered_bytes.saturating_add(statements);
        match limits.idle_order {
            IdleOrder::Lifo if self.is_idle() => Rank::Idle(u64::MAX - self.since.as_nanos()),
            IdleOrder::Fifo if self.is_idle() => Rank::Idle(self.since.as_nanos()),
            _ => match now.since(self.since) {
                age if age > limits.slow_head => Rank::Slow(age, weight),
                _ => Rank::Busy(weight),
            },
        }
    }
}

/// How well a connection would do, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Idle(u64),
    Busy(usize),
    /// A statement put here would wait behind a slow one, of this age.
    Slow(Duration, usize),
}

/// What a statement weighs beside its bytes: the server works for each, however short it is. A
/// judgement, about the size of a small statement; it makes count decide among small ones and
/// bytes among large ones.
const STATEMENT_WEIGHT: usize = 256;

/// What [`choose`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice<K> {
    /// The connection to put the statement on; `None` if none can take it.
    pub on: Option<K>,
    /// Whether one more connection would help: none is idle. Then call
    /// [`Pool::grow`](super::Pool::grow).
    pub helps: bool,
    /// How old the oldest statement on that connection is; zero if it is idle. If that is more than
    /// [`Pool::patience`](super::Pool::patience), the statement waits in line for another connection.
    pub head_age: Duration,
}

/// Where to put one shared statement: on an idle connection; or else on the one with the least
/// work, by bytes and number of statements, and only if there is no other on one whose oldest
/// statement is older than [`Limits::slow_head`], the youngest of these. Among equals it is the first.
///
/// It looks at nothing but its arguments, so a host with many threads can call it without a lock,
/// with the connections that [`Output::Shared`](super::Output::Shared) opened to shared work. `K`
/// is whatever names a connection there.
pub fn choose<K>(
    now: Time,
    limits: &Limits,
    loads: impl IntoIterator<Item = (K, Load)>,
) -> Choice<K> {
    let ranked = loads
        .into_iter()
        .filter(|(_, load)| load.takes_shared())
        .map(|(key, load)| (load.rank(now, limits), key, load));
    // The first among equals.
    let best = ranked.min_by_key(|(rank, ..)| *rank);
    let helps = !matches!(best, Some((Rank::Idle(_), ..)));
    match best {
        None => Choice { on: None, helps, head_age: Duration::ZERO },
        Some((Rank::Idle(_), key, _)) => Choice { on: Some(key), helps, head_age: Duration::ZERO },
        Some((_, key, load)) => Choice { on: Some(key), helps, head_age: now.since(load.since) },
    }
}
