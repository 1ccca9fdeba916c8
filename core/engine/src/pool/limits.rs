//! The limits of a pool, each with its default.

use std::time::Duration;

/// How many connections and callers a pool may hold, and for how long.
///
/// Memory of the policy at worst: about 100 bytes for each of `connections_max` connections and 50
/// for each of `waiting_max` callers. For what a connection itself holds, see its own
/// [`Limits`](crate::Limits).
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections, including those that are being opened or drained. Default 10; 0 counts as 1.
    /// Each costs the server a process, and the client the memory of a connection. While callers
    /// wait, and at each checkout, the host is asked for the load of every connection that takes
    /// shared work.
    pub connections_max: usize,
    /// Connections that are opened before anybody needs them, and kept. Default 0; at most
    /// `connections_max` count. Each costs the server a process all the time.
    pub connections_min: usize,
    /// How long a caller without a deadline of its own waits. Default 30 s. The longer the time,
    /// the more places in line are taken when the server is slow or away.
    pub wait_timeout: Duration,
    /// Callers that may wait. Default 16,384, at 50 bytes each here. Beyond it the newest are
    /// refused. A caller for whom a connection is opened does not count. At 0 no caller waits for
    /// another one: it is served at once, or by a connection that is opened for it, or refused.
    pub waiting_max: usize,
    /// How long a connection may be idle before it is closed, unless only `connections_min` are
    /// left; such a connection is looked at again after the same time. Default 10 min. A shorter
    /// time makes way for other clients sooner, and opens connections more often. Less than 100 ms
    /// counts as 100 ms; [`Duration::MAX`] means never.
    pub idle_timeout: Duration,
    /// How old a connection may become before it is closed, so that clients move to another server
    /// after a failover and the server's processes give back memory. Default 30 min. For each
    /// connection it varies at random by up to 10 %, so that they don't all close at once. It costs
    /// one opening per connection in that time. Less than 1 s counts as 1 s; [`Duration::MAX`]
    /// means never.
    pub lifetime: Duration,
    /// How long a statement may run before it counts as slow. While another connection can take a
    /// shared statement, none goes to one whose oldest unanswered statement is older. A text whose
    /// statements took longer than this, and than a round trip, runs alone. Default 10 ms. Less
    /// avoids more waiting behind slow statements and opens connections sooner; set it well above
    /// the round trip. Less than 1 ms counts as 1 ms.
    pub slow_head: Duration,
    /// How long a statement may hold up others that wait behind it on its shared connection. Then it
    /// is cancelled at the server and sent again behind them, if it may be
    /// ([`Limits::yield_after`](crate::Limits::yield_after)). Default 500 ms. It frees those that
    /// wait behind a lock whose holder waits for one of them, which no server can see. Less frees
    /// them sooner; but a statement that only takes long, and was not expected to, begins anew. Set
    /// it well above the round trip.
    /// [`Duration::MAX`] means never, and so does [`connections_max`](Self::connections_max) = 1,
    /// where statements keep their order.
    pub yield_after: Duration,
    /// Known work on all connections together, up to which a statement known to be quick goes to a
    /// busy connection rather than to an idle one. Default 1 ms, or a quarter of a round trip if
    /// that is more. More saves trips, wake-ups and connections, and costs the statement that much
    /// time. Less spreads the work over the server's processes.
    pub share_wait: Duration,
    /// Connections that may be opened at the same time. Default 4; 0 counts as 1. Opening costs the
    /// server a new process and a password check, and when a server comes back, all its clients ask
    /// for that at once. The price: a burst of ten callers waits for three rounds of opening
    /// instead of one. While the last attempt failed, only one is opened at a time; and after a
    /// connection was lost, until one was opened as quickly as before, or nobody waits any more.
    pub opening_max: usize,
    /// The shortest pause after a failed attempt to open a connection. Default 25 ms; less than 1 ms
    /// counts as 1 ms. The longer attempts have failed, the longer is the pause, with the square of
    /// that time, up to `backoff_max`. Each is shortened by up to half at random, so that clients
    /// don't come back all at once. A success ends them.
    pub backoff_min: Duration,
    /// The longest pause, by which a client may come back later than its server; and the one behind
    /// a failure that nobody waited for, as of a connection of the minimum. Default 2 s: 2,000
    /// clients that wait for a server then make some 1,300 attempts a second.
    pub backoff_max: Duration,
    /// How long a connection returned as [`DirtyHolding`](super::Condition::DirtyHolding) may be
    /// idle before it is reset without its next user. Default 100 ms. Until then others may be
    /// waiting for what it holds. The reset then costs its own round trip, which no caller waits
    /// for.
    pub reset_idle_after: Duration,
    /// How long a server may be silent on all connections while something is awaited, before a
    /// *scout* looks for another one ([`Output::Scout`](super::Output::Scout)). Default
    /// [`Duration::MAX`], which means never: it helps only a client that may meet several servers.
    /// Less than 100 ms counts as 100 ms. It costs one attempt to connect, beside
    /// `connections_max`, each time, and a look at the connections as often.
    pub scout_after: Duration,
    /// Which of several idle connections is taken first. Default [`IdleOrder::Lifo`].
    pub idle_order: IdleOrder,
}

/// Which of several idle connections is taken first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleOrder {
    /// The one that was used last. It is still warm, and connections that are not needed become
    /// idle long enough to be closed.
    #[default]
    Lifo,
    /// The one that has been idle longest. All are used evenly, and none is closed while they are
    /// used at all.
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
            yield_after: Duration::from_millis(500),
            share_wait: Duration::from_millis(1),
            opening_max: 4,
            backoff_min: Duration::from_millis(25),
            backoff_max: Duration::from_secs(2),
            reset_idle_after: Duration::from_millis(100),
            scout_after: Duration::MAX,
            idle_order: IdleOrder::Lifo,
        }
    }
}

impl Limits {
    /// The same limits, with values that a pool can work with.
    pub(super) fn sane(self) -> Limits {
        let connections_max = self.connections_max.clamp(1, u32::MAX as usize);
        let backoff_min = self.backoff_min.max(RESOLUTION);
        Limits {
            connections_max,
            connections_min: self.connections_min.min(connections_max),
            idle_timeout: self.idle_timeout.max(IDLE_TIMEOUT_MIN),
            lifetime: self.lifetime.max(LIFETIME_MIN),
            scout_after: self.scout_after.max(SCOUT_AFTER_MIN),
            slow_head: self.slow_head.max(RESOLUTION),
            yield_after: self.yield_after.max(YIELD_AFTER_MIN),
            opening_max: self.opening_max.max(1),
            backoff_min,
            backoff_max: self.backoff_max.max(backoff_min),
            ..self
        }
    }

    /// What the pool's connections are told.
    pub(super) fn yield_after_of_members(&self) -> Duration {
        if self.connections_max > 1 { self.yield_after } else { Duration::MAX }
    }
}

/// A shorter time would stop statements that are merely not the quickest.
const YIELD_AFTER_MIN: Duration = Duration::from_millis(10);

/// A shorter time would make the pool look for idle connections all the time.
const IDLE_TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// A shorter time would take a statement of some length for a silence.
const SCOUT_AFTER_MIN: Duration = Duration::from_millis(100);

/// A shorter time would open and close connections all the time.
const LIFETIME_MIN: Duration = Duration::from_secs(1);

/// The shortest time between two looks for what is due.
pub(super) const RESOLUTION: Duration = Duration::from_millis(1);
