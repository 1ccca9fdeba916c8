//! The connections to one server that serve one purpose: the host of the engine's policy of pools
//! ([`onetrip_engine::pool`]).
//!
//! A server has two of these. The *shared* one has a single connection, which carries the commands of
//! all callers in the order in which they were made; it is opened again when it is lost, whether or not
//! anybody waits. The *own* one lends connections to one caller at a time: for sessions, blocking commands and
//! streams.
//!
//! The lock of the pool is taken before that of a connection, never the other way round.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::task::Waker;
use std::time::Instant;

use onetrip_engine::pool::{self as policy, Cause, Condition, ConnectionId, Load, Output};
use onetrip_engine::{Outcome, Time, Token};
use onetrip_redis::router::FlightId;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::config::Config;
use super::connect::{self, Target};
use super::link::{Landed, Link, Shared};
use super::place::{Cell, Settled};
use super::subscribing;
use crate::error::CONNECTION_ENDED;
use crate::pool::runtime_gone;
use crate::{Error, Kind};

/// What the connections of a pool are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Shared,
    Own,
}

/// The connections to one server that serve one purpose.
pub(crate) struct Pool {
    pub(crate) config: Arc<Config>,
    pub(crate) target: Target,
    pub(crate) context: Arc<Shared>,
    purpose: Purpose,
    /// There was a connection before.
    was_open: AtomicBool,
    /// The shared connection, while nobody has to wait for it.
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
    /// What is to be opened once the lock is released.
    to_open: Vec<ConnectionId>,
    /// Who waits for a connection.
    callers: HashMap<u64, Caller>,
    next_caller: u64,
    /// Why the last attempt to open a connection failed.
    last_error: Option<Error>,
    /// Why the pool was closed, if not by its owner.
    closed_because: Option<Error>,
    /// Who is to be woken once the lock is released.
    wakers: Vec<Waker>,
    /// Commands of a cluster that got no connection, to be told once the lock is released.
    landed: Vec<(FlightId, Landed)>,
    /// When the timer goes off.
    armed: Time,
}

/// One who waits for a connection.
struct Caller {
    cell: Arc<Cell>,
    deadline: Time,
}

/// What a task is to tell, or, where its runtime is gone, a thread.
struct Telling {
    context: Arc<Shared>,
    landed: Vec<(FlightId, Landed)>,
}

impl Telling {
    fn tell(mut self) {
        self.context.landed(std::mem::take(&mut self.landed));
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        if !self.landed.is_empty() {
            // The task never ran. Whoever drops it may hold the lock of the cluster.
            let (context, landed) = (self.context.clone(), std::mem::take(&mut self.landed));
            std::thread::spawn(move || context.landed(landed));
        }
    }
}

/// The place of a connection in its pool.
#[derive(Clone)]
pub(crate) struct Seat {
    pool: Weak<Pool>,
    pub(crate) id: ConnectionId,
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
        let pool = Arc::new(Pool {
            config: config.clone(),
            target,
            context: context.clone(),
            purpose,
            was_open: AtomicBool::new(false),
            current: RwLock::new(None),
            state: Mutex::new(State {
                policy: policy::Pool::new(limits(config, purpose), seed),
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
        });
        tokio::spawn(watch(Watch(Arc::downgrade(&pool)), pool.changed.clone()));
        pool
    }

    /// Opens the first connection. Its failure is the failure of the client.
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
        let Some(id) = first else { return Ok(()) };
        let attempt = Attempt::new(self, id);
        let error = attempt.run().await;
        match error {
            Some(error) => {
                self.close();
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// Lets tasks be made here, whoever calls.
    pub(crate) fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.runtime.enter()
    }

    /// The shared connection, if nobody has to wait for it.
    pub(crate) fn current(&self) -> Option<Arc<Link>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits in line for a connection: `cell` is told of it, with the call that it holds.
    pub(crate) fn wait(self: &Arc<Self>, cell: &Arc<Cell>) {
        self.with(|state, now| {
            let deadline = cell.deadline().min(now.after(self.config.limits.wait_timeout));
            self.line_up(state, now, Caller { cell: cell.clone(), deadline });
        });
    }

    fn line_up(self: &Arc<Self>, state: &mut State, now: Time, caller: Caller) {
        let token = state.next_caller;
        state.next_caller += 1;
        let (cell, deadline) = (caller.cell.clone(), Some(caller.deadline));
        state.callers.insert(token, caller);
        let ticket = match self.purpose {
            Purpose::Shared => state.policy.wait_shared(now, Token(token), deadline),
            Purpose::Own => state.policy.checkout(now, Token(token), deadline),
        };
        cell.stands_at(self, ticket, token);
    }

    /// A caller no longer waits. What it is granted all the same goes back.
    pub(crate) fn give_up(self: &Arc<Self>, ticket: policy::Ticket, token: u64) {
        self.with(|state, _| {
            if state.policy.give_up(ticket) {
                state.callers.remove(&token);
            }
        });
    }

    /// A connection that was lent comes back.
    pub(crate) fn release(self: &Arc<Self>, link: &Arc<Link>, condition: Condition) {
        let id = link.seat.id;
        self.with(|state, now| {
            state.policy.release(now, id, condition);
            if condition == Condition::Broken {
                self.forget(state, id);
            }
        });
    }

    /// Changes the policy's state and does what it then says.
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

    /// Tells the cluster of what got no connection; in a task, since it may be the one who asked.
    fn land(&self, landed: Vec<(FlightId, Landed)>) {
        if !landed.is_empty() {
            let telling = Telling { context: self.context.clone(), landed };
            self.runtime.spawn(async move { telling.tell() });
        }
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

    /// Lets callers go straight to the shared connection while none waits for it.
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
            Output::Granted { token, id, .. } | Output::Placed { token, id, .. } => {
                self.serve(state, token, id);
            }
            Output::Failed { token, cause } => {
                let error = self.failure(state, cause);
                if let Some(caller) = state.callers.remove(&token.0) {
                    let (waker, flight) = caller.cell.fail(error.clone());
                    state.wakers.extend(waker);
                    state.landed.extend(flight.map(|flight| (flight, Landed::Failed(error))));
                }
            }
            Output::Drain { id } => {
                // Shared work is never drained for somebody else's sake, so it is being closed.
                state.policy.handle_drained(id);
            }
            Output::Close { id } => self.forget(state, id),
            Output::Shared { .. } | Output::Reset { .. } | Output::Closed => {}
        }
    }

    /// A caller is given a connection.
    fn serve(self: &Arc<Self>, state: &mut State, token: Token, id: ConnectionId) {
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
                // It has ended, and is about to say so. All that it was to have stay, in the same order: whoever comes
                // later stands behind them.
                state.links.remove(&id);
                state.policy.handle_lost(now, id);
                self.line_up(state, now, caller);
            }
        }
    }

    /// Lets a connection go: it says goodbye when what was submitted was answered.
    fn forget(&self, state: &mut State, id: ConnectionId) {
        if let Some(task) = state.opening.remove(&id) {
            task.abort();
        }
        if let Some(link) = state.links.remove(&id) {
            link.release();
        }
    }

    fn failure(&self, state: &State, cause: Cause) -> Error {
        let max = self.config.limits.connections_max;
        if let (Cause::Closed, Some(error)) = (cause, &state.closed_because) {
            return error.clone();
        }
        if let (Cause::OpenFailed | Cause::Deadline, Some(error)) = (cause, &state.last_error) {
            return error.clone().with_outcome(Outcome::NotSent);
        }
        let (kind, code, message) = match cause {
            Cause::LineFull => (
                Kind::Misuse,
                "pool_full",
                format!("too many callers wait for a connection to {}", self.target),
            ),
            Cause::Deadline | Cause::OpenFailed => (
                Kind::Timeout,
                "pool_timeout",
                match self.purpose {
                    Purpose::Shared => format!("no connection to {} came in time", self.target),
                    Purpose::Own => format!(
                        "no connection became free in time: up to {max} (connections_max) are lent; end \
                         sessions and blocking commands sooner, or raise connections_max or wait_timeout"
                    ),
                },
            ),
            Cause::Closed => (
                Kind::Transport,
                CONNECTION_ENDED,
                "the client was closed by this program".to_owned(),
            ),
        };
        Error::new(kind, Outcome::NotSent, code, message)
    }

    // --- opening ---

    /// Opens a connection in the background. A runtime that is gone says so at once, so the lock must
    /// be free.
    fn spawn_open(self: &Arc<Self>, id: ConnectionId) {
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
        self.with(|state, now| {
            state.opening.remove(&id);
            match result {
                Ok(link) => {
                    let closed = link.lock().engine.is_closed();
                    state.links.insert(id, link);
                    state.last_error = None;
                    state.policy.handle_opened(now, id);
                    if closed {
                        // It was reported before the policy knew of it.
                        state.links.remove(&id);
                        state.policy.handle_lost(now, id);
                    }
                }
                Err(error) => {
                    // In a cluster another node may have what this one had: nobody waits here for it.
                    let permanent = self.target.is_node()
                        || connect::is_final(&error)
                        || error.code() == CONNECTION_ENDED;
                    state.policy.handle_open_failed(now, id, permanent);
                    state.last_error = Some(error);
                }
            }
        });
    }

    /// A connection was opened; the lock is free.
    fn greet(&self, link: &Arc<Link>) {
        self.context.totals.opened(link, self.purpose == Purpose::Shared);
        let is_resp3 = link.lock().is_resp3;
        if !self.target.subscribes {
            self.context.set_resp3(is_resp3);
        }
        let is_first = !self.was_open.swap(true, Ordering::Relaxed);
        if self.purpose == Purpose::Shared && (is_resp3 || self.target.subscribes) {
            subscribing::moved_to(link, is_first);
        }
    }

    fn lost(self: &Arc<Self>, id: ConnectionId) {
        self.with(|state, now| {
            state.links.remove(&id);
            state.policy.handle_lost(now, id);
        });
    }

    /// No new calls come: what was submitted is still answered.
    pub(crate) fn close(self: &Arc<Self>) {
        self.with(|state, _| state.policy.close());
    }

    /// Does what is due, and says when something will be. `None` once the pool is closed and all its
    /// connections are gone.
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

    // --- getters ---

    /// Callers in line.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().callers.len()
    }
}

/// An attempt to open a connection. One that its runtime drops has failed: nobody may wait for it then.
struct Attempt {
    pool: Arc<Pool>,
    id: ConnectionId,
    is_over: bool,
}

impl Attempt {
    fn new(pool: &Arc<Pool>, id: ConnectionId) -> Attempt {
        Attempt { pool: pool.clone(), id, is_over: false }
    }

    /// Opens it and tells the pool. Returns why it failed, if it did.
    async fn run(mut self) -> Option<Error> {
        let seat = Seat { pool: Arc::downgrade(&self.pool), id: self.id };
        let Pool { config, target, context, .. } = &*self.pool;
        let result = connect::connect(config, target, context, seat).await;
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

impl Seat {
    /// The connection is gone.
    pub(crate) fn lost(&self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.lost(self.id);
        }
    }

    pub(crate) fn pool(&self) -> Option<Arc<Pool>> {
        self.pool.upgrade()
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.id.fmt(f)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({:?} to {})", self.purpose, self.target)
    }
}

/// Any number of commands fit: what is too much waits at the connection.
const IDLE: Load = Load { unanswered: 0, unanswered_bytes: 0, since: Time::ZERO, room: usize::MAX };

/// Connections that are lent come back at rest, and the shared one always takes more.
fn load_of(_: &HashMap<ConnectionId, Arc<Link>>, _: ConnectionId) -> Load {
    IDLE
}

fn limits(config: &Config, purpose: Purpose) -> policy::Limits {
    let limits = &config.limits;
    let common = policy::Limits {
        wait_timeout: limits.wait_timeout,
        waiting_max: limits.queue_max,
        backoff_min: limits.backoff.0,
        backoff_max: limits.backoff.1,
        lifetime: std::time::Duration::MAX,
        ..policy::Limits::default()
    };
    match purpose {
        Purpose::Shared => policy::Limits {
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

/// Watches the clock for a pool, for as long as there is one.
async fn watch(watch: Watch, changed: Arc<Notify>) {
    while let Some(next) = watch.0.upgrade().and_then(|pool| pool.tick()) {
        tokio::select! {
            () = changed.notified() => {}
            () = wait_until(next) => {}
        }
    }
}

/// The pool while its clock is watched. Without the runtime that does it nothing can be opened, and
/// nobody may wait for that.
struct Watch(Weak<Pool>);

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            let mut state = pool.lock();
            if !state.policy.is_closed() {
                state.closed_because.get_or_insert_with(runtime_gone);
            }
            drop(state);
            pool.close();
        }
    }
}

pub(super) async fn wait_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
