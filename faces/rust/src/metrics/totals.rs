//! The counters of a client beside those of its connections.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

#[cfg(feature = "metrics")]
use super::Metrics;
use super::counts::Counts;
use super::histogram::Histogram;
use crate::Outcome;
use crate::core::Connection;

/// The counters of a client beside those of its connections, and a list of the connections. Its
/// lock is taken when a connection is opened or has ended, when a caller has waited, and for a
/// snapshot. It is taken before a connection's lock.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    state: Mutex<State>,
    /// Notified when a connection has ended.
    one_ended: Notify,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) live: Vec<Weak<Connection>>,
    /// The counters of connections that are gone, and of events that no connection counts.
    pub(super) past: Counts,
    pub(super) opened: u64,
    pub(super) open_failed: u64,
    pub(super) closed: u64,
    pub(super) lost: u64,
    pub(super) waits: Histogram,
    #[cfg(feature = "metrics")]
    pub(super) published: Metrics,
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

    /// A connection has ended: its counters are kept.
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

    /// The connections that have not ended: they count until the goodbye is written.
    pub(crate) fn live(&self) -> Vec<Arc<Connection>> {
        self.lock().live.iter().filter_map(Weak::upgrade).collect()
    }

    /// Resolves when no connection is left. Cancel safe.
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

    /// Counts the time that a caller waited for a connection.
    pub(crate) fn waited(&self, time: Duration) {
        self.lock().waits.add(time);
    }

    /// Counts a reply that could not be read.
    pub(crate) fn unreadable(&self) {
        self.lock().past.failed(Outcome::Applied);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
