//! One connection, shared by its callers and its driver. One lock guards the engine, the waiting
//! callers and the writing half of the socket.
//!
//! When bytes leave. If nothing is in flight, the caller that submits a request writes it at once:
//! no other task has to run first. While replies are in flight, the driver writes requests when the
//! caller's task yields, or the caller does when it first awaits, whichever comes first; so
//! everything that is submitted in one go leaves in one write. After a burst of replies the driver
//! holds writing back until the callers that it woke have run (`corked`), because they will submit
//! next. While the server has plenty to do and its replies come fast, a few new requests wait for
//! the next reply and leave together (`Pace`): they could not run any earlier.
//!
//! No code of a caller runs under the lock: parameters are encoded before it is taken, and wakers
//! are called after it is released.

pub(crate) mod cancelling;
mod leading;
mod pipelined;
pub(crate) mod positions;
mod preparing;
mod room;
pub(crate) mod slot;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use onetrip_engine::pool::{Condition, TextKey, Timings, Workload};
use onetrip_engine::{
    Cause, CloseReason, End, Failure, Outcome, Output, Request, SubmitError, Ticket, Time, Token,
};
use onetrip_postgres::client::connect;
use onetrip_postgres::client::identity::{Identity, Lineage};
use onetrip_postgres::client::pipeline::{Member, Refusal, Role, Why};
use onetrip_postgres::client::position::Newest;
use onetrip_postgres::client::replicas::Proof;
use onetrip_postgres::client::said;
use onetrip_postgres::client::stream::Rest;
use onetrip_postgres::client::types::look_up::LookUps;
use onetrip_postgres::message::{
    ErrorResponse, Header, ParameterStatus, ServerError, TransactionStatus,
};
use onetrip_postgres::session::{NOT_REPLICATED, NOT_RESET};
use onetrip_postgres::{Event, Expect, Postgres};
use tokio::sync::watch;

use self::slot::PoolSlot;
use crate::buffer::Buffer;
use crate::cancel::{CancelKey, Cancels};
use crate::error::{CLOSED, CONNECTION_LOST};
use crate::guard::Standing;
use crate::kept::Kept;
use crate::metadata::MetadataCache;
use crate::metrics::counts::Counts;
use crate::metrics::neighbours::Neighbours;
use crate::metrics::totals::Totals;
use crate::notice::Subscribers;
use crate::notification::Notification;
use crate::open::Route;
use crate::pipelines::Pipelines;
use crate::pool::load::LoadCell;
use crate::replies::{AwaitingRoom, Part, Replies};
use crate::room_waiters::RoomWaiters;
use crate::socket::{Reader, Writer};
use crate::statements::{Statements, fault_of};
use crate::transport::{self, Transport};
use crate::types::TypeCache;
use crate::{Error, Kind, trace};

/// One connection, with its lock and what can be read without it.
pub(crate) struct Connection {
    core: Mutex<Core>,
    pub(crate) context: Arc<Context>,
    /// Its place in its pool.
    pub(crate) pool_slot: PoolSlot,
    pub(crate) load: Arc<LoadCell>,
}

/// What the connections of a client share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) options: Options,
    pub(crate) metadata_cache: Arc<MetadataCache>,
    /// The types that are not built in.
    pub(crate) types: Arc<TypeCache>,
    pub(crate) cancels: Cancels,
    /// How long each statement text took, for the pool's policy.
    pub(crate) timings: Arc<Timings>,
    /// Which statements waited behind which.
    pub(crate) neighbours: Neighbours,
    /// The zero of the time of all connections.
    epoch: Instant,
    pub(crate) totals: Totals,
    pub(crate) notices: Subscribers,
    /// What the client has seen of servers, so that it uses no former primary.
    pub(crate) lineage: Arc<Mutex<Lineage>>,
    /// What is known of the position of writes, if that is asked for.
    pub(crate) newest: Option<Arc<Mutex<Newest>>>,
    /// That of the primary, if the connections lead to a replica.
    pub(crate) primary: Option<Arc<Context>>,
    /// What is known of the replicas beside this pool, if there are any.
    pub(crate) standing: OnceLock<Arc<Standing>>,
    /// Whether the client was closed by a call, which ends its listeners. Each listener's task
    /// holds a receiver, so that `close` can wait for them.
    pub(crate) listeners: watch::Sender<bool>,
}

/// The settings that concern requests.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Deadline of each request, from when it is made; it covers the time in the queue.
    pub(crate) request_timeout: Option<Duration>,
    /// Whether a caller is refused when the queue is full. Otherwise it waits.
    pub(crate) refuse_when_full: bool,
    pub(crate) queue_max: usize,
    pub(crate) queue_bytes_max: usize,
    pub(crate) waiting_bytes_max: usize,
    /// The largest result that is kept, and the largest row of a stream, in bytes.
    pub(crate) result_bytes_max: usize,
    /// At which use a text is prepared; 0 for never.
    pub(crate) prepare_threshold: u32,
    /// How many statements that were prepared by counting a connection keeps.
    pub(crate) prepared_max: usize,
    /// Whether the server is asked to cancel a statement that is late, or that nobody waits for any
    /// more.
    pub(crate) cancel_on_timeout: bool,
    pub(crate) cancel_on_drop: bool,
    /// What spans say about the configuration.
    #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "there is nothing in it"))]
    pub(crate) trace: trace::Options,
}

impl Context {
    pub(crate) fn new(options: Options, cancels: Cancels, timings: Arc<Timings>) -> Context {
        Context {
            options,
            metadata_cache: Arc::default(),
            types: Arc::default(),
            cancels,
            timings,
            neighbours: Neighbours::default(),
            epoch: Instant::now(),
            totals: Totals::default(),
            notices: Subscribers::default(),
            lineage: Arc::default(),
            newest: None,
            primary: None,
            standing: OnceLock::new(),
            listeners: watch::Sender::new(false),
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO.after(self.epoch.elapsed())
    }

    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.epoch + time.since(Time::ZERO)
    }

    /// The deadline of a request that is made now.
    pub(crate) fn deadline(&self, now: Time) -> Time {
        self.options.request_timeout.map_or(Time::NEVER, |timeout| now.after(timeout))
    }
}

/// What a connection is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// For the statements of all callers.
    Shared,
    /// It was shared, and takes no new statements. The pool is told when it is idle.
    Draining,
    /// For one caller.
    Exclusive,
    /// It belonged to one caller, and goes back to the pool when it is idle.
    Returning,
}

/// The state machine of one connection.
pub(crate) type Engine = onetrip_engine::Connection<Postgres>;

/// What the lock protects.
pub(crate) struct Core {
    pub(crate) engine: Engine,
    pub(crate) replies: Replies,
    pub(crate) pipelines: Pipelines,
    pub(crate) room_waiters: RoomWaiters,
    pub(crate) metadata_cache: Arc<MetadataCache>,
    pub(crate) types: Arc<TypeCache>,
    /// Queries for types that are in flight.
    pub(crate) look_ups: LookUps<Waker, Error>,
    context: Arc<Context>,
    pub(crate) parameters: BTreeMap<String, String>,
    transport: Transport,
    /// The time when the clock was last read. Reading it costs as much as encoding a statement, so
    /// it is read only if something depends on it.
    clock: Time,
    /// When the driver must next look at the clock, as of the last [`settle`](Core::settle).
    pub(crate) next_deadline: Time,
    /// When the driver wakes up by itself.
    pub(crate) armed: Time,
    /// Why the connection ended; the outcome is filled in for each request.
    ended: Option<Error>,
    /// When the connection ended.
    pub(crate) ended_at: Time,
    /// When a session last gave the connection back to the pool's policy (giving it to the next
    /// session does not count).
    pub(crate) released: Time,
    /// Callers to be woken once the lock is released.
    pub(crate) wakers: Vec<Waker>,
    full: bool,
    drained: Vec<Waker>,
    /// How many handles callers hold. When none is left, the driver sends the goodbye.
    pub(crate) handles: usize,
    pub(crate) statements: Statements,
    /// Where the messages that use a prepared statement are put together.
    scratch: BytesMut,
    /// The most bytes that may wait for room in the queue. A single request may be larger.
    awaiting_bytes_max: usize,
    /// How the connection was opened; another connection to the same server is opened so, too.
    pub(crate) route: Route,
    /// Which server it leads to, if that was asked.
    pub(crate) identity: Option<Identity>,
    /// The key that a CancelRequest on another connection names.
    pub(crate) key: CancelKey,
    /// Whether a cancel is to be sent.
    pub(crate) cancel_due: bool,
    /// Whether any cancels are sent, and whether for dropped replies, too.
    pub(crate) cancels_on: bool,
    pub(crate) cancels_dropped: bool,
    pub(crate) duty: Duty,
    load: Arc<LoadCell>,
    /// How long the statements that share the connection are expected to take.
    workload: Workload,
    /// How many requests have ended, and how many of them the pool knows of.
    ended_count: u64,
    published_count: u64,
    /// When the request that ended an idle time was submitted; `None` once something was answered.
    busy_since: Option<Time>,
    /// The request that waits to be fed.
    pub(crate) feeder: Option<Token>,
    /// What becomes of the rest of the stream that was dropped last.
    pub(crate) rest: Rest,
    /// Whether the pool is to be told that the connection is idle, has room or is gone; and whether
    /// it was told that it is gone, which happens once.
    reports: bool,
    told: bool,
    /// The reader of the notifications of the session that has the connection.
    pub(crate) notifications: Option<Arc<Buffer<Notification>>>,
    /// What `tracing` is to be told once the lock is released.
    pub(crate) untold: trace::Untold,
    /// What the guards on this connection have shown.
    pub(crate) proof: Proof,
    /// Whether writes were acknowledged here whose position is not known, as the client was told.
    is_uncertain: bool,
    /// Whether the client was told that the connection was lost while it was uncertain.
    is_lost_told: bool,
}

/// `Debug` shows the place in the pool only: the rest holds callers' statements and replies.
impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({:?})", self.pool_slot)
    }
}

impl Connection {
    pub(crate) fn new(
        engine: impl FnOnce(Time) -> Engine,
        writer: Writer,
        parameters: Vec<(String, String)>,
        (route, key): (Route, CancelKey),
        context: Arc<Context>,
        pool_slot: PoolSlot,
        trip: Duration,
    ) -> Arc<Connection> {
        let now = context.now();
        let load = LoadCell::new(pool_slot.owner.hints().clone(), now, trip);
        let core = Core {
            engine: engine(now),
            replies: Replies::new(context.options.result_bytes_max),
            pipelines: Pipelines::default(),
            room_waiters: RoomWaiters::default(),
            metadata_cache: context.metadata_cache.clone(),
            types: context.types.clone(),
            look_ups: LookUps::default(),
            context: context.clone(),
            parameters: parameters.into_iter().collect(),
            transport: Transport::new(writer),
            clock: now,
            next_deadline: Time::NEVER,
            armed: Time::NEVER,
            ended: None,
            ended_at: Time::ZERO,
            released: now,
            wakers: Vec::new(),
            full: false,
            drained: Vec::new(),
            handles: 1,
            // The login has read random bytes for its nonce, so there are some.
            statements: {
                let unique = getrandom::u64().unwrap_or_default();
                let mut statements = Statements::new(context.options.prepared_max, unique);
                statements.share(&context.metadata_cache.generation);
                statements
            },
            scratch: BytesMut::new(),
            awaiting_bytes_max: context.options.waiting_bytes_max,
            route,
            identity: None,
            key,
            cancel_due: false,
            cancels_on: context.cancels.is_on,
            cancels_dropped: context.options.cancel_on_drop,
            duty: Duty::Exclusive,
            load: load.clone(),
            workload: Workload::new(trip),
            ended_count: 0,
            published_count: 0,
            busy_since: None,
            feeder: None,
            rest: Rest::Read,
            reports: false,
            told: false,
            notifications: None,
            untold: Default::default(),
            proof: Proof::default(),
            is_uncertain: false,
            is_lost_told: false,
        };
        Arc::new(Connection { core: Mutex::new(core), context, pool_slot, load })
    }

    pub(crate) fn now(&self) -> Time {
        self.context.now()
    }

    /// The time for a call on the locked connection. The clock is read only if a deadline begins,
    /// or if bytes begin to wait for the peer.
    fn time_of_call(&self, core: &mut Core) -> Time {
        let timed = self.context.options.request_timeout.is_some() || core.pipelines.is_timed();
        if timed || core.engine.transmit().is_empty() {
            core.set_clock(self.now());
        }
        core.clock
    }

    /// Closes the connection now, whatever is unanswered.
    pub(crate) fn cut(&self) {
        self.with(|core, _| {
            let error = core.lost("its client was closed, and the timeout of close() has passed");
            core.close(error);
        });
    }

    pub(crate) fn release_handle(&self) {
        self.lock().release();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        // No caller's code runs under the lock, so a panic there can't have left the state
        // inconsistent.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the connection where the change needs no time and does not touch the engine.
    pub(crate) fn with_local<R>(&self, change: impl FnOnce(&mut Core) -> R) -> R {
        change(&mut self.lock())
    }

    /// Changes the connection, handles the engine's outputs, and wakes the callers concerned.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut Core, Time) -> R) -> R {
        let mut core = self.lock();
        let now = self.time_of_call(&mut core);
        self.with_locked(core, now, change)
    }

    /// The same for a caller that has just read the clock.
    pub(crate) fn with_at<R>(&self, now: Time, change: impl FnOnce(&mut Core, Time) -> R) -> R {
        let mut core = self.lock();
        let now = core.set_clock(now);
        self.with_locked(core, now, change)
    }

    fn with_locked<R>(
        &self,
        mut core: MutexGuard<'_, Core>,
        now: Time,
        change: impl FnOnce(&mut Core, Time) -> R,
    ) -> R {
        if core.any_to_close() {
            core.close_dropped(now);
        }
        let result = change(&mut core, now);
        core.settle(now);
        let (wakers, reports) = (std::mem::take(&mut core.wakers), core.take_report());
        drop(core);
        wakers.into_iter().for_each(Waker::wake);
        if reports {
            self.pool_slot.report();
        }
        result
    }

    /// The same for the pool, which holds its own lock and checks the connection's state itself.
    /// Returns whom to wake.
    pub(crate) fn with_quietly<R>(
        &self,
        change: impl FnOnce(&mut Core, Time) -> R,
    ) -> (R, Vec<Waker>) {
        let mut core = self.lock();
        let now = self.time_of_call(&mut core);
        let result = change(&mut core, now);
        core.settle(now);
        core.take_report();
        (result, std::mem::take(&mut core.wakers))
    }
}

impl Core {
    // --- requests ---

    /// Submits a request that nobody waits for, to leave with what comes next. If the queue is
    /// full, the request is left out.
    pub(crate) fn submit_along(&mut self, now: Time, request: Request<Expect>, bytes: &[u8]) {
        if self.engine.has_room(1, bytes.len()) {
            let request = Request { reserved: true, ..request };
            let _ = self.engine.submit(now, request, |out| copy(out, bytes));
            self.notify();
        }
    }

    /// Submits requests that belong together, in one go. The caller waits for the last one. If the
    /// queue is full they wait for room, or the error says that it is full.
    pub(crate) fn submit(
        &mut self,
        now: Time,
        mut requests: Vec<(Request<Expect>, usize)>,
        bytes: &[u8],
        refuse: bool,
    ) -> Result<(), Error> {
        let idle = self.is_idle();
        if self.engine.has_room(requests.len(), bytes.len()) {
            self.submit_reserved(now, &mut requests, bytes)?;
            self.wrote(now, idle);
            return Ok(());
        }
        if let Some(ended) = self.refusal() {
            return Err(ended);
        }
        if refuse {
            return Err(self.queue_full());
        }
        self.await_room(requests, Bytes::copy_from_slice(bytes))
    }

    /// The same for a single request, which needs no list.
    pub(crate) fn submit_one(
        &mut self,
        now: Time,
        request: Request<Expect>,
        bytes: &[u8],
        refuse: bool,
    ) -> Result<(), Error> {
        let idle = self.is_idle();
        let kept = (request.token, request.pinned);
        if self.engine.has_room(1, bytes.len()) {
            let request = Request { reserved: true, ..request };
            let ticket = self.engine.submit(now, request, |out| copy(out, bytes));
            self.keep_ticket(kept, ticket)?;
            self.wrote(now, idle);
            return Ok(());
        }
        let requests = vec![(request, bytes.len())];
        self.submit(now, requests, bytes, refuse)
    }

    /// Lends a buffer that keeps its memory between requests.
    pub(crate) fn with_scratch<R>(
        &mut self,
        write: impl FnOnce(&mut Core, &mut BytesMut) -> R,
    ) -> R {
        const KEPT_MAX: usize = 64 << 10;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let result = write(self, &mut scratch);
        if scratch.capacity() <= KEPT_MAX {
            self.scratch = scratch;
        }
        result
    }

    /// Submits a statement whose end nobody waits for, in its place in the order.
    pub(crate) fn submit_unwaited(&mut self, now: Time, bytes: &[u8]) -> Result<(), Error> {
        let token = self.replies.add();
        let expect = Expect::sync().parse().bind().execute().leaves_nothing();
        let submitted = self.submit_one(now, Request::isolated(token, expect), bytes, false);
        if submitted.is_err() {
            self.replies.remove(token);
        } else {
            self.replies.abandon(token);
            self.engine.handle_caller_gone(token);
        }
        submitted
    }

    /// Sends a reset that is owed, because nobody has used the connection for a while.
    pub(crate) fn reset_now(&mut self, now: Time) {
        if self.engine.protocol().is_reset_owed() {
            self.engine.settle_debts(now);
            self.write_now(now);
            self.settle(now);
        }
    }

    /// The condition in which the connection comes back from its user. It is at rest.
    pub(crate) fn condition(&mut self) -> Condition {
        // What happened to this user's dropped stream does not concern the next user.
        self.rest = Rest::Read;
        if !self.engine.is_open() || self.engine.is_leaving() {
            return Condition::Broken;
        }
        // It is not known what was changed, so it may be a lock that others wait for.
        match self.engine.protocol_mut().take_back() {
            true => Condition::DirtyHolding,
            false => Condition::Clean,
        }
    }

    fn submit_reserved(
        &mut self,
        now: Time,
        requests: &mut Vec<(Request<Expect>, usize)>,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let mut rest = bytes;
        for (request, len) in requests.drain(..) {
            let (bytes, after) = rest.split_at(len);
            rest = after;
            let kept = (request.token, request.pinned);
            let request = Request { reserved: true, ..request };
            let ticket = self.engine.submit(now, request, |out| copy(out, bytes));
            self.keep_ticket(kept, ticket)?;
        }
        Ok(())
    }

    /// Keeps the ticket with which the request can be taken back, unless the request is pinned.
    fn keep_ticket(
        &mut self,
        (token, pinned): (Token, bool),
        ticket: Result<Ticket, SubmitError<std::convert::Infallible>>,
    ) -> Result<(), Error> {
        match ticket {
            Ok(Ticket::Sent) => Ok(()),
            Ok(_) if pinned => Ok(()),
            Ok(ticket) => {
                if let Some(entry) = self.replies.entry(token) {
                    entry.ticket = Some(ticket);
                }
                Ok(())
            }
            Err(_) => Err(self.refusal().unwrap_or_else(|| self.queue_full())),
        }
    }

    fn await_room(
        &mut self,
        requests: Vec<(Request<Expect>, usize)>,
        bytes: Bytes,
    ) -> Result<(), Error> {
        let Some((last, _)) = requests.last() else { return Ok(()) };
        let (token, pinned) = (last.token, last.pinned);
        // If no bytes wait, a request of any size may.
        let awaiting = self.replies.awaiting_bytes();
        if awaiting > 0 && awaiting + bytes.len() > self.awaiting_bytes_max {
            return Err(self.queue_full());
        }
        if pinned {
            let awaiting = self.await_room_pinned(requests, bytes);
            return if awaiting { Ok(()) } else { Err(self.queue_full()) };
        }
        let Some(ticket) = self.engine.wait(token, last.deadline) else {
            return Err(self.queue_full());
        };
        if let Some(entry) = self.replies.entry(token) {
            entry.ticket = Some(ticket);
        }
        self.replies.await_room(token, AwaitingRoom { requests, bytes, has_place: false });
        Ok(())
    }

    /// Nobody will take this reply. If the request was not sent, it is taken back.
    pub(crate) fn drop_reply(&mut self, now: Time, token: Token) {
        let (bytes, member, ticket) = self.replies.abandon(token);
        if let Some(member) = member {
            self.pipeline_taken(now, member, bytes);
        }
        if let Some(ticket) = ticket
            && self.engine.cancel(now, ticket)
        {
            return;
        }
        self.engine.handle_caller_gone(token);
        self.cancel_dropped(now, token, member);
    }

    /// Why the connection takes no more requests; `None` while it does.
    pub(crate) fn refusal(&self) -> Option<Error> {
        if self.engine.is_open() {
            return None;
        }
        let ended = self.ended.clone().unwrap_or_else(|| {
            Error::new(
                Kind::Transport,
                Outcome::NotSent,
                CLOSED,
                "the connection was closed by this program",
            )
        });
        Some(ended.with_outcome(Outcome::NotSent))
    }

    pub(crate) fn queue_full(&self) -> Error {
        Error::refused(Refusal::QueueFull)
    }

    // --- outputs of the engine ---

    /// Handles the outputs of the engine, and lets the pipeline that has the exclusive right to
    /// send go on.
    pub(crate) fn settle(&mut self, now: Time) {
        loop {
            while let Some(output) = self.engine.poll_output() {
                self.take(now, output);
            }
            if !self.advance_pipeline(now) {
                break;
            }
        }
        self.settle_positions(now);
        self.next_deadline = self.find_next_deadline();
        if self.next_deadline < self.armed {
            self.notify();
        }
        self.wakers.append(&mut self.replies.wakers);
        self.wake_feeder();
        self.publish();
    }

    /// Tells the pool how much the connection has to do.
    fn publish(&mut self) {
        let engine = &self.engine;
        let unanswered = engine.in_flight() + engine.queued() + engine.waiting();
        let idle = unanswered == 0 && !self.pipelines.any_work();
        let unanswered = if idle { 0 } else { unanswered.max(1) };
        if idle {
            self.workload.clear();
        }
        if !idle && self.load.is_idle() {
            self.load.begin(self.clock);
            self.busy_since = Some(self.clock);
        }
        let bytes = engine.in_flight_bytes() + engine.queued_bytes();
        let engine_closed = engine.is_closed();
        let moved = self.ended_count != self.published_count;
        self.published_count = self.ended_count;
        if moved && let Some(begin) = self.busy_since.take() {
            self.load.took(self.clock.since(begin));
        }
        self.load.set(unanswered, bytes, moved.then_some(self.clock));
        self.load.expect(&self.workload);
        let let_go = self.load.hold(self.pipelines.is_held());
        // Reported at once, so that the pool forgets the connection.
        self.reports |= engine_closed && !self.told;
        self.told |= engine_closed;
        self.reports |= match self.duty {
            Duty::Draining | Duty::Returning => idle,
            Duty::Shared => (moved || let_go) && self.load.is_wanted(),
            Duty::Exclusive => false,
        };
    }

    /// Adds a statement to the workload of a shared connection, for which the pool's policy asks.
    pub(crate) fn begin_task(&mut self, now: Time, token: Token, key: TextKey) {
        if !matches!(self.duty, Duty::Shared | Duty::Draining) {
            return;
        }
        let timings = &self.context.timings;
        if let Some(entry) = self.replies.entry(token) {
            entry.task = Some(match entry.member {
                Some(_) => self.workload.begin_member(now, key, timings),
                None => self.workload.begin(now, key, timings),
            });
        }
    }

    /// Counts a read that was sent a second time.
    pub(crate) fn count_hedge(&mut self, sent: bool) {
        self.transport.counts.hedged += u64::from(sent);
    }

    fn end_task(&mut self, token: Token, end: &End) {
        let Some(entry) = self.replies.entry(token) else { return };
        let Some(task) = entry.task.take() else {
            if *end == End::Complete {
                self.workload.end_pipeline(self.clock, &self.context.timings);
            }
            return;
        };
        let ended = self.workload.ended(self.clock, task, end, &self.context.timings);
        let Some(ended) = ended else { return };
        if ended.slow && ended.behind > 0 {
            self.transport.counts.waited_behind_slow += ended.behind as u64;
            self.context.neighbours.waited(ended);
        }
    }

    /// A statement is sent again, so what came of its reply is void.
    fn restarted(&mut self, token: Token) {
        self.replies.restart(token);
        if let Some(task) = self.replies.entry(token).and_then(|entry| entry.task.as_mut()) {
            self.workload.restart(task);
        }
    }

    /// A statement ended together with others, so how long it took is not known.
    fn pass_task(&mut self, token: Token) {
        if let Some(task) = self.replies.entry(token).and_then(|entry| entry.task.take()) {
            self.workload.pass(self.clock, task);
        }
    }

    /// Whether the pool is to be told of the connection now; true once per report.
    pub(crate) fn take_report(&mut self) -> bool {
        std::mem::take(&mut self.reports)
    }

    /// Whether nothing is in flight or queued, and no pipeline is being put together.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.engine.is_idle() && !self.pipelines.any_work()
    }

    /// Sets the time, which never goes backwards.
    pub(crate) fn set_clock(&mut self, now: Time) -> Time {
        self.clock = self.clock.max(now);
        self.clock
    }

    pub(crate) fn clock(&self) -> Time {
        self.clock
    }

    fn find_next_deadline(&self) -> Time {
        let engine = self.engine.poll_deadline().unwrap_or(Time::NEVER);
        let others = self.pipelines.next_deadline().min(self.room_waiters.next_deadline());
        engine.min(others).min(self.look_ups.deadline())
    }

    fn take(&mut self, now: Time, output: Output<Event>) {
        match output {
            Output::Data { token, block } => self.came(now, token, Part::Whole(block)),
            Output::Piece { token, block, left } => {
                self.came(now, token, Part::Piece(block, left));
            }
            Output::Ended { token, block, end, together } => {
                if together {
                    self.pass_task(token);
                }
                // If nobody will take a reply, its bytes count as consumed as they come; so does
                // the message of an error.
                if matches!(end, End::Failed(_)) || !self.replies.is_wanted(token) {
                    self.unkept(now, token, block.len());
                    self.end(now, token, block, end);
                } else {
                    self.came(now, token, Part::Whole(block));
                    self.end(now, token, Bytes::new(), end);
                }
            }
            Output::Event { event: Event::ParameterStatus, block } => {
                self.keep_parameter(&block);
            }
            Output::Event { event: Event::Notification, block } => self.notified_by(&block),
            Output::Event { event: Event::StaleNotification, .. } => {
                self.transport.counts.notifications_dropped += 1;
            }
            Output::Event { event: Event::Notice, block } => self.noticed(&block),
            Output::Granted { token } => self.granted(now, token),
            Output::Room { token } => self.room(now, token),
            Output::Full => self.full = true,
            Output::Drained => {
                self.full = false;
                self.wakers.append(&mut self.drained);
            }
            Output::Restarted { token } => self.restarted(token),
            Output::Cancel => self.cancel_is_due(now),
            Output::NotCancelled { token } => self.replies.not_cancelled(token),
            // The pool then gives the connection no more work.
            Output::Astray | Output::Leaving => self.reports = true,
            Output::Closed(reason) => {
                // Whoever closed it, only the driver lets go of the socket.
                self.notify();
                self.ended_at = now;
                self.full = false;
                self.wakers.append(&mut self.drained);
                self.note_end(reason);
                self.pipelined(now, |pipelines, io| pipelines.fail_all(io));
            }
        }
    }

    fn end(&mut self, now: Time, token: Token, block: Bytes, end: End) {
        self.ended_count += 1;
        self.end_task(token, &end);
        match &end {
            End::Failed(failure) => self.transport.counts.failed(failure.outcome),
            _ => self.transport.counts.completed += 1,
        }
        let member = self.replies.entry(token).and_then(|entry| entry.member);
        let asks = matches!(member, Some(Member { role: Role::Describe(_), .. }));
        let mut refused = None;
        let waker = match end {
            End::Complete | End::Provisional => {
                self.member_ended(now, member, token, None);
                self.replies.end(token, block, end)
            }
            End::Failed(failure) => {
                self.keep_unsent(token, failure);
                let error = self.error_of(failure, &block);
                if self.replies.entry(token).is_some_and(|entry| entry.statement.is_none()) {
                    self.statements.failed_unnamed(fault_of(&error));
                }
                if self.left_room_waiters(token, &error) {
                    return;
                }
                let error = self.member_ended(now, member, token, Some(error));
                refused = error.clone().filter(|_| asks);
                error.and_then(|error| self.replies.fail(token, error))
            }
        };
        self.wakers.extend(waker);
        self.look_up_ended(now, token);
        if asks {
            self.pipeline_described(now, token, refused);
        }
    }

    /// Keeps what its caller sends on another connection, if it was not sent on this one.
    fn keep_unsent(&mut self, token: Token, failure: Failure) {
        let lost = Failure { outcome: Outcome::NotSent, cause: Cause::Closed };
        if failure == lost
            && let Some(unsent) = self.engine.take_unsent(token)
            && let Some(entry) = self.replies.entry(token)
        {
            entry.unsent = Kept::of_unsent(unsent, entry.statement.as_ref()).map(Box::new);
        }
    }

    /// A request of a pipeline ended: the pipeline's account is updated, and an error gets the
    /// number of its statement.
    fn member_ended(
        &mut self,
        now: Time,
        member: Option<Member>,
        token: Token,
        error: Option<Error>,
    ) -> Option<Error> {
        match member {
            Some(_) => self.pipelined(now, |pipelines, io| pipelines.ended(io, token, error)),
            None => error,
        }
    }

    pub(crate) fn error_of(&self, Failure { outcome, cause }: Failure, block: &[u8]) -> Error {
        let kind = match cause {
            Cause::Deadline => Kind::Timeout,
            Cause::Cancelled => Kind::Cancelled,
            _ => Kind::Server,
        };
        if let Some(said) = said::of(cause, outcome) {
            return Error::new(kind, outcome, said.code, said.text);
        }
        if cause == Cause::Server {
            return match server_error(block) {
                Some(error) => Error::server_error(error, outcome),
                None => Error::new(
                    Kind::Protocol,
                    outcome,
                    "malformed_error",
                    "an error of the server could not be read",
                ),
            };
        }
        let ended = self.ended.clone().or_else(|| self.refusal());
        ended.unwrap_or_else(|| self.lost("the connection ended")).with_outcome(outcome)
    }

    fn room(&mut self, now: Time, token: Token) {
        if let Some(mut awaiting) = self.replies.take_awaiting(token) {
            if awaiting.has_place {
                self.replies.remove(token);
            }
            let tokens: Vec<Token> =
                awaiting.requests.iter().map(|(request, _)| request.token).collect();
            let submitted = self.submit_reserved(now, &mut awaiting.requests, &awaiting.bytes);
            if let Err(error) = submitted {
                // The connection ended before there was room.
                for token in tokens {
                    let waker = self.replies.fail(token, error.clone());
                    self.wakers.extend(waker);
                    self.look_up_ended(now, token);
                }
            }
            self.notify();
        } else {
            self.pipelined(now, |pipelines, io| pipelines.turn(io, token));
        }
        self.engine.end_turn(now);
    }

    /// Passes a notification to the session that asked for them, or drops it.
    fn notified_by(&mut self, block: &[u8]) {
        match (&self.notifications, Notification::read(block)) {
            (Some(buffer), Some(notification)) => self.wakers.extend(buffer.push(notification)),
            _ => self.transport.counts.notifications_dropped += 1,
        }
    }

    /// Ends the notifications of a session, because it or the connection is over. Returns whom to
    /// wake.
    pub(crate) fn forget_notifications(&mut self) -> Option<Waker> {
        self.notifications.take().and_then(|buffer| buffer.close())
    }

    fn noticed(&mut self, block: &Bytes) {
        let wakers = self.context.notices.tell(block);
        self.wakers.extend(wakers);
        self.untold.notice(&self.context, block);
    }

    fn keep_parameter(&mut self, block: &[u8]) {
        if let Some(body) = block.get(Header::LEN..)
            && let Ok(parameter) = ParameterStatus::decode(body)
        {
            self.parameters.insert(parameter.name.into(), parameter.value.into());
        }
    }

    // --- reading ---

    /// Handles a read: decrypts it if there is TLS, gives it to the engine, and notes whether
    /// nothing more will come. Returns the number of bytes, and how many the engine needs next.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        read: std::io::Result<usize>,
        reader: &mut Reader,
        input: &mut BytesMut,
    ) -> (usize, Option<usize>) {
        let (bytes, need, end) = self.transport.receive(&mut self.engine, now, read, reader, input);
        if let Some(end) = end {
            // If the server's last message says why it closed, that is the reason, and not the
            // closed socket.
            self.settle(now);
            let error = end.into_error(|why| self.lost(why));
            self.close(error);
        }
        (bytes, need)
    }

    // --- the end ---

    /// The server must not be used any more.
    pub(crate) fn refuse_server(&mut self, refusal: connect::Refusal) {
        let message = format!("{}{}", self.route, refusal.text());
        self.close(Error::new(Kind::Transport, Outcome::Unknown, CONNECTION_LOST, message));
    }

    /// The peer closed the connection or the socket failed.
    pub(crate) fn close(&mut self, error: Error) {
        self.ended.get_or_insert(error);
        self.engine.handle_closed();
    }

    fn note_end(&mut self, reason: CloseReason) {
        let error = match reason {
            CloseReason::Host => return,
            CloseReason::Server(block) => match server_error(&block) {
                Some(error) => Error::server_error(error, Outcome::Unknown)
                    .about(format_args!("{} ended the session", self.route))
                    .with_code(CONNECTION_LOST),
                None => self.lost("the server ended the session"),
            },
            CloseReason::Violation(violation) => Error::new(
                Kind::Protocol,
                Outcome::Unknown,
                CONNECTION_LOST,
                format!(
                    "{} broke the protocol ({violation}), so the connection was closed",
                    self.route
                ),
            ),
            CloseReason::Unusable(why) => Error::new(
                match why {
                    NOT_RESET | NOT_REPLICATED => Kind::Transport,
                    _ => Kind::Misuse,
                },
                Outcome::Unknown,
                CONNECTION_LOST,
                format!("{why}, so the connection to {} was given up", self.route),
            ),
            CloseReason::Stalled => self.lost("the peer has taken no bytes for too long"),
            CloseReason::Silent => self.lost(said::SILENT),
            CloseReason::NoMemory => self.lost("there is no memory for the requests that wait"),
        };
        self.ended.get_or_insert(error);
    }

    pub(crate) fn lost(&self, why: &str) -> Error {
        let message = format!("the connection to {} was lost: {why}", self.route);
        Error::new(Kind::Transport, Outcome::Unknown, CONNECTION_LOST, message)
    }

    // --- writing ---

    fn is_idle(&self) -> bool {
        transport::is_idle(&self.engine)
    }

    /// Whether bytes must not wait for the next reply: a pipeline may be waiting for the answer to
    /// what is unwritten.
    fn is_eager(&self) -> bool {
        self.pipelines.is_exclusive()
    }

    /// After a submission: see the top of this file.
    pub(crate) fn wrote(&mut self, now: Time, was_idle: bool) {
        let eager = self.is_eager();
        self.transport.wrote(&mut self.engine, now, was_idle, eager);
        self.wake_feeder();
    }

    /// A caller awaits: unwritten bytes leave now, unless the driver is about to write.
    pub(crate) fn write_on_await(&mut self, now: Time) {
        let eager = self.is_eager();
        self.transport.write_on_await(&mut self.engine, now, eager);
        self.wake_feeder();
    }

    /// Whether awaiting would write nothing.
    pub(crate) fn nothing_to_write(&self) -> bool {
        self.transport.nothing_to_write(&self.engine)
    }

    fn write_now(&mut self, now: Time) {
        self.transport.write_now(&mut self.engine, now);
        self.wake_feeder();
    }

    /// Writes for the driver, which is woken when the socket takes more.
    pub(crate) fn poll_write(
        &mut self,
        now: Time,
        cx: &mut std::task::Context<'_>,
    ) -> std::io::Result<()> {
        let eager = self.is_eager();
        self.transport.poll_write(&mut self.engine, now, eager, cx)?;
        self.wake_feeder();
        Ok(())
    }

    /// Whether bytes, of ours or of TLS, are still to be written.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.transport.is_unwritten(&self.engine)
    }

    /// Whether the connection has ended and everything is written. The goodbye is waited for,
    /// unless the peer is lost.
    pub(crate) fn is_finished(&mut self, cx: &mut std::task::Context<'_>) -> bool {
        self.transport.is_finished(&self.engine, self.ended.is_some(), cx)
    }

    /// Shuts the writing half down, behind the goodbye.
    pub(crate) fn poll_shut_down(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        self.transport.poll_shut_down(cx)
    }

    /// The driver has ended: closes the socket even if callers still hold the connection.
    pub(crate) fn let_go(&mut self) {
        self.transport.let_go();
    }

    pub(crate) fn is_corked(&self) -> bool {
        self.transport.is_corked()
    }

    /// Several callers were woken: holds writing back until they have run.
    pub(crate) fn cork(&mut self, now: Time) {
        let eager = self.is_eager();
        self.transport.cork(&self.engine, now, eager);
    }

    /// Holds writing back, because more is about to be submitted that should leave in the same
    /// write.
    pub(crate) fn hold(&mut self) {
        self.transport.hold();
    }

    /// Lets bytes that were held back leave.
    pub(crate) fn unhold(&mut self, now: Time) {
        let eager = self.is_eager();
        self.transport.unhold(&mut self.engine, now, eager);
        self.wake_feeder();
    }

    /// Wakes the driver once.
    pub(crate) fn notify(&mut self) {
        self.transport.notify();
    }

    pub(crate) fn driver_runs(&mut self, waker: &Waker) {
        self.transport.driver_runs(waker);
    }

    // --- state ---

    /// A caller's handle is gone. With the last one the connection ends.
    pub(crate) fn release(&mut self) {
        self.handles -= 1;
        if self.handles == 0 {
            self.notify();
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { healed: self.engine.healed(), ..self.transport.counts }
    }

    pub(crate) fn used_prepared(&mut self, parses: bool) {
        self.transport.counts.used_prepared(parses);
    }

    pub(crate) fn route(&self) -> &Route {
        &self.route
    }

    /// Whether the connection ended without having been closed from this side.
    pub(crate) fn is_lost(&self) -> bool {
        self.ended.is_some()
    }

    /// Why the connection ended, unless it ended with a goodbye.
    #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only events say it"))]
    pub(crate) fn why_lost(&self) -> Option<Error> {
        self.ended.clone()
    }

    pub(crate) fn on_drained(&mut self, waker: &Waker) {
        if !self.drained.iter().any(|other| other.will_wake(waker)) {
            self.drained.push(waker.clone());
        }
    }

    pub(crate) fn status(&self) -> TransactionStatus {
        self.engine.protocol().status()
    }
}

fn copy(out: &mut BytesMut, bytes: &[u8]) -> Result<(), std::convert::Infallible> {
    out.extend_from_slice(bytes);
    Ok(())
}

pub(crate) fn server_error(block: &[u8]) -> Option<ServerError> {
    let error = ErrorResponse::decode(block.get(Header::LEN..)?).ok()?;
    Some(ServerError::from(error.fields))
}
