//! Where a shared statement goes: what is known of each connection's load, and the choice.

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
    /// an idle connection, when the last one was answered ([`Time::ZERO`] if there was none yet).
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
            _ if now.since(self.since) > limits.slow_head => Rank::Slow(weight),
            _ => Rank::Busy(weight),
        }
    }
}

/// How well a connection would do, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Idle(u64),
    Busy(usize),
    /// A statement put here would wait behind a slow one.
    Slow(usize),
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
    /// Whether the connection is one whose oldest statement is older than
    /// [`Limits::slow_head`]: there is no other. If [`Pool::is_relief_due`](super::Pool::is_relief_due),
    /// the statement waits for another in line.
    pub is_slow: bool,
}

/// Where to put one shared statement: on an idle connection; or else on the one with the least
/// work, by bytes and number of statements, and only if there is no other on one whose oldest
/// statement is older than [`Limits::slow_head`]. Among equals it is the first.
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
        .map(|(key, load)| (load.rank(now, limits), key));
    // The first among equals.
    let best = ranked.min_by_key(|(rank, _)| *rank);
    let helps = !matches!(best, Some((Rank::Idle(_), _)));
    let is_slow = matches!(best, Some((Rank::Slow(_), _)));
    Choice { on: best.map(|(_, key)| key), helps, is_slow }
}
