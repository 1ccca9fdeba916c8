//! Collects the counters of a client.

use std::sync::Weak;

use super::totals::State;
use super::{ConnectionMetrics, Metrics};
use crate::core::{Connection, Duty};
use crate::pool::Pool;

/// Makes a snapshot.
pub(crate) fn of(pool: &Pool) -> Metrics {
    let state = pool.context.totals.lock();
    snapshot(&state, pool)
}

pub(super) fn snapshot(state: &State, pool: &Pool) -> Metrics {
    let mut metrics = Metrics {
        opened: state.opened,
        open_failed: state.open_failed,
        closed: state.closed,
        lost: state.lost,
        counts: state.past,
        waits: state.waits,
        waiting: pool.waiting(),
        slow_neighbours: pool.context.neighbours.list(),
        reads: pool.context.standing.get().map(|it| it.lock().counts().into()).unwrap_or_default(),
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
}
