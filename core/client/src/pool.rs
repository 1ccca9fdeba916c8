//! A pool as the host holds it: the engine's policy, over connections that the host opens and
//! drives. The policy decides which connection is used, when another is opened, which caller is
//! next, and what expires.

use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use onetrip_engine::pool::{
    Cause, Condition, ConnectionId, Hedge, IdleOrder, Limits, OpenFailure, Output, Pool as Policy,
    Requeue, Served, TextKey, Ticket,
};
use onetrip_engine::{NumberMap, Time, Token};
use onetrip_postgres::client::connect::TargetSessionAttrs;
use onetrip_postgres::client::connect::plan::scout_after;
use onetrip_postgres::client::replicas::Outlook;
use onetrip_postgres::client::statements::Generation;
#[cfg(feature = "redis")]
use onetrip_redis::client::{router::LINE_WAIT, sentinel::ATTEMPT_PAUSE};

use crate::completion::{Completion, Completions, Record, close, kind, pool_cause};
use crate::connect::target;
use crate::lent::Lent;
use crate::postgres::SharedTexts;
use crate::settings::{Invalid, flag, millis, number, pairs};

mod members;

use members::{Member, Members};

/// One pool. `H` is what it is lent of each connection.
#[derive(Debug)]
pub struct Pool<H> {
    policy: Policy,
    members: Members<H>,
    /// The callers that wait, by token, and the text that a shared one will submit.
    waiting: NumberMap<u32, (Ticket, TextKey)>,
    /// Connections with placed requests that the host was told about, and may not have submitted
    /// yet.
    placed: Vec<u32>,
    /// The counts of texts that its connections share.
    texts: Option<SharedTexts>,
    /// Whether its end was announced.
    closed: bool,
    completions: Completions,
}

impl<H: Lent> Pool<H> {
    /// A pool without connections. `settings`: pairs of name and value, each ended by a zero byte;
    /// if one is wrong, a `CLOSED` says what is wrong. `seed`: any number, a different one for each
    /// pool.
    pub fn new(now: Time, settings: &[u8], seed: u64) -> Pool<H> {
        let (limits, (is_node, is_new), invalid) = match limits(settings) {
            Ok((limits, of)) => (limits, of, None),
            Err(invalid) => (Limits::default(), (false, false), Some(invalid)),
        };
        let mut pool = Pool {
            policy: Policy::new(limits, seed),
            members: Members::new(),
            waiting: NumberMap::default(),
            placed: Vec::new(),
            texts: None,
            closed: false,
            completions: Completions::default(),
        };
        if is_node {
            pool.policy.serves_node();
        }
        if is_new {
            pool.policy.connects();
        }
        match invalid {
            None => pool.settle(now),
            Some(invalid) => {
                let reason = (close::LOGIN, 0);
                pool.completions.push(kind::CLOSED, 0, reason, Bytes::from(invalid));
                pool.closed = true;
                pool.policy.close();
            }
        }
        pool
    }

    /// What a caller is told that gets no connection: a code and a text, for hosts in Rust.
    pub fn unserved(&self, cause: u32) -> (&'static str, String) {
        let cause = match cause {
            pool_cause::LINE_FULL => Cause::LineFull,
            pool_cause::CLOSED => Cause::Closed,
            _ => Cause::Deadline,
        };
        (cause.code(), cause.told(self.policy.limits()))
    }

    // --- callers ---

    /// Asks for a connection of the caller's own.
    pub fn checkout(&mut self, now: Time, token: u32, deadline: Option<Time>) -> bool {
        let key = TextKey::UNTOLD;
        self.wait(now, token, key, |policy| policy.checkout(now, Token(token.into()), deadline))
    }

    /// Keeps the place in line of a shared request.
    pub fn wait_shared(
        &mut self,
        now: Time,
        token: u32,
        key: TextKey,
        deadline: Option<Time>,
    ) -> bool {
        let token_of = Token(token.into());
        self.wait(now, token, key, |policy| policy.wait_shared(now, token_of, key, deadline))
    }

    fn wait(
        &mut self,
        now: Time,
        token: u32,
        key: TextKey,
        wait: impl FnOnce(&mut Policy) -> Ticket,
    ) -> bool {
        if token == 0 || self.waiting.contains_key(&token) {
            return false;
        }
        self.waiting.insert(token, (wait(&mut self.policy), key));
        self.settle(now);
        true
    }

    /// The connection that a shared request goes on at once; 0 if it must wait.
    pub fn place(&mut self, now: Time, key: TextKey) -> u32 {
        let Pool { policy, members, .. } = self;
        let placed = policy.place(now, key, |id| members.load(id));
        let number = placed.and_then(|id| self.number(id));
        self.settle(now);
        number.unwrap_or(0)
    }

    /// Whether a request that is unanswered on this connection is sent a second time. Returns the
    /// connection to send it on, or when to ask again.
    pub fn hedge(&mut self, now: Time, number: u32, key: TextKey) -> Result<u32, Time> {
        let Pool { policy, members, .. } = self;
        let first = members.get(number).map(|member| member.id).ok_or(Time::NEVER)?;
        let hedge = policy.hedge(now, key, first, |id| members.load(id));
        self.settle(now);
        match hedge {
            Hedge::On(id) => self.number(id).ok_or(Time::NEVER),
            Hedge::At(at) => Err(at),
        }
    }

    /// A request was made that may be sent a second time.
    pub fn may_hedge(&self) {
        self.policy.hedges().earn();
    }

    /// Until when a shared request may wait in line of which `UNSENT` was told; `None` if it has
    /// failed. `requeue`: its own, which begins as `None`. `deadline`: its own, or
    /// [`Time::NEVER`].
    pub fn requeue(
        &self,
        now: Time,
        deadline: Time,
        requeue: &mut Option<Box<Requeue>>,
    ) -> Option<Time> {
        self.policy.requeue(now, deadline, requeue)
    }

    /// A caller no longer waits. False if its connection is already granted; it must then be
    /// released.
    pub fn give_up(&mut self, now: Time, token: u32) -> bool {
        let Some((ticket, _)) = self.waiting.get(&token).copied() else { return false };
        let gone = self.policy.give_up(ticket);
        if gone {
            self.waiting.remove(&token);
        }
        self.settle(now);
        gone
    }

    /// A granted connection is returned.
    pub fn release(&mut self, now: Time, number: u32, condition: Condition) {
        let Some(id) = self.id(number) else { return };
        self.policy.release(now, id, condition);
        if condition == Condition::Broken {
            self.forget(number);
        }
        self.settle(now);
    }

    /// The generation of the names of texts on its connections; none before one is open. A host that
    /// finds out by itself that the schema has changed says so there ([`Generation::advance`]).
    pub fn generation(&self) -> Option<Generation> {
        let texts = self.texts.as_ref()?;
        // No code of the host runs while the lock is held, so a panic leaves nothing half done.
        Some(texts.lock().unwrap_or_else(PoisonError::into_inner).generation().clone())
    }

    // --- connections ---

    /// A connection that was asked for is open.
    pub fn opened(&mut self, now: Time, number: u32, connection: H) {
        let Some(member) = self.members.get_mut(number) else { return };
        connection.join_pool(&mut self.texts, self.policy.timings());
        member.connection = Some(connection);
        let id = member.id;
        self.policy.handle_opened(now, id);
        self.settle(now);
    }

    /// It could not be opened. `permanent`: time does not mend it. `may_pass`: another attempt may
    /// fare better soon.
    pub fn open_failed(&mut self, now: Time, number: u32, permanent: bool, may_pass: bool) {
        let Some(id) = self.id(number) else { return };
        self.forget(number);
        let failure = OpenFailure { is_permanent: permanent, may_pass };
        self.policy.handle_open_failed(now, id, failure);
        self.settle(now);
    }

    /// Callers that come from now on wait for another attempt, whatever became of the last.
    pub fn forget_failure(&mut self) {
        self.policy.forget_failure();
    }

    /// A connection is broken.
    pub fn lost(&mut self, now: Time, number: u32) {
        let Some(id) = self.id(number) else { return };
        self.forget(number);
        self.policy.handle_lost(now, id);
        self.settle(now);
    }

    /// Takes a connection out of use.
    pub fn retire(&mut self, now: Time, number: u32) {
        if let Some(id) = self.id(number) {
            self.policy.retire(id);
            self.settle(now);
        }
    }

    /// Replies have come on a connection. To be called whenever they have: only the pool knows on
    /// which connections it waits for the last one. Returns whether there may be something to do.
    pub fn answered(&mut self, now: Time, number: u32) -> bool {
        let Some(member) = self.members.get(number) else { return false };
        let waits = self.policy.waiting() > 0;
        if !waits && !member.draining {
            return false;
        }
        if member.is_idle() {
            self.policy.handle_drained(member.id);
        }
        if waits {
            self.policy.handle_room();
        }
        self.settle(now);
        true
    }

    /// The host has acted on all records: requests placed on a connection have been submitted
    /// there, or never will be.
    pub fn acted(&mut self, now: Time) {
        let placed = std::mem::take(&mut self.placed);
        for number in &placed {
            let Some(member) = self.members.get_mut(*number) else { continue };
            (member.placed, member.placed_unsure) = (0, false);
            (member.placed_locking, member.placed_staying) = (0, 0);
            if member.draining && member.is_idle() {
                self.policy.handle_drained(member.id);
            }
        }
        if !placed.is_empty() && self.policy.waiting() > 0 {
            self.policy.handle_room();
        }
        self.settle(now);
    }

    /// It is so late.
    pub fn time(&mut self, now: Time) {
        self.policy.handle_time(now);
        self.settle(now);
    }

    /// The attempt that `POOL_SCOUT` asked for is over, whatever it met.
    pub fn scouted(&mut self, now: Time) {
        self.policy.handle_scouted(now);
        self.settle(now);
    }

    /// When that is to be said next.
    pub fn deadline(&self) -> Time {
        self.policy.poll_deadline().unwrap_or(Time::NEVER)
    }

    /// Ends the pool. `CLOSED` comes when no connection is left.
    pub fn close(&mut self, now: Time) {
        self.policy.close();
        self.settle(now);
    }

    /// Ends the pool as `close` does, but callers in line fail.
    pub fn cut(&mut self, now: Time) {
        self.policy.cut();
        self.settle(now);
    }

    /// Connections in any state, idle shared ones, and callers that wait.
    pub fn counts(&self) -> [usize; 3] {
        let Pool { policy, members, .. } = self;
        let idle = policy.idle(|id| members.load(id));
        [policy.connections(), idle, policy.waiting()]
    }

    /// What a read with this text would find here now.
    pub fn outlook(&self, key: TextKey) -> Outlook {
        let waiting = self.policy.waiting();
        let (mut work, mut unanswered, mut trip) = (Duration::ZERO, waiting, Duration::MAX);
        let mut is_open = false;
        for load in self.members.iter().filter(|it| it.is_shared).filter_map(Member::load) {
            is_open = true;
            work += load.expected;
            unanswered += load.unanswered;
            trip = trip.min(load.trip);
        }
        let max = self.policy.limits().connections_max;
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        work += self.policy.timings().expected(key).takes().saturating_mul(waiting);
        Outlook {
            is_open,
            has_room: unanswered < max,
            wait: trip.saturating_add(work / u32::try_from(max).unwrap_or(u32::MAX)),
            unanswered,
        }
    }

    /// Frees the records that were taken before, and takes those that came since. Returns how many.
    pub fn take(&mut self) -> usize {
        self.completions.take().len()
    }

    /// The records that were taken last.
    pub fn taken(&self) -> &[Completion] {
        self.completions.taken()
    }

    /// The records since the last call, for hosts in Rust.
    pub fn drain(&mut self) -> impl Iterator<Item = Record> {
        self.completions.drain()
    }

    // --- outputs ---

    fn settle(&mut self, now: Time) {
        loop {
            let Pool { policy, members, .. } = self;
            match policy.poll_output(now, |id| members.load(id)) {
                Some(output) => self.handle(output),
                None => return,
            }
        }
    }

    fn handle(&mut self, output: Output) {
        match output {
            Output::Open { id } => {
                let number = self.members.open(id);
                self.tell(kind::POOL_OPEN, 0, number);
            }
            Output::Granted(Served { token, id, .. }) => {
                self.drains(id, (false, false));
                self.serve(kind::POOL_GRANTED, token, id);
            }
            Output::Placed(Served { token, id, .. }) => {
                let waited = self.waiting.get(&(token.0 as u32)).map(|(_, key)| *key);
                self.serve(kind::POOL_PLACED, token, id);
                self.note_placed(id, waited.unwrap_or_default());
            }
            Output::Failed { token, cause } => {
                let token = token.0 as u32;
                self.waiting.remove(&token);
                self.tell(kind::POOL_FAILED, token, cause_code(cause));
            }
            Output::Shared { id } => self.drains(id, (true, false)),
            Output::Drain { id } => {
                self.drains(id, (false, true));
                if self.members.named(id).is_some_and(Member::is_idle) {
                    self.policy.handle_drained(id);
                }
            }
            Output::Reset { id } => {
                if let Some(number) = self.number(id) {
                    self.tell(kind::POOL_RESET, 0, number);
                }
            }
            Output::Close { id } => {
                if let Some(number) = self.number(id) {
                    self.forget(number);
                    self.tell(kind::POOL_CLOSE, 0, number);
                }
            }
            Output::Scout => self.tell(kind::POOL_SCOUT, 0, 0),
            Output::Closed if self.closed => {}
            Output::Closed => {
                self.closed = true;
                self.tell(kind::CLOSED, 0, close::HOST);
            }
        }
    }

    fn serve(&mut self, kind: u32, token: Token, id: ConnectionId) {
        let token = token.0 as u32;
        self.waiting.remove(&token);
        // A connection that was lost meanwhile is granted nevertheless, with the number of no
        // connection.
        let number = self.number(id).unwrap_or(0);
        self.tell(kind, token, number);
    }

    fn tell(&mut self, kind: u32, token: u32, a: u32) {
        self.completions.push(kind, token, (a, 0), Bytes::new());
    }

    fn note_placed(&mut self, id: ConnectionId, key: TextKey) {
        let Some(member) = self.members.named_mut(id) else { return };
        if member.placed == 0 {
            self.placed.push(member.number);
        }
        member.placed += 1;
        member.placed_unsure |= self.policy.timings().expected(key).is_unsure();
        member.placed_locking += usize::from(key.may_lock());
        member.placed_staying += usize::from(key.stays());
    }

    fn drains(&mut self, id: ConnectionId, (is_shared, draining): (bool, bool)) {
        if let Some(member) = self.members.named_mut(id) {
            (member.is_shared, member.draining) = (is_shared, draining);
            member.connection.iter().for_each(|it| it.open_to_all(is_shared));
        }
    }

    fn number(&self, id: ConnectionId) -> Option<u32> {
        self.members.named(id).map(|member| member.number)
    }

    fn id(&self, number: u32) -> Option<ConnectionId> {
        self.members.get(number).map(|member| member.id)
    }

    /// Lets go of a connection, so that the host may free it.
    fn forget(&mut self, number: u32) {
        self.members.forget(number);
    }
}

fn cause_code(cause: Cause) -> u32 {
    match cause {
        Cause::LineFull => pool_cause::LINE_FULL,
        Cause::Deadline => pool_cause::DEADLINE,
        Cause::OpenFailed => pool_cause::OPEN_FAILED,
        Cause::Closed => pool_cause::CLOSED,
    }
}

/// The limits, whether the server is a node of a cluster, and whether somebody opens the client.
fn limits(settings: &[u8]) -> Result<(Limits, (bool, bool)), Invalid> {
    let (mut limits, mut is_node, mut is_new) = (Limits::default(), false, false);
    let (mut hosts, mut wanted) = (1, TargetSessionAttrs::Any);
    for (name, value) in pairs(settings)? {
        match name {
            "connections_max" => limits.connections_max = number(name, value)?,
            "connections_min" => limits.connections_min = number(name, value)?,
            "waiting_max" => limits.waiting_max = number(name, value)?,
            "opening_max" => limits.opening_max = number(name, value)?,
            "wait_timeout_ms" => limits.wait_timeout = millis(name, value)?,
            "idle_timeout_ms" => limits.idle_timeout = millis(name, value)?,
            "lifetime_ms" => limits.lifetime = millis(name, value)?,
            "slow_head_ms" => limits.slow_head = millis(name, value)?,
            "yield_after_ms" => limits.yield_after = millis(name, value)?,
            "hosts" => hosts = value.len(),
            "target_session_attrs" => {
                let unknown = || format!("{value} is no value of {name}");
                wanted = target(value).ok_or_else(unknown)?;
            }
            "backoff_min_ms" => limits.backoff_min = millis(name, value)?,
            "backoff_max_ms" => limits.backoff_max = millis(name, value)?,
            // Redis Sentinels know its server: attempts wait for what these say.
            #[cfg(feature = "redis")]
            "seated" => {
                if flag(name, value)? {
                    (limits.backoff_min, limits.backoff_max) = ATTEMPT_PAUSE;
                }
            }
            "node" => is_node = flag(name, value)?,
            "connects" => is_new = flag(name, value)?,
            "oldest_first" => {
                let oldest = flag(name, value)?;
                limits.idle_order = if oldest { IdleOrder::Fifo } else { IdleOrder::Lifo };
            }
            _ => return Err(format!("{name} is not a setting of a pool")),
        }
    }
    limits.scout_after = scout_after(hosts, wanted);
    #[cfg(feature = "redis")]
    if is_node {
        limits.wait_timeout = limits.wait_timeout.min(LINE_WAIT);
    }
    Ok((limits, (is_node, is_new)))
}
