//! Opening and losing connections of a pool.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use onetrip_engine::Time;
use onetrip_engine::pool::{ConnectionId, OpenFailure, Output};

use super::{IDLE, Pool, Purpose};
use crate::Error;
use crate::error::CLOSED;
use crate::pool::runtime_gone;
use crate::redis::connect;
use crate::redis::link::{Link, PoolSlot};
use crate::redis::place::Cell;
use crate::redis::subscribing;

impl Pool {
    /// Opens the first connection. If it fails, opening the client fails.
    pub(crate) async fn open_first(self: &Arc<Self>) -> Result<(), Error> {
        let mut first = None;
        {
            let mut state = self.lock();
            let now = self.context.now();
            while let Some(output) = state.policy.poll_output(now, |_| IDLE) {
                match output {
                    Output::Open { id } => first = Some(id),
                    output => self.act(&mut state, output),
                }
            }
        }
        self.watch();
        let Some(id) = first else { return Ok(()) };
        let attempt = Attempt::new(self, id);
        let error = attempt.run().await;
        match error {
            Some(error) if connect::is_loading(&error) => self.wait_for_first().await,
            Some(error) => {
                self.close();
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// The server is loading its data. Further attempts follow automatically, and this waits for
    /// them as a call does.
    async fn wait_for_first(self: &Arc<Self>) -> Result<(), Error> {
        let cell = Cell::new(None, Time::NEVER);
        self.wait(&cell);
        let waited = std::future::poll_fn(|cx| cell.poll(cx)).await;
        waited.map(drop).inspect_err(|_| self.close())
    }

    /// Opens a connection in the background. If the runtime is gone, that is reported at once, so
    /// the lock must be free.
    pub(super) fn spawn_open(self: &Arc<Self>, id: ConnectionId) {
        let attempt = Attempt::new(self, id);
        let task = self.runtime.spawn(async move {
            attempt.run().await;
        });
        let mut state = self.lock();
        match state.policy.is_known(id) {
            true => drop(state.opening.insert(id, task.abort_handle())),
            false => task.abort(),
        }
    }

    fn opened(self: &Arc<Self>, id: ConnectionId, result: Result<Arc<Link>, Error>) {
        match &result {
            Ok(link) => self.greet(link),
            Err(error) => self.context.totals.open_failed(error),
        }
        let is_lost = self.with(|state, now| {
            state.opening.remove(&id);
            match result {
                Ok(link) => {
                    let closed = link.lock().engine.is_closed();
                    state.links.insert(id, link);
                    state.last_error = None;
                    state.policy.handle_opened(now, id);
                    if closed {
                        // It was lost before the policy knew of it.
                        state.links.remove(&id);
                        state.policy.handle_lost(now, id);
                    }
                    closed
                }
                Err(error) => {
                    let is_permanent = connect::is_final(&error) || error.code() == CLOSED;
                    let failure = OpenFailure { is_permanent, may_pass: false };
                    state.policy.handle_open_failed(now, id, failure);
                    state.last_error = Some(error);
                    false
                }
            }
        });
        if is_lost {
            self.tell_lost();
        }
    }

    /// A connection was opened; the lock is free.
    fn greet(&self, link: &Arc<Link>) {
        self.context.totals.opened(link, self.purpose == Purpose::Shared);
        let is_resp3 = link.lock().is_resp3;
        if !self.target.subscribes {
            self.context.set_resp3(is_resp3);
        }
        let is_first = !self.was_open.swap(true, Ordering::Relaxed);
        if self.purpose != Purpose::Shared {
            return;
        }
        if self.target.is_node() {
            return self.context.connected();
        }
        let home = self.context.home();
        let is_apart = home.as_ref().is_some_and(|home| home.subscribes_apart());
        match (self.target.subscribes, is_resp3, home) {
            (true, ..) => subscribing::moved_to(link, is_first),
            (false, true, _) if !is_apart => subscribing::moved_to(link, is_first),
            // The previous connection spoke RESP3.
            (false, false, Some(home)) => home.move_subscriptions_apart(),
            (false, ..) => {}
        }
    }

    /// The first connection of this pool subscribes to all channels that are read, since another
    /// connection was subscribed before.
    pub(crate) fn follow_another(&self) {
        self.was_open.store(true, Ordering::Relaxed);
    }

    pub(super) fn lost(self: &Arc<Self>, id: ConnectionId) {
        self.with(|state, now| {
            state.links.remove(&id);
            state.policy.handle_lost(now, id);
        });
        self.tell_lost();
    }

    /// The cluster learns that its node has no shared connection any more; the lock is free.
    fn tell_lost(&self) {
        if self.purpose == Purpose::Shared && self.target.is_node() {
            self.context.disconnected();
        }
    }
}

/// An attempt to open a connection. If its runtime drops it, it has failed: whoever waits gets an
/// error.
struct Attempt {
    pool: Arc<Pool>,
    id: ConnectionId,
    is_over: bool,
}

impl Attempt {
    fn new(pool: &Arc<Pool>, id: ConnectionId) -> Attempt {
        Attempt { pool: pool.clone(), id, is_over: false }
    }

    /// Opens it, and tells the pool. Returns the error if it failed.
    async fn run(mut self) -> Option<Error> {
        let pool_slot = {
            let owner: Weak<Pool> = Arc::downgrade(&self.pool);
            PoolSlot::new(owner, self.id)
        };
        let Pool { config, target, context, .. } = &*self.pool;
        let result = connect::connect(config, target, context, pool_slot).await;
        self.is_over = true;
        let error = result.as_ref().err().cloned();
        self.pool.opened(self.id, result);
        error
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_over {
            self.pool.opened(self.id, Err(runtime_gone()));
        }
    }
}
