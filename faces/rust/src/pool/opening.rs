//! Opening connections for a pool.

use std::sync::Arc;

use onetrip_engine::Time;
use onetrip_engine::pool::{ConnectionId, OpenFailure, Output};

use super::Pool;
use crate::connect::{Unopened, connect, is_final, scout};
use crate::core::Connection;
use crate::core::slot::PoolSlot;
use crate::error::CLOSED;
use crate::{Error, Kind, Outcome, trace};

/// Opens a connection that the policy requested.
pub(super) async fn open(mut attempt: Attempt) {
    let Attempt { pool, id, .. } = &attempt;
    let pool_slot = PoolSlot { owner: pool.clone(), id: *id };
    let result = connect(&pool.config, &pool.context, pool_slot).await;
    attempt.is_over = true;
    attempt.pool.opened(attempt.id, result);
}

/// Looks for another server while the present one is silent.
pub(super) async fn look_elsewhere(pool: Arc<Pool>) {
    scout(&pool.config, &pool.context).await;
    pool.with(|state, now| state.policy.handle_scouted(now));
}

/// If its runtime drops an attempt, the attempt has failed: whoever waits gets an error.
pub(super) struct Attempt {
    pool: Arc<Pool>,
    id: ConnectionId,
    is_over: bool,
}

impl Attempt {
    pub(super) fn new(pool: &Arc<Pool>, id: ConnectionId) -> Attempt {
        Attempt { pool: pool.clone(), id, is_over: false }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_over {
            self.pool.opened(self.id, Err(runtime_gone().into()));
        }
    }
}

pub(crate) fn runtime_gone() -> Error {
    Error::new(
        Kind::Transport,
        Outcome::NotSent,
        CLOSED,
        "the runtime in which the client was made was shut down: make the client in one that lives on",
    )
}

impl Pool {
    /// Opens the first connection. If it fails, opening the client fails, unless the policy makes
    /// another attempt in time.
    pub(super) async fn open_first(self: &Arc<Self>) -> Result<(), Error> {
        let until = self.now().after(self.limits.wait_timeout);
        self.lock().policy.connects();
        let mut last = None;
        loop {
            let (first, next) = self.first_attempt();
            let Some(id) = first else {
                let Some(next) = next.filter(|next| *next < until) else { break };
                tokio::time::sleep(next.since(self.now())).await;
                continue;
            };
            let pool_slot = PoolSlot { owner: self.clone(), id };
            let result = connect(&self.config, &self.context, pool_slot).await;
            let failure = result.as_ref().err().cloned();
            let is_over = self.opened(id, result);
            let Some(Unopened { error, .. }) = failure else { return Ok(()) };
            last = Some(error);
            if is_over {
                break;
            }
        }
        self.close();
        last.map_or(Ok(()), Err)
    }

    /// The attempt to open the first connection that is due, or when the next one is.
    fn first_attempt(self: &Arc<Self>) -> (Option<ConnectionId>, Option<Time>) {
        let mut first = None;
        let mut state = self.lock();
        let now = self.now();
        state.policy.handle_time(now);
        state.policy.grow();
        while let Some(output) = state.policy.poll_output(now, |_| unreachable_load()) {
            match output {
                Output::Open { id } if first.is_none() => first = Some(id),
                output => self.act(&mut state, now, output),
            }
        }
        (first, state.policy.poll_deadline())
    }

    /// Returns whether the attempt failed and nobody waits for another.
    fn opened(
        self: &Arc<Self>,
        id: ConnectionId,
        result: Result<Arc<Connection>, Unopened>,
    ) -> bool {
        trace::opened(result.as_ref().map_err(|it| &it.error));
        if result.is_err() {
            self.context.totals.open_failed();
        }
        self.with(|state, now| {
            state.opening.remove(&id);
            match result {
                Ok(connection) => {
                    let closed = connection.lock().engine.is_closed();
                    state.connections.insert(id, connection);
                    state.last_error = None;
                    state.policy.handle_opened(now, id);
                    if closed {
                        // It was lost before the policy knew of it.
                        state.connections.remove(&id);
                        state.policy.handle_lost(now, id);
                    }
                    false
                }
                Err(Unopened { error, may_pass }) => {
                    let refused = error.server().is_some_and(|error| !error.may_mend());
                    let is_permanent = refused || is_final(&error) || error.code() == CLOSED;
                    state.last_error = Some(error);
                    let failure = OpenFailure { is_permanent, may_pass };
                    state.policy.handle_open_failed(now, id, failure)
                }
            }
        })
    }
}

/// No connection is open yet, so the policy can't ask for a load.
fn unreachable_load() -> onetrip_engine::pool::Load {
    unreachable!("a pool without connections asks for no load")
}
