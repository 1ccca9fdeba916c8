//! What a client counts, as a snapshot: how much is under way, what was sent in how many trips, how
//! requests ended, and how long callers waited for a connection.
//!
//! Counting costs some additions under a lock that is held anyway. No clock is read for it.

pub(crate) mod counts;
mod histogram;
pub(crate) mod neighbours;
#[cfg(feature = "metrics")]
pub(crate) mod publish;
pub(crate) mod snapshot;
pub(crate) mod totals;
#[cfg(not(feature = "metrics"))]
mod unpublished;

pub use counts::Counts;
pub use histogram::Histogram;
pub use neighbours::SlowNeighbour;
#[cfg(feature = "metrics")]
pub(crate) use publish::Publisher;
#[cfg(not(feature = "metrics"))]
pub(crate) use unpublished::Publisher;

/// The numbers of a client at one moment; made by [`Client::metrics`](crate::Client::metrics).
///
/// What counts up never goes down while the client lives. A [`Listener`](crate::Listener) has a
/// connection of its own, which is not in here.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Requests on their way: sent, or about to be, and unanswered.
    pub in_flight: usize,
    /// Requests that wait for the window of their connection.
    pub queued: usize,
    /// Callers that wait for room in a queue, or for a connection.
    pub waiting: usize,
    /// Connections that are open.
    pub open: usize,
    /// Those of them on which nothing is unanswered.
    pub idle: usize,
    /// Connections that were opened.
    pub opened: u64,
    /// Attempts to open one that failed.
    pub open_failed: u64,
    /// Connections that were closed from this side: idle too long, too old, or with the client.
    pub closed: u64,
    /// Connections that were lost: cut, ended by the server, or given up after a violation.
    pub lost: u64,
    /// What was sent and how it ended, of all connections that there ever were.
    pub counts: Counts,
    /// How long callers waited for a connection: those that had to, also where none came.
    pub waits: Histogram,
    /// The texts behind which other statements waited on a shared connection, those that held up most
    /// first; up to 32.
    pub slow_neighbours: Vec<SlowNeighbour>,
    /// The connections that are open.
    pub connections: Vec<ConnectionMetrics>,
}

/// The numbers of one connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionMetrics {
    /// The server, as the configuration names it.
    pub server: String,
    /// Whether statements of all callers go here; otherwise a session has it, or last had it.
    pub is_shared: bool,
    /// Requests on their way.
    pub in_flight: usize,
    /// Requests that wait for the window.
    pub queued: usize,
    /// Callers that wait for room in the queue.
    pub waiting: usize,
    /// What was sent and how it ended.
    pub counts: Counts,
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
