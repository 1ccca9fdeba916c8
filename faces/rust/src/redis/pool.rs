//! The connections to one server for one purpose: the host of the engine's policy of pools
//! ([`onetrip_engine::pool`]).
//!
//! A server has two of these. The *shared* pool has a single connection, which carries the commands
//! of all callers in the order in which they were made. It is opened again when it is lost, whether
//! or not anybody waits. The *own* pool lends connections to one caller at a time: for sessions,
//! blocking commands and streams.
//!
//! The lock of the pool is taken before that of a connection, never the other way round.

mod callers;
mod clock;
mod opening;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::Waker;
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_engine::pool::{self as policy, Cause, Condition, ConnectionId, Load, Output};
use onetrip_redis::client::router::{FlightId, LINE_WAIT};
use onetrip_redis::client::sentinel::{ATTEMPT_PAUSE, LEFT};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use self::callers::Caller;
pub(super) use self::clock::wait_until;
use super::config::Config;
use super::connect::Target;
use super::link::{Landed, Link, Owner, Shared};
use super::seat::Leave;
use crate::Error;

/// What the connections of a pool are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Shared,
    Own,
}

/// The connections to one server for one purpose.
pub(crate) struct Pool {
    pub(crate) config: Arc<Config>,
    pub(crate) target: Target,
    pub(crate) context: Arc<Shared>,
    purpose: Purpose,
    /// Whether there was a connection before.
    was_open: AtomicBool,
    /// The shared connection, while no caller waits for it.
    current: RwLock<Option<Arc<Link>>>,
    state: Mutex<State>,
    /// The timer's deadline may have changed.
    changed: Arc<Notify>,
    runtime: Handle,
}

struct State {
    policy: policy::Pool,
    links: HashMap<ConnectionId, Arc<Link>>,
    opening: HashMap<ConnectionId, AbortHandle>,
    /// Connections to open once the lock is released.
    to_open: Vec<ConnectionId>,
    /// The callers that wait for a connection.
    callers: HashMap<u64, Caller>,
    next_caller: u64,
    /// Why the last attempt to open a connection failed.
    last_error: Option<Error>,
    /// Why the pool was closed, if not by its owner.
    closed_because: Option<Error>,
    /// Tasks to wake once the lock is released.
    wakers: Vec<Waker>,
    /// Commands of a cluster that got no connection, to be reported once the lock is released.
    landed: Vec<(FlightId, Landed)>,
    /// When the timer goes off.
    armed: Time,
}

impl Pool {
    /// A pool without connections.
    pub(crate) fn new(
        config: &Arc<Config>,
        target: Target,
        context: &Arc<Shared>,
        purpose: Purpose,
        seed: u64,
    ) -> Arc<Pool> {
        let mut policy = policy::Pool::new(limits(config, &target, purpose), seed);
        if target.is_node() {
            policy.serves_node();
        }
        let pool = Arc::new(Pool {
            config: config.clone(),
            context: context.clone(),
            purpose,
            was_open: AtomicBool::new(false),
            current: RwLock::new(None),
            state: Mutex::new(State {
                policy,
                links: HashMap::new(),
                opening: HashMap::new(),
                to_open: Vec::new(),
                callers: HashMap::new(),
                next_caller: 0,
                last_error: None,
                closed_because: None,
                wakers: Vec::new(),
                landed: Vec::new(),
                armed: Time::NEVER,
            }),
            changed: Arc::default(),
            runtime: Handle::current(),
            target,
        });
        if let Some(seat) = &pool.target.seat {
            let leaving: std::sync::Weak<Pool> = Arc::downgrade(&pool);
            seat.belongs_to(leaving);
        }
        pool
    }

    /// Enters the runtime, so that tasks can be started on any thread.
    pub(crate) fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.runtime.enter()
    }

    /// The shared connection, if no caller waits for it.
    pub(crate) fn current(&self) -> Option<Arc<Link>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that was lent comes back.
    pub(crate) fn release(self: &Arc<Self>, link: &Arc<Link>, condition: Condition) {
        let id = link.pool_slot.id;
        self.with(|state, now| {
            state.policy.release(now, id, condition);
            if condition == Condition::Broken {
                self.forget(state, id);
            }
        });
    }

    /// Changes the policy's state, and does what it then requests.
    fn with<R>(self: &Arc<Self>, change: impl FnOnce(&mut State, Time) -> R) -> R {
        let mut state = self.lock();
        let now = self.context.now();
        let result = change(&mut state, now);
        self.settle(&mut state, now);
        let wakers = std::mem::take(&mut state.wakers);
        let to_open = std::mem::take(&mut state.to_open);
        let landed = std::mem::take(&mut state.landed);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        self.land(landed);
        to_open.into_iter().for_each(|id| self.spawn_open(id));
        result
    }

    fn settle(self: &Arc<Self>, state: &mut State, now: Time) {
        loop {
            let State { policy, links, .. } = state;
            let Some(output) = policy.poll_output(now, |id| load_of(links, id)) else { break };
            self.act(state, output);
        }
        self.publish(state);
        let deadline = state.policy.poll_deadline().unwrap_or(Time::NEVER);
        if deadline < state.armed || state.policy.is_closed() {
            state.armed = deadline;
            self.changed.notify_one();
        }
    }

    /// Lets callers use the shared connection directly while none waits for it.
    fn publish(&self, state: &State) {
        if self.purpose == Purpose::Own {
            return;
        }
        let waits = !state.callers.is_empty();
        let link = state.links.values().next().filter(|_| !waits);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let same = match (&*current, link) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        if !same {
            *current = link.cloned();
        }
    }

    fn act(self: &Arc<Self>, state: &mut State, output: Output) {
        match output {
            Output::Open { id } => state.to_open.push(id),
            Output::Granted(served) | Output::Placed(served) => self.serve(state, served),
            Output::Failed { token, cause } => {
                let is_timed = state.callers.get(&token.0).is_some_and(Caller::is_timed);
                let error = match cause {
                    Cause::Deadline if is_timed && state.last_error.is_none() => {
                        Error::late("the deadline passed before a connection was free")
                    }
                    _ => self.failure(state, cause),
                };
                if let Some(caller) = state.callers.remove(&token.0) {
                    let (waker, flight) = caller.cell.fail(error.clone());
                    state.wakers.extend(waker);
                    state.landed.extend(flight.map(|flight| (flight, Landed::Failed(error))));
                }
            }
            Output::Drain { id } => {
                // The shared connection is drained only because the pool is being closed.
                state.policy.handle_drained(id);
            }
            Output::Close { id } => self.forget(state, id),
            Output::Shared { .. } | Output::Reset { .. } | Output::Scout | Output::Closed => {}
        }
    }

    /// Releases a connection: it says goodbye when its requests are answered.
    fn forget(&self, state: &mut State, id: ConnectionId) {
        if let Some(task) = state.opening.remove(&id) {
            task.abort();
        }
        if let Some(link) = state.links.remove(&id) {
            link.release();
        }
    }

    /// Closed to new calls; calls that were submitted are still answered, also those in line.
    pub(crate) fn close(self: &Arc<Self>) {
        self.with(|state, _| state.policy.close());
    }

    /// Closed to new calls, and calls in line are refused.
    pub(crate) fn cut(self: &Arc<Self>) {
        self.with(|state, _| state.policy.cut());
    }

    /// How many callers wait in line.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().callers.len()
    }
}

impl Leave for Pool {
    fn leave(&self, number: Option<u64>) {
        let links: Vec<Arc<Link>> = self.lock().links.values().cloned().collect();
        for link in links.into_iter().filter(|link| link.pool_slot.number() != number) {
            let error = link.lock().lost(LEFT);
            link.abort(error);
        }
    }
}

impl Owner for Pool {
    fn lost(self: Arc<Self>, id: ConnectionId) {
        Pool::lost(&self, id);
    }

    fn release(self: Arc<Self>, link: &Arc<Link>, condition: Condition) {
        Pool::release(&self, link, condition);
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({:?} to {})", self.purpose, self.target)
    }
}

/// Any number of commands fit: those beyond the window wait at the connection.
const IDLE: Load = Load {
    unanswered: 0,
    unanswered_bytes: 0,
    since: Time::ZERO,
    room: usize::MAX,
    expected: Duration::ZERO,
    unsure: 0,
    locking: 0,
    staying: 0,
    trip: Duration::ZERO,
};

/// Connections that are lent come back at rest, and the shared one always takes more.
fn load_of(_: &HashMap<ConnectionId, Arc<Link>>, _: ConnectionId) -> Load {
    IDLE
}

fn limits(config: &Config, target: &Target, purpose: Purpose) -> policy::Limits {
    let limits = &config.limits;
    let backoff = if target.seat.is_some() { ATTEMPT_PAUSE } else { limits.backoff };
    let common = policy::Limits {
        wait_timeout: limits.wait_timeout,
        waiting_max: limits.queue_max,
        backoff_min: backoff.0,
        backoff_max: backoff.1,
        lifetime: std::time::Duration::MAX,
        ..policy::Limits::default()
    };
    match purpose {
        Purpose::Shared => policy::Limits {
            wait_timeout: match target.is_node() {
                true => limits.wait_timeout.min(LINE_WAIT),
                false => limits.wait_timeout,
            },
            connections_max: 1,
            connections_min: 1,
            idle_timeout: std::time::Duration::MAX,
            ..common
        },
        Purpose::Own => policy::Limits {
            connections_max: limits.connections_max,
            idle_timeout: limits.idle_timeout,
            ..common
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
