//! One connection to Redis, shared by its callers and its driver. One lock guards the engine, the
//! waiting callers and the writing half of the socket. The top of `core.rs` says when bytes leave.

mod ending;
mod shared;
mod submitting;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use onetrip_engine::pool::{Condition, ConnectionId};
use onetrip_engine::{Time, Token};
use onetrip_redis::Redis;
use onetrip_redis::client::scripts::Scripts;

pub(crate) use self::shared::{Home, Landed, Landing, Landings, Shared};
use super::call::Call;
use super::replies::{Replies, Taken};
use crate::error::CLOSED;
use crate::metrics::Counts;
use crate::open::Route;
use crate::socket::Writer;
use crate::transport::Transport;
use crate::{Error, Kind, Outcome};

/// The state machine of one connection.
pub(crate) type Engine = onetrip_engine::Connection<Redis>;

/// One connection, with its lock and what can be read without it.
pub(crate) struct Link {
    core: Mutex<Core>,
    pub(crate) context: Arc<Shared>,
    /// Its place in its pool.
    pub(crate) pool_slot: PoolSlot,
}

/// What the lock protects.
pub(crate) struct Core {
    pub(crate) engine: Engine,
    pub(crate) replies: Replies,
    pub(crate) transport: Transport,
    scripts: Scripts,
    context: Arc<Shared>,
    /// The time when the clock was last read; it is read only if something depends on it.
    clock: Time,
    /// When the driver wakes up by itself.
    pub(crate) armed: Time,
    /// Why the connection ended; the outcome is filled in for each request.
    ended: Option<Error>,
    /// Callers to be woken once the lock is released.
    pub(crate) wakers: Vec<Waker>,
    full: bool,
    drained: Vec<Waker>,
    /// Whether the pool has released it: then it says goodbye when everything is answered.
    pub(crate) released: bool,
    pub(crate) route: Route,
    /// Whether it speaks RESP3.
    pub(crate) is_resp3: bool,
    /// Its number among those whose replies are cached.
    pub(crate) tracked: Option<u64>,
    /// Whether messages can be told from replies on it.
    pub(crate) subscribes: bool,
    /// Whether the pool was told that it is gone.
    told: bool,
    /// What is to be reported to the cluster once the lock is released.
    landed: Landings,
    /// Whether Sentinels know its server.
    is_seated: bool,
    /// The error with which its server said that it is no master any more.
    demoted: Option<Error>,
}

/// `Debug` shows the place in the pool only: the rest holds callers' commands and replies.
impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link({:?})", self.pool_slot)
    }
}

/// The owner of connections, which is told of their state.
pub(crate) trait Owner: Send + Sync {
    /// A connection is gone.
    fn lost(self: Arc<Self>, id: ConnectionId);
    /// A connection that was lent comes back.
    fn release(self: Arc<Self>, link: &Arc<Link>, condition: Condition);
}

/// Whoever knows the server of a connection, and hears that it was lost.
pub(crate) trait Loss: Send + Sync {
    /// A connection to the server with this number was lost. No lock may be held.
    fn lost(&self, number: u64, why: &str);
}

/// The place of a connection in its pool.
#[derive(Clone)]
pub(crate) struct PoolSlot {
    owner: Weak<dyn Owner>,
    pub(crate) id: ConnectionId,
    /// If Sentinels know the server: who is told when it is lost, and the server's use number.
    seat: Option<(Arc<dyn Loss>, u64)>,
}

impl std::fmt::Debug for PoolSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.id.fmt(f)
    }
}

impl PoolSlot {
    pub(crate) fn new(owner: Weak<dyn Owner>, id: ConnectionId) -> PoolSlot {
        PoolSlot { owner, id, seat: None }
    }

    /// The connection is one to the server with this number.
    pub(crate) fn seated(self, seat: Arc<dyn Loss>, number: u64) -> PoolSlot {
        PoolSlot { seat: Some((seat, number)), ..self }
    }

    /// The number of its server, if Sentinels know it.
    pub(crate) fn number(&self) -> Option<u64> {
        self.seat.as_ref().map(|(_, number)| *number)
    }

    /// The connection is gone; `why`, unless it ended as it should. No lock may be held.
    pub(crate) fn lost(&self, why: Option<&Error>) {
        if let (Some((seat, number)), Some(why)) = (&self.seat, why) {
            seat.lost(*number, &why.to_string());
        }
        if let Some(owner) = self.owner() {
            owner.lost(self.id);
        }
    }

    pub(crate) fn owner(&self) -> Option<Arc<dyn Owner>> {
        self.owner.upgrade()
    }
}

impl Link {
    pub(crate) fn new(
        engine: impl FnOnce(Time) -> Engine,
        writer: Writer,
        route: Route,
        is_resp3: bool,
        context: Arc<Shared>,
        pool_slot: PoolSlot,
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
            tracked: None,
            subscribes: is_resp3,
            told: false,
            landed: Landings::default(),
            is_seated: pool_slot.number().is_some(),
            demoted: None,
        };
        Arc::new(Link { core: Mutex::new(core), context, pool_slot })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        // No caller's code runs under the lock, so a panic there can't have left the state
        // inconsistent.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the connection, handles the engine's outputs, and wakes the callers concerned.
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
        if let Some(why) = gone {
            self.pool_slot.lost(why.as_ref());
        }
        result
    }

    /// Sends a call, or lets it wait for room. A refused call comes back with the reason.
    pub(crate) fn submit(&self, call: Call) -> Result<Token, (Call, Error)> {
        self.submit_as(call, false)
    }

    /// Sends a call of this client's own. It waits for room even if callers are refused. `None` if
    /// the connection takes nothing any more.
    pub(crate) fn say(&self, call: Call) -> Option<Token> {
        self.submit_as(call, true).ok()
    }

    fn submit_as(&self, call: Call, always_waits: bool) -> Result<Token, (Call, Error)> {
        let mut core = self.lock();
        let now = core.time_of_call();
        let result = core.submit(now, call, always_waits);
        core.settle(now);
        if !core.wakers.is_empty() {
            // The caller may hold other locks, so the driver wakes the waiting tasks.
            core.transport.notify();
        }
        result
    }

    /// A call was refused finally. If it is a command of a cluster, the router is told.
    pub(crate) fn refused(&self, call: &Call, error: &Error) {
        if let Some(flight) = call.flight {
            let mut core = self.lock();
            core.landed.flights.push((flight, Landed::Failed(error.clone())));
            core.transport.notify();
        }
    }

    /// Whether it takes calls.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().engine.is_open()
    }

    /// Takes a reply that has ended. If it hasn't, unwritten bytes leave now, and the task is woken
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

    /// Takes the part of a reply that has come, and the result if it has ended.
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

    /// From now on scripts are sent as texts.
    pub(crate) fn send_scripts_as_texts(&self) {
        self.lock().scripts.go_as_texts();
    }

    /// Nobody will take this reply, but the command still runs.
    pub(crate) fn forget(&self, token: Token) {
        self.lock().replies.abandon(token);
    }

    /// Nobody will take this reply. If the command was not sent, it is taken back.
    pub(crate) fn abandon(&self, token: Token) {
        self.with(|core, now| {
            if core.serves_others(token) {
                return core.replies.leave(token);
            }
            if let Some(ticket) = core.replies.abandon(token) {
                core.engine.cancel(now, ticket);
            }
        });
    }

    /// The server tells which keys that are read here were changed: from now on replies are kept.
    pub(crate) fn track(&self) {
        let mut core = self.lock();
        if let (Some(cached), false) = (&self.context.cached, core.engine.is_closed()) {
            core.tracked = Some(cached.opened());
        }
    }

    /// Says goodbye when everything is answered.
    pub(crate) fn release(&self) {
        let mut core = self.lock();
        core.released = true;
        core.transport.notify();
    }

    /// Closes the connection now, whatever is unanswered. Its end leaves in front of whatever its
    /// caller sends next on other connections.
    pub(crate) fn abort(&self, error: Error) {
        self.with(|core, _| {
            core.close(error);
            core.transport.let_go();
        });
    }
}

impl Core {
    /// Takes what is to be reported to the cluster since the last call.
    pub(crate) fn take_landed(&mut self) -> Landings {
        std::mem::take(&mut self.landed)
    }

    /// Counts bytes of replies that were taken as they came.
    fn taken(&mut self, bytes: usize) {
        let stopped = !self.engine.wants_bytes();
        self.engine.handle_taken(bytes);
        if stopped && self.engine.wants_bytes() {
            self.transport.notify();
        }
    }

    /// Whether the pool is to be told that it is gone, once; and why, unless it ended as it should.
    pub(crate) fn take_gone(&mut self) -> Option<Option<Error>> {
        let gone = (self.engine.is_closed() || self.demoted.is_some()) && !self.told;
        self.told |= gone;
        gone.then(|| self.demoted.clone().or_else(|| self.why_lost()))
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { healed: self.engine.healed(), ..self.transport.counts }
    }

    /// Whether no unanswered request has a reader.
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

/// The error of a call on a connection that this program has closed.
pub(crate) fn closed() -> Error {
    let message = "the connection was closed by this program";
    Error::new(Kind::Transport, Outcome::NotSent, CLOSED, message)
}
