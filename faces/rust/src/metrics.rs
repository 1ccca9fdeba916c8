//! A snapshot of what a client counts: how much is in flight, what was sent in how many trips, how
//! requests ended, and how long callers waited for a connection.
//!
//! Counting costs a few additions under a lock that is held anyway. No clock is read for it.

pub(crate) mod counts;
mod histogram;
pub(crate) mod neighbours;
#[cfg(feature = "metrics")]
pub(crate) mod publish;
pub(crate) mod snapshot;
pub(crate) mod totals;
#[cfg(not(feature = "metrics"))]
mod unpublished;

use std::time::Duration;

use onetrip_postgres::client::replicas::ReadCounts;

pub use counts::Counts;
pub use histogram::Histogram;
pub use neighbours::SlowNeighbour;
#[cfg(feature = "metrics")]
pub(crate) use publish::Publisher;
#[cfg(not(feature = "metrics"))]
pub(crate) use unpublished::Publisher;

/// The counters of a client at one moment; made by [`Client::metrics`](crate::Client::metrics).
///
/// A number that counts up never goes down while the client lives. The connection of a
/// [`Listener`](crate::Listener) is not included.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Requests in flight: sent, or about to be, and unanswered.
    pub in_flight: usize,
    /// Requests that wait for the window of their connection.
    pub queued: usize,
    /// Callers that wait for room in a queue, or for a connection.
    pub waiting: usize,
    /// Connections that are open.
    pub open: usize,
    /// Open connections on which nothing is unanswered.
    pub idle: usize,
    /// Connections opened so far.
    pub opened: u64,
    /// Attempts to open one that failed.
    pub open_failed: u64,
    /// Connections that were closed from this side: idle too long, too old, or with the client.
    pub closed: u64,
    /// Connections that were lost: cut, ended by the server, or given up after a violation.
    pub lost: u64,
    /// What was sent and how it ended, on all connections that there ever were.
    pub counts: Counts,
    /// How long callers waited for a connection: those that had to wait, including those that got
    /// none.
    pub waits: Histogram,
    /// The texts behind which other statements waited on a shared connection, those that held up
    /// most first; up to 32.
    pub slow_neighbours: Vec<SlowNeighbour>,
    /// What came from the cache of a client of Redis; `None` without one.
    pub cache: Option<CacheMetrics>,
    /// Where reads have gone that replicas may serve; all 0 where
    /// [`reads`](crate::config::Settings::reads) is `primary`.
    pub reads: ReadMetrics,
    /// The replicas, in the order of the list of hosts. Their connections are in none of the numbers
    /// above.
    pub replicas: Vec<ReplicaMetrics>,
    /// The connections that are open.
    pub connections: Vec<ConnectionMetrics>,
}

/// Where reads have gone that replicas may serve ([`Client::reads`](crate::Client::reads)). A read
/// that went to several servers, one after the other, counts at each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadMetrics {
    /// Reads that went to the primary, since no replica would do or all were busy.
    pub on_primary: u64,
    /// Reads that went to replicas.
    pub on_replicas: u64,
    /// Those of them that a replica could not serve, since it had not replayed what they must show.
    pub behind: u64,
}

/// The counters of one replica.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReplicaMetrics {
    /// The server, as the configuration names it. The primary is one of them, too, and serves no
    /// reads as long as it is none.
    pub server: String,
    /// Whether reads go there: it is a standby that can be reached, and not further behind than
    /// [`max_lag`](crate::config::Settings::max_lag).
    pub serves: bool,
    /// How far it was behind when it was last asked; `None` if it has not said.
    pub lag: Option<Duration>,
    /// Reads that went there.
    pub reads: u64,
    /// Those of them that it could not serve, since it had not replayed what they must show.
    pub behind: u64,
    /// The counters of the pool of connections to it.
    pub pool: Metrics,
}

impl From<ReadCounts> for ReadMetrics {
    fn from(counts: ReadCounts) -> ReadMetrics {
        let ReadCounts { on_primary, on_replicas, behind } = counts;
        ReadMetrics { on_primary, on_replicas, behind }
    }
}

/// The counters of a cache ([`Config::cache`](crate::redis::Config::cache)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheMetrics {
    /// Commands that were answered from the cache.
    pub hits: u64,
    /// Commands that were sent because the cache did not have their replies. Those that can't be
    /// cached are in neither number.
    pub misses: u64,
    /// Commands that got the reply of another caller, who had sent the same.
    pub joined: u64,
    /// Keys that the server said were changed; all of them at once count as one.
    pub invalidations: u64,
    /// Replies that were dropped because the cache was full.
    pub evicted: u64,
    /// The bytes of the replies in the cache, with all that belongs to them.
    pub bytes: usize,
    /// The replies in the cache.
    pub entries: usize,
    /// Whether replies are kept: there is a connection, it speaks RESP3, and the server tells which
    /// keys were changed.
    pub is_on: bool,
}

/// The counters of one connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionMetrics {
    /// The server, as the configuration names it.
    pub server: String,
    /// Whether statements of all callers go here. If not, a session has it, or last had it.
    pub is_shared: bool,
    /// Requests in flight.
    pub in_flight: usize,
    /// Requests that wait for the window.
    pub queued: usize,
    /// Callers that wait for room in the queue.
    pub waiting: usize,
    /// What was sent and how it ended.
    pub counts: Counts,
}

impl From<onetrip_redis::client::cache::Counts> for CacheMetrics {
    fn from(counts: onetrip_redis::client::cache::Counts) -> CacheMetrics {
        CacheMetrics {
            hits: counts.hits,
            misses: counts.misses,
            joined: counts.joined,
            invalidations: counts.invalidations,
            evicted: counts.evicted,
            bytes: counts.bytes,
            entries: counts.entries,
            is_on: counts.is_on,
        }
    }
}

impl Metrics {
    /// Counts one connection.
    pub(crate) fn add(&mut self, one: ConnectionMetrics, is_idle: bool) {
        self.open += 1;
        self.idle += usize::from(is_idle);
        self.in_flight += one.in_flight;
        self.queued += one.queued;
        self.waiting += one.waiting;
        self.counts += one.counts;
        self.connections.push(one);
    }
}
