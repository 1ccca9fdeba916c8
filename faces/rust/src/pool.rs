//! The pool of a client: the host of the engine's policy ([`onetrip_engine::pool`]).
//!
//! The policy decides under one lock. Two paths bypass it, so that threads don't wait for each
//! other there:
//!
//! - A statement is placed on a shared connection by its published load alone (`placing.rs`).
//! - A session that ends leaves its connection in a cell of its thread, where the next session
//!   finds it (`cells.rs`). To the policy it is still checked out.
//!
//! Both first look whether anybody waits, and then leave the decision to the policy, so that nobody
//! is overtaken.
//!
//! The lock of the policy is taken before that of a connection, never the other way round: a
//! connection reports (`PoolSlot::report`) with its own lock released.

mod cells;
mod checkout;
mod exchange;
pub(crate) mod hints;
pub(crate) mod load;
mod opening;
mod placing;
mod queue;
mod waiting;

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use onetrip_engine::pool::{
    self as policy, Cause, Condition, ConnectionId, Hedges, Load, Output, Requeue, Served, TextKey,
    Ticket,
};
use onetrip_engine::{Outcome, Time, Token};
use onetrip_postgres::client::connect::plan::scout_after;
use onetrip_postgres::client::replicas::Outlook;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::cancel::Cancels;
use crate::config::{Config, Keyword, Reads, Settings, TargetSessionAttrs, WhenFull};
use crate::core::slot::Owner;
use crate::core::{Connection, Context, Duty, Options};
use crate::metrics::Publisher;
use crate::{Error, trace};
use exchange::{Exchange, Put};
use hints::Hints;
pub(crate) use opening::runtime_gone;
pub(crate) use queue::{QueueEntry, Work};
use waiting::{Caller, Callers};

/// The connections of one client.
pub(crate) struct Pool {
    config: Arc<Config>,
    pub(crate) context: Arc<Context>,
    limits: policy::Limits,
    hedges: Arc<Hedges>,
    state: Mutex<State>,
    exchange: Exchange<Arc<Connection>>,
    /// The timer's deadline may have changed.
    changed: Arc<Notify>,
    /// It is closed, and holds no connection any more.
    over: Notify,
    runtime: Handle,
}

struct State {
    policy: policy::Pool,
    connections: HashMap<ConnectionId, Arc<Connection>>,
    opening: HashMap<ConnectionId, AbortHandle>,
    /// Connections to open once the lock is released.
    to_open: Vec<ConnectionId>,
    /// Whether a scout is to be sent then.
    to_scout: bool,
    callers: Callers,
    /// Why the last attempt to open a connection failed.
    last_error: Option<Error>,
    /// Why the pool was closed, if not by its owner.
    closed_because: Option<Error>,
    /// Tasks to wake once the lock is released.
    wakers: Vec<Waker>,
    /// Whether the list of shared connections changed.
    relist: bool,
    /// When the timer goes off.
    armed: Time,
}

impl State {
    /// A statement got in line. It leaves again if its caller has given up.
    fn stands(&mut self, queue_entry: &QueueEntry, token: Token, ticket: Ticket) {
        if !queue_entry.enter(token, ticket) {
            self.policy.give_up(ticket);
            self.callers.remove(token);
        }
    }
}

impl Pool {
    /// Opens a pool, and its first connection.
    pub(crate) async fn open(config: Config) -> Result<Arc<Pool>, Error> {
        let reads = config.settings().reads != Reads::Primary;
        let config = match reads && !config.has(Keyword::TargetSessionAttrs) {
            true => config.target_session_attrs(TargetSessionAttrs::Primary),
            false => config,
        };
        let newest = reads.then(Arc::default);
        let pool = Pool::new(config, |context| context.newest = newest)?;
        pool.open_first().await?;
        pool.watch();
        Ok(pool)
    }

    /// A pool for a replica, beside that of the primary, whose statements it knows. Nothing is
    /// opened yet.
    pub(crate) fn beside(primary: &Pool, config: Config) -> Result<Arc<Pool>, Error> {
        let kin = &primary.context;
        let pool = Pool::new(config, |context| {
            context.metadata_cache = kin.metadata_cache.clone();
            context.types = kin.types.clone();
            context.lineage = kin.lineage.clone();
            context.primary = Some(kin.clone());
        })?;
        pool.watch();
        Ok(pool)
    }

    fn new(config: Config, set: impl FnOnce(&mut Context)) -> Result<Arc<Pool>, Error> {
        let resolved = config.resolve().map_err(Error::config)?;
        let settings = resolved.settings().clone();
        let mut seed = [0; 8];
        getrandom::fill(&mut seed)
            .map_err(|error| Error::misuse("random", format!("no random numbers: {error}")))?;
        let hosts = resolved.endpoints().len();
        let policy = policy::Pool::new(limits(&settings, hosts), u64::from_le_bytes(seed));
        let mut context = Context::new(
            options(&settings, trace::Options::new(&resolved)),
            Cancels::new(&settings),
            policy.timings().clone(),
        );
        set(&mut context);
        Ok(Arc::new(Pool {
            hedges: policy.hedges().clone(),
            limits: policy.limits().clone(),
            config: Arc::new(config),
            context: Arc::new(context),
            state: Mutex::new(State {
                policy,
                connections: HashMap::new(),
                opening: HashMap::new(),
                to_open: Vec::new(),
                to_scout: false,
                callers: Callers::default(),
                last_error: None,
                closed_because: None,
                wakers: Vec::new(),
                relist: false,
                armed: Time::NEVER,
            }),
            exchange: Exchange::new(),
            changed: Arc::default(),
            over: Notify::new(),
            runtime: Handle::current(),
        }))
    }

    fn watch(self: &Arc<Self>) {
        self.runtime.spawn(watch(Watch(Arc::downgrade(self)), self.changed.clone()));
    }

    pub(crate) fn now(&self) -> Time {
        self.context.now()
    }

    pub(crate) fn hedges(&self) -> &Hedges {
        &self.hedges
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the policy's state, and does what it then requests.
    fn with<R>(self: &Arc<Self>, change: impl FnOnce(&mut State, Time) -> R) -> R {
        let mut state = self.lock();
        let now = self.now();
        let result = change(&mut state, now);
        self.settle(&mut state, now);
        let wakers = std::mem::take(&mut state.wakers);
        let to_open = std::mem::take(&mut state.to_open);
        let to_scout = std::mem::take(&mut state.to_scout);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        to_open.into_iter().for_each(|id| self.spawn_open(id));
        if to_scout {
            self.spawn(opening::look_elsewhere(self.clone()));
        }
        result
    }

    /// Opens a connection in the background. If the runtime is gone, that is reported at once, so
    /// the lock must be free.
    fn spawn_open(self: &Arc<Self>, id: ConnectionId) {
        let attempt = opening::Attempt::new(self, id);
        let task = self.runtime.spawn(opening::open(attempt));
        let mut state = self.lock();
        match state.policy.is_known(id) {
            true => drop(state.opening.insert(id, task.abort_handle())),
            false => task.abort(),
        }
    }

    fn settle(self: &Arc<Self>, state: &mut State, now: Time) {
        // Before the loads are read: a connection that becomes idle behind that reports it.
        self.hints().set_waiting(state.policy.waiting(), state.policy.waiting_in_order());
        loop {
            let State { policy, connections, .. } = state;
            let Some(output) = policy.poll_output(now, |id| load_of(connections, id)) else {
                break;
            };
            self.act(state, now, output);
        }
        if std::mem::take(&mut state.relist) {
            let shared = state.connections.values().filter(|it| it.lock().duty == Duty::Shared);
            self.exchange.cells.set_shared(shared.cloned().collect());
        }
        self.hints().set_waiting(state.policy.waiting(), state.policy.waiting_in_order());
        self.hints().set_growth(state.policy.can_grow(), state.policy.patience());
        let deadline = state.policy.poll_deadline().unwrap_or(Time::NEVER);
        if deadline < state.armed || state.policy.is_closed() {
            state.armed = deadline;
            self.changed.notify_one();
        }
    }

    fn act(self: &Arc<Self>, state: &mut State, now: Time, output: Output) {
        match output {
            Output::Open { id } => state.to_open.push(id),
            Output::Granted(served) => self.granted(state, now, served),
            Output::Placed(served) => self.placed(state, now, served),
            Output::Failed { token, cause } => {
                let error = match cause {
                    Cause::Deadline if state.callers.is_timed(token) => {
                        Error::late("the deadline passed before a connection was free")
                    }
                    _ => self.failure(state, cause),
                };
                let wakers = state.callers.fail(token, error);
                state.wakers.extend(wakers);
            }
            Output::Shared { id } => self.set_duty(state, id, Duty::Shared),
            Output::Drain { id } => {
                self.set_duty(state, id, Duty::Draining);
                if load_of(&state.connections, id).is_idle() {
                    state.policy.handle_drained(id);
                }
            }
            Output::Reset { id } => {
                if let Some(connection) = state.connections.get(&id) {
                    connection.lock().reset_now(now);
                }
            }
            Output::Close { id } => self.forget(state, id),
            Output::Scout => state.to_scout = true,
            Output::Closed => self.over.notify_waiters(),
        }
    }

    fn set_duty(&self, state: &mut State, id: ConnectionId, duty: Duty) {
        if let Some(connection) = state.connections.get(&id) {
            let mut core = connection.lock();
            core.duty = duty;
            if duty == Duty::Exclusive {
                core.replies.next_owner();
                core.engine.protocol_mut().lend();
            } else {
                core.engine.protocol_mut().share();
            }
            state.relist = true;
        }
    }

    fn granted(self: &Arc<Self>, state: &mut State, now: Time, served: Served) {
        let Served { token, id, .. } = served;
        self.set_duty(state, id, Duty::Exclusive);
        let Some(connection) = state.connections.get(&id).cloned() else {
            state.policy.again(now, served, true);
            return;
        };
        match state.callers.grant(token, connection.clone()) {
            Ok(waker) => state.wakers.extend(waker),
            // The caller has given up. The previous owner may have left something behind.
            Err(_) => {
                let condition = connection.lock().condition();
                self.release(state, now, id, condition);
            }
        }
    }

    fn placed(&self, state: &mut State, now: Time, served: Served) {
        let Served { token, id, .. } = served;
        let connection = state.connections.get(&id).cloned();
        let (wakers, left) = state.callers.place(token, connection.as_ref());
        state.wakers.extend(wakers);
        let Some(statement) = left else { return };
        let is_over = connection.is_none_or(|it| it.lock().engine.is_closed());
        if is_over {
            self.forget_ended(state, id);
        }
        let queue_entry = statement.queue_entry.clone();
        state.callers.list.insert(token, Caller::Statement(statement));
        let ticket = state.policy.again(now, served, is_over);
        state.stands(&queue_entry, token, ticket);
    }

    /// Lets a connection go: it says goodbye when what was submitted was answered.
    fn forget(&self, state: &mut State, id: ConnectionId) {
        if let Some(task) = state.opening.remove(&id) {
            task.abort();
        }
        if let Some(connection) = state.connections.remove(&id) {
            state.relist = true;
            connection.release_handle();
        }
    }

    fn failure(&self, state: &State, cause: Cause) -> Error {
        match (cause, &state.closed_because, &state.last_error) {
            (Cause::Closed, Some(error), _) => error.clone(),
            (Cause::OpenFailed, _, Some(error)) => error.clone().with_outcome(Outcome::NotSent),
            _ => Error::unserved(cause, &self.limits),
        }
    }

    // --- what connections report ---

    fn report(self: &Arc<Self>, id: ConnectionId) {
        self.with(|state, now| {
            let Some(connection) = state.connections.get(&id).cloned() else { return };
            let mut core = connection.lock();
            if core.engine.is_closed() {
                drop(core);
                return self.forget_lost(state, now, id);
            }
            if core.engine.is_leaving() {
                state.policy.retire(id);
            }
            if core.duty == Duty::Returning && core.is_at_rest() {
                core.duty = Duty::Exclusive;
                let condition = core.condition();
                drop(core);
                self.release(state, now, id, condition);
                return;
            }
            let idle = core.is_at_rest();
            drop(core);
            match idle {
                true => state.policy.handle_drained(id),
                false => state.policy.handle_room(),
            }
        });
    }

    /// A connection has ended.
    fn lost(self: &Arc<Self>, id: ConnectionId) {
        self.with(|state, now| self.forget_lost(state, now, id));
    }

    fn forget_lost(&self, state: &mut State, now: Time, id: ConnectionId) {
        self.forget_ended(state, id);
        state.policy.handle_lost(now, id);
    }

    fn forget_ended(&self, state: &mut State, id: ConnectionId) {
        if let Some(connection) = state.connections.remove(&id) {
            state.relist = true;
            self.exchange.cells.forget(|parked| Arc::ptr_eq(parked, &connection));
        }
    }

    fn release(&self, state: &mut State, now: Time, id: ConnectionId, condition: Condition) {
        state.policy.release(now, id, condition);
        if condition == Condition::Broken {
            // The policy has forgotten it already, and will not mention it again.
            self.forget(state, id);
        }
    }

    /// A session is over.
    pub(crate) fn take_back(self: &Arc<Self>, connection: &Arc<Connection>) {
        let mut core = connection.lock();
        if core.notifications.is_some() {
            let waker = core.forget_notifications();
            drop(core);
            waker.into_iter().for_each(Waker::wake);
            core = connection.lock();
        }
        if core.engine.is_closed() || core.duty != Duty::Exclusive {
            return;
        }
        core.replies.next_owner();
        if !core.is_at_rest() {
            core.duty = Duty::Returning;
            // Its condition may not have been read since the last reply.
            return;
        }
        let owed = core.engine.protocol().is_reset_owed();
        let condition = core.condition();
        let now = self.now();
        let is_due = now >= core.released.after(cells::PARKED_MAX);
        if is_due {
            core.released = now;
        }
        drop(core);
        if condition == Condition::DirtyHolding && !owed {
            trace::reset();
        }
        let id = connection.pool_slot.id;
        // If it went from cell to cell, the policy would never see it, nor that its lifetime is
        // over.
        let keeps = condition != Condition::Broken
            && self.limits.idle_order == policy::IdleOrder::Lifo
            && !is_due;
        if !keeps {
            return self.with(|state, now| self.release(state, now, id, condition));
        }
        match self.exchange.put(connection.clone(), now) {
            Put::Kept { first, wanted } => {
                if first {
                    self.changed.notify_one();
                }
                if wanted {
                    self.hand_over_parked();
                }
            }
            Put::Refused(_) => self.with(|state, now| state.policy.release(now, id, condition)),
        }
    }

    /// Hands connections that are kept in cells to the policy.
    fn hand_over_parked(self: &Arc<Self>) {
        self.with(|state, _| self.sweep(state, Time::NEVER));
    }

    fn sweep(&self, state: &mut State, parked_before: Time) {
        self.exchange.cells.take_all(parked_before, |connection, since| {
            let condition = connection.lock().condition();
            state.policy.release(since, connection.pool_slot.id, condition);
        });
    }

    /// No new calls come: what was submitted is still answered, in line or on a connection.
    pub(crate) fn close(self: &Arc<Self>) {
        self.end(policy::Pool::close);
    }

    /// The same, but those in line are refused, and connections are closed whatever is on them.
    /// Says how many of both there were.
    pub(crate) fn cut(self: &Arc<Self>) -> (usize, usize) {
        let waiting = self.waiting();
        self.end(policy::Pool::cut);
        let left = self.context.totals.live();
        left.iter().for_each(|connection| connection.cut());
        (waiting, left.len())
    }

    fn end(self: &Arc<Self>, end: impl FnOnce(&mut policy::Pool)) {
        self.hints().set_closed();
        self.with(|state, _| {
            end(&mut state.policy);
            self.sweep(state, Time::NEVER);
        });
        // Those who watch the clock may not find it any more.
        Publisher::last(self);
    }

    /// Resolves when it is closed, nobody is in line and every connection has ended. Cancel safe.
    pub(crate) async fn ended(&self) {
        let mut over = std::pin::pin!(self.over.notified());
        over.as_mut().enable();
        if !self.lock().policy.is_closed() {
            over.await;
        }
        self.context.totals.all_ended().await;
    }

    /// Does what is due, and says when something will be. `None` once the pool is closed and all
    /// its connections are gone.
    fn tick(self: &Arc<Self>) -> Option<Option<Instant>> {
        self.with(|state, now| {
            state.policy.handle_time(now);
            // The timer is set below, so it need not be told of an earlier deadline.
            state.armed = Time::ZERO;
            // Not before: a look at cells that are empty for a moment would forget the timer, and
            // the next session's end would set it again, each time.
            if now >= self.exchange.cells.sweep_at() {
                let parked = now.since(Time::ZERO).saturating_sub(cells::PARKED_MAX);
                self.sweep(state, Time::ZERO.after(parked));
            }
        });
        let mut state = self.lock();
        state.armed = state.policy.poll_deadline().unwrap_or(Time::NEVER);
        let next = state.armed.min(self.exchange.cells.sweep_at());
        let instant = (next != Time::NEVER).then(|| self.context.instant(next));
        (!state.policy.is_closed()).then_some(instant)
    }

    /// Runs a task on the runtime of the pool.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    // --- getters ---

    /// What connections and callers may read of the pool without its lock.
    pub(crate) fn hints(&self) -> &Arc<Hints> {
        &self.exchange.hints
    }

    /// Whether no new calls come.
    pub(crate) fn is_closed(&self) -> bool {
        self.hints().is_closed()
    }

    /// How long a call without a deadline waits for a connection.
    pub(crate) fn wait_timeout(&self) -> Duration {
        self.limits.wait_timeout
    }

    /// Until when a statement may wait in line that was not sent before its connection ended.
    pub(crate) fn requeue(
        &self,
        deadline: Time,
        requeue: &mut Option<Box<Requeue>>,
    ) -> Option<Time> {
        self.lock().policy.requeue(self.now(), deadline, requeue)
    }

    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.clone()
    }

    /// How many callers wait in line.
    pub(crate) fn waiting(&self) -> usize {
        self.hints().waiting()
    }

    /// What a read with this text would find here now.
    pub(crate) fn outlook(&self, key: TextKey) -> Outlook {
        let list = self.exchange.cells.shared();
        let (mut work, mut unanswered, mut trip) = (Duration::ZERO, self.waiting(), Duration::MAX);
        for load in list.iter().map(|connection| connection.load.get()) {
            work += load.expected;
            unanswered += load.unanswered;
            trip = trip.min(load.trip);
        }
        let max = self.limits.connections_max;
        let waiting = u32::try_from(self.waiting()).unwrap_or(u32::MAX);
        work += self.context.timings.expected(key).takes().saturating_mul(waiting);
        Outlook {
            is_open: !list.is_empty(),
            has_room: unanswered < max,
            wait: trip.saturating_add(work / u32::try_from(max).unwrap_or(u32::MAX)),
            unanswered,
        }
    }

    /// All connections, for every use.
    pub(crate) fn connections(&self) -> Vec<Arc<Connection>> {
        self.lock().connections.values().cloned().collect()
    }
}

/// `Debug` shows counts only: a connection knows its pool, and the pool its connections.
impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("hints", self.hints()).finish_non_exhaustive()
    }
}

impl Owner for Pool {
    fn hints(&self) -> &Arc<Hints> {
        Pool::hints(self)
    }

    fn report(self: Arc<Self>, id: ConnectionId) {
        Pool::report(&self, id);
    }

    fn lost(self: Arc<Self>, id: ConnectionId) {
        Pool::lost(&self, id);
    }

    fn take_back(self: Arc<Self>, connection: &Arc<Connection>) {
        Pool::take_back(&self, connection);
    }

    fn itself(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn another(self: Arc<Self>) -> Option<(Arc<Connection>, u32)> {
        self.try_run(TextKey::UNTOLD, |core, _| core.replies.owner_epoch())
    }
}

/// Watches the clock for a pool, for as long as there is one.
async fn watch(watch: Watch, changed: Arc<Notify>) {
    let mut publisher = Publisher::new();
    while let Some(next) = watch.0.upgrade().and_then(|pool| pool.tick()) {
        tokio::select! {
            () = changed.notified() => {}
            () = wait_until(next) => {}
            () = publisher.due() => publisher.publish(&watch.0),
        }
    }
    publisher.publish(&watch.0);
}

/// The pool while its clock is watched. Without the runtime that does it nothing can be opened, and
/// nobody may wait for that.
struct Watch(std::sync::Weak<Pool>);

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(pool) = self.0.upgrade() else { return };
        let mut state = pool.lock();
        if state.policy.is_closed() {
            return;
        }
        state.closed_because.get_or_insert_with(runtime_gone);
        drop(state);
        pool.end(policy::Pool::cut);
    }
}

async fn wait_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

fn options(settings: &Settings, trace: trace::Options) -> Options {
    Options {
        request_timeout: settings.request_timeout,
        refuse_when_full: settings.when_full == WhenFull::Refuse,
        queue_max: settings.queue_max,
        queue_bytes_max: settings.queue_bytes_max,
        waiting_bytes_max: settings.waiting_bytes_max,
        result_bytes_max: match settings.result_bytes_max {
            0 => usize::MAX,
            max => max,
        },
        prepare_threshold: settings.prepare_threshold,
        prepared_max: settings.prepared_max,
        cancel_on_timeout: settings.cancel_on_timeout,
        cancel_on_drop: settings.cancel_on_drop,
        trace,
    }
}

fn limits(settings: &Settings, hosts: usize) -> policy::Limits {
    policy::Limits {
        scout_after: scout_after(hosts, settings.target_session_attrs),
        connections_max: settings.connections_max,
        connections_min: settings.connections_min,
        wait_timeout: settings.wait_timeout,
        waiting_max: settings.waiting_max,
        idle_timeout: settings.idle_timeout,
        lifetime: settings.lifetime,
        slow_head: settings.slow_head,
        yield_after: settings.yield_after.unwrap_or(Duration::MAX),
        idle_order: settings.idle_order,
        ..policy::Limits::default()
    }
}

/// The load of a connection, as the policy asks for it. A connection that is gone has none; that
/// will be reported.
fn load_of(connections: &HashMap<ConnectionId, Arc<Connection>>, id: ConnectionId) -> Load {
    match connections.get(&id) {
        Some(connection) => connection.load.get(),
        None => Load { unanswered: 1, ..Load::default() },
    }
}
