//! The timer of a pool.

use std::sync::{Arc, Weak};
use std::time::Instant;

use onetrip_engine::Time;
use tokio::sync::Notify;

use super::Pool;
use crate::pool::runtime_gone;

impl Pool {
    /// Starts the timer, which opens the first connection in the background if none was asked for.
    pub(crate) fn watch(self: &Arc<Self>) {
        self.runtime.spawn(watch(Watch(Arc::downgrade(self)), self.changed.clone()));
    }

    /// Does what is due, and returns when to be called next. `None` once the pool is closed and all
    /// its connections are gone.
    fn tick(self: &Arc<Self>) -> Option<Option<Instant>> {
        self.with(|state, now| {
            state.policy.handle_time(now);
            // The timer is set below, so it need not be told of an earlier deadline.
            state.armed = Time::ZERO;
        });
        let mut state = self.lock();
        state.armed = state.policy.poll_deadline().unwrap_or(Time::NEVER);
        let instant = (state.armed != Time::NEVER).then(|| self.context.instant(state.armed));
        (!state.policy.is_closed()).then_some(instant)
    }
}

/// Runs the timer of a pool, for as long as the pool exists.
async fn watch(watch: Watch, changed: Arc<Notify>) {
    while let Some(next) = watch.0.upgrade().and_then(|pool| pool.tick()) {
        tokio::select! {
            () = changed.notified() => {}
            () = wait_until(next) => {}
        }
    }
}

/// The pool, while its timer runs. If the runtime of the timer ends, nothing can be opened, and
/// whoever waits gets an error.
struct Watch(Weak<Pool>);

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            let mut state = pool.lock();
            if !state.policy.is_closed() {
                state.closed_because.get_or_insert_with(runtime_gone);
            }
            drop(state);
            pool.cut();
        }
    }
}

pub(in crate::redis) async fn wait_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}
