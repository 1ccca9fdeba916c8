//! Callers that wait for a connection of a pool.

use std::sync::Arc;

use onetrip_engine::pool::{self as policy, Cause, Condition, Served, TextKey};
use onetrip_engine::{Time, Token};
use onetrip_redis::client::router::FlightId;

use super::{Pool, Purpose, State};
use crate::redis::link::{Landed, Landings, Shared};
use crate::redis::place::{Cell, Line, Settled};
use crate::{Error, Kind, Outcome};

/// A caller that waits for a connection.
pub(super) struct Caller {
    pub(super) cell: Arc<Cell>,
    deadline: Time,
}

impl Caller {
    /// Whether its own deadline comes before the pool's `wait_timeout` ends.
    pub(super) fn is_timed(&self) -> bool {
        self.cell.deadline() == self.deadline
    }
}

impl Line for Pool {
    fn give_up(self: Arc<Self>, ticket: policy::Ticket, token: u64) {
        self.with(|state, _| {
            if state.policy.give_up(ticket) {
                state.callers.remove(&token);
            }
        });
    }
}

impl Pool {
    /// Gets in line for a connection; `cell` holds the call and gets the result.
    pub(crate) fn wait(self: &Arc<Self>, cell: &Arc<Cell>) {
        self.with(|state, now| {
            let deadline = cell.deadline().min(now.after(state.policy.limits().wait_timeout));
            let (token, policy, until) = (state.next_caller, &mut state.policy, Some(deadline));
            state.next_caller += 1;
            let ticket = match self.purpose {
                Purpose::Shared => policy.wait_shared(now, Token(token), TextKey::UNTOLD, until),
                Purpose::Own => policy.checkout(now, Token(token), until),
            };
            cell.stands_at(self.clone(), ticket, token);
            state.callers.insert(token, Caller { cell: cell.clone(), deadline });
        });
    }

    /// Gives a caller a connection.
    pub(super) fn serve(self: &Arc<Self>, state: &mut State, served: Served) {
        let Served { token, id, .. } = served;
        let Some(caller) = state.callers.remove(&token.0) else { return };
        let link = state.links.get(&id);
        let now = self.context.now();
        match link.map_or(Settled::Stays, |link| caller.cell.settle(link)) {
            Settled::Told(waker) => state.wakers.extend(waker),
            Settled::Unwanted if self.purpose == Purpose::Own => {
                state.policy.release(now, id, Condition::Clean);
            }
            Settled::Unwanted => {}
            Settled::Stays => {
                // The connection has ended, and is about to report that.
                state.links.remove(&id);
                let ticket = state.policy.again(now, served, true);
                caller.cell.stands_at(self.clone(), ticket, token.0);
                state.callers.insert(token.0, caller);
            }
        }
    }

    pub(super) fn failure(&self, state: &State, cause: Cause) -> Error {
        if let (Cause::Closed, Some(error)) = (cause, &state.closed_because) {
            return error.clone();
        }
        if let (Cause::OpenFailed | Cause::Deadline, Some(error)) = (cause, &state.last_error) {
            return error.clone().with_outcome(Outcome::NotSent);
        }
        let limits = state.policy.limits();
        match (cause, self.purpose) {
            // They wait for one connection, which is shared.
            (Cause::Deadline | Cause::OpenFailed, Purpose::Shared) => Error::new(
                Kind::Timeout,
                Outcome::NotSent,
                Cause::Deadline.code(),
                format!(
                    "no connection to {} came within {} ms (wait_timeout_ms)",
                    self.target,
                    limits.wait_timeout.as_millis()
                ),
            ),
            (Cause::OpenFailed, Purpose::Own) => Error::unserved(Cause::Deadline, limits),
            _ => Error::unserved(cause, limits),
        }
    }

    /// Reports commands without a connection to the cluster; in a task, since the cluster may be
    /// the caller here.
    pub(super) fn land(&self, landed: Vec<(FlightId, Landed)>) {
        if !landed.is_empty() {
            let telling = Telling { context: self.context.clone(), landed };
            self.runtime.spawn(async move { telling.tell() });
        }
    }
}

/// What a task has to report; if its runtime is gone, a thread does.
struct Telling {
    context: Arc<Shared>,
    landed: Vec<(FlightId, Landed)>,
}

impl Telling {
    fn tell(mut self) {
        self.context.landed(Landings::of(std::mem::take(&mut self.landed)));
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        if !self.landed.is_empty() {
            // The task never ran. Whoever drops it may hold the lock of the cluster.
            let (context, landed) = (self.context.clone(), std::mem::take(&mut self.landed));
            std::thread::spawn(move || context.landed(Landings::of(landed)));
        }
    }
}
