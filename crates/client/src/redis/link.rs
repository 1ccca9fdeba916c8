//! One connection to Redis, shared by its callers and its driver: the engine, who waits, and the
//! socket's writing half, behind one lock. When bytes leave is said at the top of `core.rs`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use onetrip_engine::{Cause, CloseReason, End, Failure, Outcome, Output, Ticket, Time, Token};
use onetrip_redis::router::FlightId;
use onetrip_redis::{Event, Redis};

use super::call::{Body, Call, Item, Scripts};
use super::config::Limits;
use super::frames::Frames;
use super::metrics::Totals;
use super::pool::Seat;
use super::pushes::Pushes;
use super::replies::{Replies, Taken};
use super::script::is_forgotten;
use crate::config::WhenFull;
use crate::error::{CONNECTION_ENDED, CONNECTION_LOST};
use crate::metrics::Counts;
use crate::open::Route;
use crate::socket::Writer;
use crate::transport::{self, Transport};
use crate::{Error, Kind};

/// The state machine of one connection.
pub(crate) type Engine = onetrip_engine::Connection<Redis>;

/// One connection and everything about it.
#[derive(Debug)]
pub(crate) struct Link {
    core: Mutex<Core>,
    pub(crate) context: Arc<Shared>,
    /// Where it is in its pool.
    pub(crate) seat: Seat,
}

/// What all connections to one server have in common.
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    /// When time began. Nodes of a cluster come later than their client, whose deadlines they keep, so it is the
    /// same for all there are.
    epoch: Instant,
    /// Whether the server speaks RESP3, as it said last.
    resp3: AtomicBool,
    /// The connection that is subscribed, or was last. Held by whoever subscribes or unsubscribes.
    subscribed: Mutex<Weak<Link>>,
    pub(crate) pushes: Pushes,
    /// Those of all nodes of a cluster, which come and go.
    pub(crate) totals: Arc<Totals>,
    /// In a cluster, who wants to know what became of commands.
    landing: OnceLock<Weak<dyn Landing + Send + Sync>>,
}

impl Shared {
    pub(crate) fn new(limits: Limits, totals: Arc<Totals>) -> Arc<Shared> {
        static EPOCH: OnceLock<Instant> = OnceLock::new();
        Arc::new(Shared {
            limits,
            epoch: *EPOCH.get_or_init(Instant::now),
            resp3: AtomicBool::new(false),
            subscribed: Mutex::default(),
            pushes: Pushes::default(),
            totals,
            landing: OnceLock::new(),
        })
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO.after(self.epoch.elapsed())
    }

    pub(crate) fn set_landing(&self, landing: Weak<dyn Landing + Send + Sync>) {
        let _ = self.landing.set(landing);
    }

    /// These commands have ended. No lock may be held.
    pub(crate) fn landed(&self, landed: Vec<(FlightId, Landed)>) {
        if !landed.is_empty()
            && let Some(landing) = self.landing.get().and_then(Weak::upgrade)
        {
            landing.landed(landed);
        }
    }

    pub(crate) fn is_resp3(&self) -> bool {
        self.resp3.load(Ordering::Relaxed)
    }

    pub(crate) fn set_resp3(&self, is_resp3: bool) {
        self.resp3.store(is_resp3, Ordering::Relaxed);
    }

    /// Holds those off who subscribe or unsubscribe meanwhile; the connection that is subscribed.
    pub(crate) fn subscribing(&self) -> MutexGuard<'_, Weak<Link>> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.epoch + time.since(Time::ZERO)
    }

    /// The deadline of what is asked for now.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Time {
        timeout.map_or(Time::NEVER, |timeout| self.now().after(timeout))
    }
}

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Engine,
    pub(crate) replies: Replies,
    pub(crate) transport: Transport,
    scripts: Scripts,
    context: Arc<Shared>,
    /// The time as it was read last: it is not read where nothing depends on it.
    clock: Time,
    /// When the driver wakes up by itself.
    pub(crate) armed: Time,
    /// Why the connection ended; the outcome is filled in for each request.
    ended: Option<Error>,
    /// Callers to be woken once the lock is released.
    pub(crate) wakers: Vec<Waker>,
    full: bool,
    drained: Vec<Waker>,
    /// The pool let go of it: it says goodbye when all is answered.
    pub(crate) released: bool,
    pub(crate) route: Route,
    /// Whether it speaks RESP3.
    pub(crate) is_resp3: bool,
    /// The pool was told that it is gone.
    told: bool,
    /// What became of commands of a cluster, to be told once the lock is released.
    landed: Vec<(FlightId, Landed)>,
}

/// What became of a command of a cluster.
#[derive(Debug)]
pub(crate) enum Landed {
    /// Its reply, or an error of the server.
    Reply(Bytes),
    Failed(Error),
}

/// Who wants to know what became of commands of a cluster.
pub(crate) trait Landing {
    fn landed(&self, landed: Vec<(FlightId, Landed)>);
}

impl Link {
    pub(crate) fn new(
        engine: impl FnOnce(Time) -> Engine,
        writer: Writer,
        route: Route,
        is_resp3: bool,
        context: Arc<Shared>,
        seat: Seat,
    ) -> Arc<Link> {
        let now = context.now();
        let core = Core {
            engine: engine(now),
            replies: Replies::new(context.limits.reply_bytes_max),
            transport: Transport::new(writer),
            scripts: Scripts::default(),
            context: context.clone(),
            clock: now,
            armed: Time::NEVER,
            ended: None,
            wakers: Vec::new(),
            full: false,
            drained: Vec::new(),
            released: false,
            route,
            is_resp3,
            told: false,
            landed: Vec::new(),
        };
        Arc::new(Link { core: Mutex::new(core), context, seat })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        // No caller's code runs under the lock, so a panic there can't have left things half done.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the connection, takes note of what became of whom, and wakes them.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut Core, Time) -> R) -> R {
        let mut core = self.lock();
        let now = core.time_of_call();
        let result = change(&mut core, now);
        core.settle(now);
        let wakers = std::mem::take(&mut core.wakers);
        let (gone, landed) = (core.take_gone(), core.take_landed());
        drop(core);
        wakers.into_iter().for_each(Waker::wake);
        self.context.landed(landed);
        if gone {
            self.seat.lost();
        }
        result
    }

    /// Sends a call, or lets it wait for room. What is refused comes back with the reason.
    pub(crate) fn submit(&self, call: Call) -> Result<Token, (Call, Error)> {
        self.submit_as(call, false)
    }

    /// Sends what this program has to say by itself, and whose reply nobody takes. It waits for room also
    /// where callers are refused. `false` if the connection takes nothing any more.
    pub(crate) fn say(&self, call: Call) -> bool {
        let said = self.submit_as(call, true).map(|token| self.forget(token));
        said.is_ok()
    }

    fn submit_as(&self, call: Call, always_waits: bool) -> Result<Token, (Call, Error)> {
        let mut core = self.lock();
        let now = core.time_of_call();
        let result = core.submit(now, call, always_waits);
        core.settle(now);
        if !core.wakers.is_empty() {
            // Whoever submits may hold other locks: the driver wakes them.
            core.transport.notify();
        }
        result
    }

    /// A call was refused for good: of a command of a cluster it is told to whom it may concern.
    pub(crate) fn refused(&self, call: &Call, error: &Error) {
        if let Some(flight) = call.flight {
            let mut core = self.lock();
            core.landed.push((flight, Landed::Failed(error.clone())));
            core.transport.notify();
        }
    }

    /// Whether it takes calls.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().engine.is_open()
    }

    /// Takes a reply that has ended. If it hasn't, what is unwritten leaves now, and the task is woken
    /// when it has.
    pub(crate) fn poll_reply(&self, token: Token, cx: &Context<'_>) -> Poll<Taken> {
        let mut core = self.lock();
        if !core.replies.poll_ended(token, cx) {
            if !core.transport.nothing_to_write(&core.engine) {
                let now = core.clock;
                let Core { transport, engine, .. } = &mut *core;
                transport.write_on_await(engine, now, false);
            }
            return Poll::Pending;
        }
        match core.replies.take(token) {
            Some(taken) => Poll::Ready(taken),
            None => unreachable!("a reply is taken once"),
        }
    }

    /// Takes what has come of a reply, and how it ended if it has.
    pub(crate) fn poll_part(
        &self,
        token: Token,
        cx: &Context<'_>,
    ) -> Poll<(Bytes, Option<Result<(), Error>>)> {
        let mut core = self.lock();
        if core.replies.poll_ended(token, cx) {
            let Some(Taken { block, result, .. }) = core.replies.take(token) else {
                unreachable!("a reply is taken once")
            };
            core.taken(block.len());
            return Poll::Ready((block, Some(result)));
        }
        let part = core.replies.take_part(token);
        if !part.is_empty() {
            core.taken(part.len());
            return Poll::Ready((part, None));
        }
        let now = core.clock;
        let Core { transport, engine, .. } = &mut *core;
        transport.write_on_await(engine, now, true);
        Poll::Pending
    }

    /// Nobody will take this reply, and what was asked for is done all the same.
    pub(crate) fn forget(&self, token: Token) {
        self.lock().replies.abandon(token);
    }

    /// Nobody will take this reply. What was not sent is taken back.
    pub(crate) fn abandon(&self, token: Token) {
        self.with(|core, now| {
            if let Some(ticket) = core.replies.abandon(token) {
                core.engine.cancel(now, ticket);
            }
        });
    }

    /// Says goodbye when all is answered.
    pub(crate) fn release(&self) {
        let mut core = self.lock();
        core.released = true;
        core.transport.notify();
    }

    /// Ends it now, whatever is unanswered.
    pub(crate) fn abort(&self, error: Error) {
        self.with(|core, _| {
            core.close(error);
            core.transport.notify();
        });
    }
}

impl Core {
    /// The time for a call. It is needed where a deadline begins, and where bytes begin to wait for the
    /// peer.
    fn time_of_call(&mut self) -> Time {
        if self.engine.transmit().is_empty() {
            self.set_clock(self.context.now());
        }
        self.clock
    }

    /// Takes note of the time. It never goes backwards.
    pub(crate) fn set_clock(&mut self, now: Time) -> Time {
        self.clock = self.clock.max(now);
        self.clock
    }

    pub(crate) fn clock(&self) -> Time {
        self.clock
    }

    fn submit(
        &mut self,
        now: Time,
        call: Call,
        always_waits: bool,
    ) -> Result<Token, (Call, Error)> {
        let idle = transport::is_idle(&self.engine);
        let len = call.len_max();
        if self.engine.has_room(1, len) {
            let token = self.replies.add();
            self.submit_reserved(now, token, &call);
            let Core { transport, engine, .. } = self;
            transport.wrote(engine, now, idle, false);
            return Ok(token);
        }
        if let Some(error) = self.refusal() {
            return Err((call, error));
        }
        match always_waits || self.may_park(len) {
            true => self.park(call),
            false => Err((call, queue_full())),
        }
    }

    /// There is room for it.
    fn submit_reserved(&mut self, now: Time, token: Token, call: &Call) {
        if call.flight.is_some()
            && let Some(entry) = self.replies.entry(token)
        {
            entry.flight = call.flight;
            entry.asks = matches!(call.body, Body::Asking(_));
        }
        let request = call.request(token, &self.scripts);
        let scripts = &self.scripts;
        let submitted = self.engine.submit(now, request, |out| call.encode(scripts, out));
        match submitted {
            Ok(Ticket::Sent) => {}
            Ok(ticket) => {
                if let Some(entry) = self.replies.entry(token) {
                    entry.ticket = Some(ticket);
                }
            }
            Err(_) => {
                let error = self.refusal().unwrap_or_else(queue_full);
                if let Some(flight) = call.flight {
                    self.replies.remove(token);
                    return self.landed.push((flight, Landed::Failed(error)));
                }
                let waker = self.replies.end(token, Err(error));
                self.wakers.extend(waker);
                return;
            }
        }
        if let Body::One(Item { script: None, .. }) = call.body {
            return;
        }
        self.scripts.sent(call);
        let reply_max = self.context.limits.reply_bytes_max;
        if let Some(entry) = self.replies.entry(token) {
            (entry.has_scripts, entry.lists_scripts) = call.calls_scripts();
            entry.bytes_max = call.bytes_max(reply_max);
        }
    }

    /// What became of a call with scripts may say that the server has forgotten them.
    fn doubt_scripts(&mut self, token: Token, end: &End) {
        let Some(entry) = self.replies.entry(token).filter(|entry| entry.has_scripts) else {
            return;
        };
        let lists = entry.lists_scripts;
        let forgotten = match end {
            End::Failed(_) => true,
            End::Complete | End::Provisional => lists && is_forgotten(self.replies.received(token)),
        };
        if forgotten {
            self.scripts.doubted();
        }
    }

    /// What became of commands of a cluster since this was asked.
    pub(crate) fn take_landed(&mut self) -> Vec<(FlightId, Landed)> {
        std::mem::take(&mut self.landed)
    }

    /// A command of a cluster has ended.
    fn land(&mut self, flight: FlightId, token: Token, block: Bytes, end: End) {
        let asks = self.replies.entry(token).is_some_and(|entry| entry.asks);
        let landed = match end {
            End::Failed(Failure { cause: Cause::Server, .. }) => Landed::Reply(block),
            End::Failed(failure) => Landed::Failed(self.error_of(failure, &block)),
            End::Complete | End::Provisional => {
                self.replies.end(token, Ok(()));
                match self.replies.take(token) {
                    Some(Taken { too_large: true, .. }) => {
                        Landed::Failed(super::reply::too_large())
                    }
                    Some(taken) if asks => Landed::Reply(Frames::behind_first(taken.block)),
                    Some(taken) => Landed::Reply(taken.block),
                    None => return,
                }
            }
        };
        self.replies.remove(token);
        self.landed.push((flight, landed));
    }

    /// Whether a caller may wait for room in the queue, with a call of so many bytes.
    fn may_park(&self, len: usize) -> bool {
        let limits = &self.context.limits;
        // Any number of bytes may wait when none do.
        let parked = self.replies.parked_bytes();
        let too_much = parked > 0 && parked + len > limits.waiting_bytes_max;
        limits.when_full != WhenFull::Refuse && !too_much
    }

    /// Lets a call wait for room in the queue.
    fn park(&mut self, call: Call) -> Result<Token, (Call, Error)> {
        let token = self.replies.add();
        let Some(ticket) = self.engine.wait(token, call.deadline) else {
            self.replies.remove(token);
            return Err((call, queue_full()));
        };
        if let Some(entry) = self.replies.entry(token) {
            entry.ticket = Some(ticket);
            entry.flight = call.flight;
        }
        self.replies.park(token, call);
        Ok(token)
    }

    /// So many bytes of replies were taken as they came.
    fn taken(&mut self, bytes: usize) {
        let stopped = !self.engine.wants_bytes();
        self.engine.handle_taken(bytes);
        if stopped && self.engine.wants_bytes() {
            self.transport.notify();
        }
    }

    /// Why no request is taken any more.
    pub(crate) fn refusal(&self) -> Option<Error> {
        if self.engine.is_open() {
            return None;
        }
        let ended = self.ended.clone().unwrap_or_else(closed);
        Some(ended.with_outcome(Outcome::NotSent))
    }

    /// Takes the outputs of the engine.
    pub(crate) fn settle(&mut self, now: Time) {
        while let Some(output) = self.engine.poll_output() {
            self.take(now, output);
        }
        if self.engine.poll_deadline().is_some_and(|deadline| deadline < self.armed) {
            self.transport.notify();
        }
    }

    fn take(&mut self, now: Time, output: Output<Event>) {
        match output {
            Output::Data { token, block } | Output::Piece { token, block, .. } => {
                let bytes = block.len();
                self.replies.came(token, block);
                match self.replies.has_part(token) {
                    // Those who take replies as they come want to know.
                    true if self.engine.untaken_bytes() > 0 => {
                        let waker = self.replies.waker_of(token);
                        self.wakers.extend(waker);
                    }
                    true => {}
                    false => self.engine.handle_taken(bytes),
                }
            }
            Output::Ended { token, block, end } => self.end(token, block, end),
            Output::Event { event: Event::Push, block } => {
                let wakers = self.context.pushes.take(&block);
                self.wakers.extend(wakers);
            }
            Output::Event { event: Event::ScriptLoaded, .. } => {}
            Output::Room { token } => {
                if let Some(call) = self.replies.unpark(token) {
                    self.submit_reserved(now, token, &call);
                    self.transport.notify();
                }
                self.engine.end_turn(now);
            }
            Output::Full => self.full = true,
            Output::Drained => {
                self.full = false;
                self.wakers.append(&mut self.drained);
            }
            Output::Closed(reason) => {
                self.full = false;
                self.wakers.append(&mut self.drained);
                self.note_end(reason);
            }
            // No groups are opened here, and nothing is cancelled at the server.
            Output::Granted { .. }
            | Output::Restarted { .. }
            | Output::Cancel
            | Output::NotCancelled { .. }
            | Output::Astray => {}
        }
    }

    fn end(&mut self, token: Token, block: Bytes, end: End) {
        self.count(&end);
        if !matches!(end, End::Failed(_)) {
            self.replies.came(token, block.clone());
        }
        self.doubt_scripts(token, &end);
        if let Some(flight) = self.replies.entry(token).and_then(|entry| entry.flight) {
            return self.land(flight, token, block, end);
        }
        let result = match end {
            End::Complete | End::Provisional => Ok(()),
            End::Failed(failure) => Err(self.error_of(failure, &block)),
        };
        let waker = self.replies.end(token, result);
        self.wakers.extend(waker);
    }

    fn count(&mut self, end: &End) {
        let counts = &mut self.transport.counts;
        match end {
            End::Complete | End::Provisional => counts.completed += 1,
            End::Failed(failure) => counts.failed(failure.outcome),
        }
    }

    fn error_of(&self, Failure { outcome, cause }: Failure, block: &[u8]) -> Error {
        match cause {
            Cause::Server | Cause::Aborted => super::error::from_frame(block, outcome),
            Cause::Deadline => super::error::deadline(outcome),
            Cause::Cancelled => {
                Error::new(Kind::Cancelled, outcome, "cancelled", "taken back before it was sent")
            }
            Cause::Closed => self
                .ended
                .clone()
                .or_else(|| self.refusal())
                .unwrap_or_else(|| self.lost("the connection ended"))
                .with_outcome(outcome),
        }
    }

    // --- the end ---

    /// The peer closed the connection or the socket failed.
    pub(crate) fn close(&mut self, error: Error) {
        self.ended.get_or_insert(error);
        self.engine.handle_closed();
    }

    fn note_end(&mut self, reason: CloseReason) {
        let error = match reason {
            CloseReason::Host => return,
            CloseReason::Server(block) => super::error::from_frame(&block, Outcome::Unknown)
                .about(format_args!("{} ended the connection", self.route))
                .with_code(CONNECTION_LOST),
            CloseReason::Violation(violation) => Error::new(
                Kind::Protocol,
                Outcome::Unknown,
                CONNECTION_LOST,
                format!(
                    "{} broke the protocol ({violation}), so the connection was closed",
                    self.route
                ),
            ),
            CloseReason::Stalled => self.lost("the peer has taken no bytes for too long"),
        };
        self.ended.get_or_insert(error);
    }

    pub(crate) fn lost(&self, why: &str) -> Error {
        let message = format!("the connection to {} was lost: {why}", self.route);
        Error::new(Kind::Transport, Outcome::Unknown, CONNECTION_LOST, message)
    }

    /// Whether the pool is to be told that it is gone, once.
    pub(crate) fn take_gone(&mut self) -> bool {
        let gone = self.engine.is_closed() && !self.told;
        self.told |= gone;
        gone
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.ended.is_some()
    }

    /// Why it ended, if not by a goodbye.
    pub(crate) fn why_lost(&self) -> Option<Error> {
        self.ended.clone().filter(|error| error.code() != CONNECTION_ENDED)
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { healed: self.engine.healed(), ..self.transport.counts }
    }

    /// Whether nobody will take a reply to what is unanswered.
    pub(crate) fn nobody_waits(&self) -> bool {
        self.replies.all_abandoned()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    pub(crate) fn on_drained(&mut self, waker: &Waker) {
        if !self.drained.iter().any(|other| other.will_wake(waker)) {
            self.drained.push(waker.clone());
        }
    }
}

/// The error of a call on what this program has closed.
pub(crate) fn closed() -> Error {
    let message = "the connection was closed by this program";
    Error::new(Kind::Transport, Outcome::NotSent, CONNECTION_ENDED, message)
}

fn queue_full() -> Error {
    Error::new(
        Kind::Misuse,
        Outcome::NotSent,
        "queue_full",
        "the queue of the connection is full: wait for replies before sending more, or raise queue_max \
         or waiting_bytes_max",
    )
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_means_the_same_to_a_node_that_comes_later() {
        let client = Shared::new(Limits::default(), Arc::default());
        while client.now() == Time::ZERO {}
        let node = Shared::new(Limits::default(), Arc::default());
        assert_eq!(client.instant(Time::ZERO), node.instant(Time::ZERO));
    }
}
