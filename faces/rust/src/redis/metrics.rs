//! The counters of a client, the same as for PostgreSQL.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::link::Link;
use crate::Error;
use crate::metrics::{ConnectionMetrics, Counts, Metrics};

/// The counters of a client beside those of its connections, and a list of the connections. Its
/// lock is taken when a connection is opened or has ended, and for a snapshot. It is taken before a
/// connection's lock.
#[derive(Debug, Default)]
pub(crate) struct Totals(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    live: Vec<(Weak<Link>, bool)>,
    /// The counters of connections that are gone.
    past: Counts,
    opened: u64,
    open_failed: u64,
    closed: u64,
    lost: u64,
}

impl Totals {
    pub(crate) fn opened(&self, link: &Arc<Link>, is_shared: bool) {
        let mut state = self.lock();
        state.opened += 1;
        state.live.push((Arc::downgrade(link), is_shared));
        drop(state);
        super::trace::opened(link);
    }

    pub(crate) fn open_failed(&self, error: &Error) {
        self.lock().open_failed += 1;
        super::trace::open_failed(error);
    }

    /// A connection has ended: its counters are kept.
    pub(crate) fn ended(&self, link: &Arc<Link>) {
        let mut state = self.lock();
        let (counts, why) = {
            let core = link.lock();
            (core.counts(), core.why_lost())
        };
        state.live.retain(|(other, _)| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(link)));
        state.past += counts;
        match why.is_some() {
            true => state.lost += 1,
            false => state.closed += 1,
        }
        drop(state);
        super::trace::ended(why.as_ref());
    }

    pub(crate) fn add_to(&self, metrics: &mut Metrics) {
        let state = self.lock();
        metrics.opened += state.opened;
        metrics.open_failed += state.open_failed;
        metrics.closed += state.closed;
        metrics.lost += state.lost;
        metrics.counts += state.past;
        for (link, is_shared) in &state.live {
            let Some(link) = link.upgrade() else { continue };
            let core = link.lock();
            let one = ConnectionMetrics {
                server: core.route.to_string(),
                is_shared: *is_shared,
                in_flight: core.engine.in_flight(),
                queued: core.engine.queued(),
                waiting: core.engine.waiting(),
                counts: core.counts(),
            };
            metrics.add(one, core.engine.is_idle());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
