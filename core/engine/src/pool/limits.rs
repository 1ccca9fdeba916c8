//! The limits of a pool, each with its default.

use std::time::Duration;

/// How many connections and callers a pool may hold, and for how long.
///
/// Memory of the policy at worst: about 100 bytes for each of `connections_max` connections and
/// 50 for each of `waiting_max` callers. What connections hold stands in
/// [`Limits`](crate::Limits) of their own.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections, including those that are being opened or drained. Default 10; 0 counts as 1.
    /// Each costs the server a process and the client what one connection may hold. While callers
    /// wait, and at each checkout, the load of every connection that takes shared work is asked.
    pub connections_max: usize,
    /// So many connections are kept even if nobody needs them, and opened before anybody does.
    /// Default 0; no more than `connections_max` count. Each costs the server a process all the
    /// time.
    pub connections_min: usize,
    /// How long a caller waits that brings no deadline of its own. Default 30 s. A longer time
    /// costs places in line when the server is slow or away.
    pub wait_timeout: Duration,
    /// Callers that wait. Default 16,384, which take 50 bytes each here; the newest are refused
    /// beyond it. At 0 nobody waits: a caller is served at once or refused.
    pub waiting_max: usize,
    /// After how long an idle connection is closed, unless there are only `connections_min`; one
    /// that was kept for that reason is looked at again after as long. Default 10 min. A shorter
    /// time makes way for other clients sooner, and pays for opening more often. Less than 100 ms
    /// counts as that; [`Duration::MAX`] is never.
    pub idle_timeout: Duration,
    /// After how long a connection is given up, so that clients move to another server after a
    /// failover, and the server's processes give back memory. Default 30 min. For each connection
    /// it is up to 10 % more or less, so that they don't all go at once. It costs one opening per
    /// connection in that time. Less than 1 s counts as that; [`Duration::MAX`] is never.
    pub lifetime: Duration,
    /// A connection whose oldest unanswered statement is older than this gets no shared statement
    /// while another can take it: that would wait behind a slow one. And a text whose statements took
    /// longer than this, and than a round trip, runs alone. Default 10 ms. Less avoids more of that
    /// and opens connections sooner; set it well above the round trip.
    pub slow_head: Duration,
    /// Work on all connections together, as far as it is known, up to which a statement that is known
    /// to be quick goes to a busy connection rather than to an idle one. Default 1 ms; a quarter of a
    /// round trip where that is more. More saves trips,
    /// wakes and connections, and costs the statement that much time; less spreads the work over the
    /// server's processes.
    pub share_wait: Duration,
    /// Connections that are being opened at the same time. Default 4; 0 counts as 1. Opening costs
    /// the server a new process and a check of the password, and when a server comes back all its
    /// clients ask for that at once. The price: a burst of ten callers waits for three rounds of
    /// opening instead of one. While the last attempt failed it is one.
    pub opening_max: usize,
    /// The pause after an attempt to open a connection failed. Default 100 ms; less than 1 ms
    /// counts as that. It doubles with each failure up to `backoff_max`, ends with a success, and
    /// is shortened by up to half at random, so that clients don't come back all at once.
    pub backoff_min: Duration,
    /// The longest pause. Default 10 s: so much later than the server a client may come back.
    pub backoff_max: Duration,
    /// How long a connection may lie idle that came back as
    /// [`DirtyHolding`](super::Condition::DirtyHolding), before it is reset without waiting for
    /// its next user. Default 100 ms. The reset costs a trip of its own then, which nobody waits
    /// for; until then others may be waiting for what it holds.
    pub reset_idle_after: Duration,
    /// Which of several idle connections is taken first. Default [`IdleOrder::Lifo`].
    pub idle_order: IdleOrder,
}

/// Which of several idle connections is taken first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleOrder {
    /// The one that was used last: it is still warm, and those that are not needed become idle
    /// long enough to be closed.
    #[default]
    Lifo,
    /// The one that has been idle longest: all are used evenly, and none is closed as long as they
    /// are used at all.
    Fifo,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 10,
            connections_min: 0,
            wait_timeout: Duration::from_secs(30),
            waiting_max: 16_384,
            idle_timeout: Duration::from_secs(10 * 60),
            lifetime: Duration::from_secs(30 * 60),
            slow_head: Duration::from_millis(10),
            share_wait: Duration::from_millis(1),
            opening_max: 4,
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            reset_idle_after: Duration::from_millis(100),
            idle_order: IdleOrder::Lifo,
        }
    }
}

impl Limits {
    /// The same with values that a pool can work with.
    pub(super) fn sane(self) -> Limits {
        let connections_max = self.connections_max.clamp(1, u32::MAX as usize);
        let backoff_min = self.backoff_min.max(RESOLUTION);
        Limits {
            connections_max,
            connections_min: self.connections_min.min(connections_max),
            idle_timeout: self.idle_timeout.max(IDLE_TIMEOUT_MIN),
            lifetime: self.lifetime.max(LIFETIME_MIN),
            opening_max: self.opening_max.max(1),
            backoff_min,
            backoff_max: self.backoff_max.max(backoff_min),
            ..self
        }
    }
}

/// Less would be looked for all the time.
const IDLE_TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// Less would open and close connections all the time.
const LIFETIME_MIN: Duration = Duration::from_secs(1);

/// What falls due is looked at once in this time at most.
pub(super) const RESOLUTION: Duration = Duration::from_millis(1);
