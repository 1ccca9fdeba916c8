//! The timer of a cluster.

use std::sync::Arc;

use onetrip_engine::{Outcome, Time};

use super::Cluster;
use crate::pool::runtime_gone;

/// Runs the timer of a cluster until it is closed and nothing is unanswered.
pub(super) async fn watch(watch: Watch) {
    let this = &watch.0;
    while let Some(next) = this.tick() {
        let sleep = (next != Time::NEVER).then(|| this.home.context.instant(next));
        tokio::select! {
            () = this.changed.notified() => {}
            () = super::super::pool::wait_until(sleep) => {}
        }
    }
}

impl Cluster {
    fn tick(&self) -> Option<Time> {
        self.with(|state, now| {
            state.router.handle_time(now);
            // The timer is set below, so it need not be told of an earlier deadline.
            state.armed = Time::ZERO;
        });
        let mut state = self.lock();
        state.armed = state.next_deadline();
        (!state.is_over()).then_some(state.armed)
    }
}

/// The cluster, while its timer runs. Its owner closes it, and commands that were sent are answered
/// even after that. If the runtime of the timer ends, nothing is sent any more, and whoever waits
/// gets an error.
pub(super) struct Watch(pub(super) Arc<Cluster>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.with(|state, _| {
            if !state.closed {
                (state.closed, state.closed_because) = (true, Some(runtime_gone()));
            }
            state.router.close();
        });
        // Commands that waited have ended by that; the others were sent.
        self.0.with(|state, _| {
            for (_, caller) in state.callers.drain() {
                let error = runtime_gone().with_outcome(Outcome::Unknown);
                state.wakers.extend(caller.cell.settle(Err(error)));
            }
        });
    }
}
