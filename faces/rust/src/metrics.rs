//! What a client counts, as a snapshot: how much is under way, what was sent in how many trips, how
//! requests ended, and how long callers waited for a connection.
//!
//! Counting costs some additions under a lock that is held anyway. No clock is read for it.

mod histogram;
#[cfg(feature = "metrics")]
pub(crate) mod publish;
#[cfg(not(feature = "metrics"))]
mod unpublished;

use std::ops::AddAssign;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::Outcome;
use crate::core::{Connection, Duty};
use crate::pool::Pool;

pub use histogram::Histogram;
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

/// What was sent and how it ended.
///
/// A *request* is what is answered as one: a statement, but also the question for its types, a sync
/// point of a pipeline, or the reset of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Writes that came after bytes of the server had arrived since the write before. Without
    /// batching each statement would be one.
    pub trips: u64,
    /// Bytes sent, before TLS; without the login.
    pub bytes_sent: u64,
    /// Bytes received, after TLS; without the login.
    pub bytes_received: u64,
    /// Requests that ended well.
    pub completed: u64,
    /// Requests that failed before anything of them was sent. A call that was refused at once is none.
    pub failed_not_sent: u64,
    /// Requests that the server rejected.
    pub failed_rejected: u64,
    /// Requests that took effect, and whose reply could not be read as it was asked for. They are among
    /// the completed ones too.
    pub failed_applied: u64,
    /// Requests that were sent, and of which nobody knows what became.
    pub failed_unknown: u64,
    /// Uses of a prepared statement that the connection had already.
    pub prepared_hits: u64,
    /// Uses that prepared it: its text went along.
    pub prepared_misses: u64,
    /// Requests that were sent again by themselves, since the server said that they never started.
    pub healed: u64,
    /// Notifications that reached a connection whose session did not ask for
    /// [`notifications`](crate::Session::notifications), and were dropped.
    pub notifications_dropped: u64,
}

impl Counts {
    /// Bytes were written; `heard` if bytes of the server came since the last write.
    pub(crate) fn wrote(&mut self, bytes: usize, heard: bool) {
        self.trips += u64::from(heard);
        self.bytes_sent += bytes as u64;
    }

    pub(crate) fn failed(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::NotSent => self.failed_not_sent += 1,
            Outcome::Rejected => self.failed_rejected += 1,
            Outcome::Applied => self.failed_applied += 1,
            Outcome::Unknown => self.failed_unknown += 1,
        }
    }

    pub(crate) fn used_prepared(&mut self, parses: bool) {
        match parses {
            true => self.prepared_misses += 1,
            false => self.prepared_hits += 1,
        }
    }

    /// Requests that failed, however.
    pub fn failed_in_all(&self) -> u64 {
        self.failed_not_sent + self.failed_rejected + self.failed_applied + self.failed_unknown
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.trips += other.trips;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.completed += other.completed;
        self.failed_not_sent += other.failed_not_sent;
        self.failed_rejected += other.failed_rejected;
        self.failed_applied += other.failed_applied;
        self.failed_unknown += other.failed_unknown;
        self.prepared_hits += other.prepared_hits;
        self.prepared_misses += other.prepared_misses;
        self.healed += other.healed;
        self.notifications_dropped += other.notifications_dropped;
    }
}

/// What a client counts beside its connections, and which connections there are. Its lock is taken
/// when one comes or goes, when a caller has waited, and for a snapshot; before that of a connection.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    state: Mutex<State>,
    /// One of them has ended.
    one_ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    live: Vec<Weak<Connection>>,
    /// The numbers of connections that are gone, and what no connection counts.
    past: Counts,
    opened: u64,
    open_failed: u64,
    closed: u64,
    lost: u64,
    waits: Histogram,
    #[cfg(feature = "metrics")]
    published: Metrics,
}

impl Totals {
    pub(crate) fn opened(&self, connection: &Arc<Connection>) {
        let mut state = self.lock();
        state.opened += 1;
        state.live.push(Arc::downgrade(connection));
    }

    pub(crate) fn open_failed(&self) {
        self.lock().open_failed += 1;
    }

    /// A connection has ended. Its numbers are kept.
    pub(crate) fn ended(&self, connection: &Arc<Connection>) {
        let mut state = self.lock();
        let (counts, lost) = {
            let core = connection.lock();
            (core.counts(), core.is_lost())
        };
        state.live.retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(connection)));
        state.past += counts;
        match lost {
            true => state.lost += 1,
            false => state.closed += 1,
        }
        drop(state);
        self.one_ended.notify_waiters();
    }

    /// Those that have not ended: their goodbyes count.
    pub(crate) fn live(&self) -> Vec<Arc<Connection>> {
        self.lock().live.iter().filter_map(Weak::upgrade).collect()
    }

    /// Resolves when there is none. Cancel safe.
    pub(crate) async fn all_ended(&self) {
        loop {
            let mut one_ended = pin!(self.one_ended.notified());
            one_ended.as_mut().enable();
            if self.lock().live.is_empty() {
                return;
            }
            one_ended.await;
        }
    }

    /// A caller has waited for a connection.
    pub(crate) fn waited(&self, time: Duration) {
        self.lock().waits.add(time);
    }

    /// A reply could not be read.
    pub(crate) fn unreadable(&self) {
        self.lock().past.failed(Outcome::Applied);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A snapshot.
pub(crate) fn of(pool: &Pool) -> Metrics {
    let state = pool.context.totals.lock();
    snapshot(&state, pool)
}

fn snapshot(state: &State, pool: &Pool) -> Metrics {
    let mut metrics = Metrics {
        opened: state.opened,
        open_failed: state.open_failed,
        closed: state.closed,
        lost: state.lost,
        counts: state.past,
        waits: state.waits,
        waiting: pool.waiting(),
        ..Metrics::default()
    };
    for connection in state.live.iter().filter_map(Weak::upgrade) {
        metrics.add_connection(&connection);
    }
    metrics
}

impl Metrics {
    fn add_connection(&mut self, connection: &Connection) {
        let core = connection.lock();
        let one = ConnectionMetrics {
            server: core.route().to_string(),
            is_shared: core.duty == Duty::Shared,
            in_flight: core.engine.in_flight(),
            queued: core.engine.queued(),
            waiting: core.engine.waiting(),
            counts: core.counts(),
        };
        self.add(one, core.is_at_rest());
    }

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
