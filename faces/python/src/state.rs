//! The state of a client: the pool, its connections, who waits for what. Everything is marshalled; nothing is decided.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use onetrip_abi::completion::{close, end, event, kind, outcome, pool_cause};
use onetrip_abi::host::{Act, Holder, Record, Submission, Types as Typed, flag};
use onetrip_abi::{Connection, Pool};
use onetrip_engine::pool::{Condition, TextKey};
use onetrip_engine::{CancelEnd, Ticket, Time};
use onetrip_postgres::client::transaction::modes::Modes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::call::{Call, Stage, Want, unsent};
use crate::failure::{Failure, Loss};
use crate::link::Link;
use crate::messages::Messages;
use crate::types::Types;

/// What is to be done once the state is borrowed no more.
#[derive(Debug)]
pub(crate) enum Deed {
    /// A future is done.
    Wake(Py<PyAny>),
    /// Bytes go to a transport, by its method.
    Write(Py<PyAny>, Py<PyBytes>),
    /// The host is called by this name, with the number of a connection, or 0, and what else there is.
    Tell(&'static str, u32, Option<Said>),
    /// A question of the client's own has ended.
    Step(Py<Call>),
    /// What waits on a connection may go on.
    Advance(u32),
    /// A part of a long result has come.
    Read(Py<Call>),
    /// Rows that are of no use.
    Drop(Py<PyList>),
    /// Bytes are written when this turn is over.
    Schedule,
    /// It is to be told what time it is.
    Arm(Duration),
}

/// What a host is told.
#[derive(Debug)]
pub(crate) enum Said {
    Bytes(Bytes),
    Flag(bool),
    /// Why a login was refused: as text, and as the server's message if it was the server.
    Refusal(String, Option<Bytes>),
}

pub(crate) struct State {
    pub(crate) pool: Pool<Rc<RefCell<Connection>>>,
    pub(crate) links: HashMap<u32, Link>,
    /// Who waits in the pool, by token.
    in_line: HashMap<u32, Py<Call>>,
    tokens: u32,
    /// Connections with bytes to send.
    pub(crate) dirty: Vec<u32>,
    pub(crate) scheduled: bool,
    /// Tasks that were told to go on, and have not yet.
    pub(crate) woken: usize,
    /// When the next call of `tick` is due.
    armed: Time,
    pub(crate) deeds: Vec<Deed>,
    pub(crate) types: Types,
    /// Those of descriptions; 1 is the client's own question.
    pub(crate) ids: u32,
    /// Why a connection could not be opened last.
    last_error: Option<(Py<PyAny>, String)>,
    pub(crate) is_closing: bool,
}

impl State {
    pub(crate) fn new(settings: &[u8], seed: u64) -> State {
        State {
            pool: Pool::new(Time::ZERO, settings, seed),
            links: HashMap::new(),
            in_line: HashMap::new(),
            tokens: 0,
            dirty: Vec::new(),
            scheduled: false,
            woken: 0,
            armed: Time::NEVER,
            deeds: Vec::new(),
            types: Types::default(),
            ids: 1,
            last_error: None,
            is_closing: false,
        }
    }

    pub(crate) fn tell(&mut self, name: &'static str, number: u32, said: Option<Said>) {
        self.deeds.push(Deed::Tell(name, number, said));
    }

    // --- shared calls ---

    /// Puts a call on a connection that others use as well, at once or when its turn comes.
    pub(crate) fn place(&mut self, py: Python<'_>, now: Time, call: &Bound<'_, Call>) {
        if self.is_closing && !call.get().is_own() {
            return self.fail(py, call, unsent("closed", "the client was closed"));
        }
        let key = key_of(call.get());
        let number = self.pool.place(now, key);
        if number != 0 {
            self.walk_pool(py, now);
            return self.submit(py, now, number, call);
        }
        let token = self.token();
        self.in_line.insert(token, call.clone().unbind());
        let _ = call.get().now.with(|it| it.stage = Stage::InLine(token));
        self.pool.wait_shared(now, token, key, None);
        self.walk_pool(py, now);
    }

    fn token(&mut self) -> u32 {
        loop {
            self.tokens = self.tokens.wrapping_add(1);
            if self.tokens != 0 && !self.in_line.contains_key(&self.tokens) {
                return self.tokens;
            }
        }
    }

    pub(crate) fn checkout(&mut self, py: Python<'_>, now: Time, call: &Bound<'_, Call>) {
        if self.is_closing {
            return self.fail(py, call, unsent("closed", "the client was closed"));
        }
        let token = self.token();
        self.in_line.insert(token, call.clone().unbind());
        let _ = call.get().now.with(|it| it.stage = Stage::InLine(token));
        self.pool.checkout(now, token, None);
        self.walk_pool(py, now);
    }

    /// Hands a call to the engine.
    fn submit(&mut self, py: Python<'_>, now: Time, number: u32, call: &Bound<'_, Call>) {
        let Some(link) = self.links.get_mut(&number) else {
            return self.fail(py, call, unsent("connection_lost", "the connection was lost"));
        };
        let failure = match &call.get().want {
            Want::Parts(_) | Want::Calls(_) => link.submit_parts(py, now, number, call),
            _ => link.submit(py, now, number, call),
        };
        if let Some(failure) = failure {
            self.fail(py, call, failure);
        }
        self.soil(number);
        self.walk(py, now, number);
    }

    /// A connection has bytes to send, perhaps.
    fn soil(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if !std::mem::replace(&mut link.is_dirty, true) {
            self.dirty.push(number);
        }
        if !std::mem::replace(&mut self.scheduled, true) {
            self.deeds.push(Deed::Schedule);
        }
    }

    /// Nobody waits for it any more.
    pub(crate) fn give_up(&mut self, py: Python<'_>, now: Time, call: &Bound<'_, Call>) {
        let Ok(stage) = call.get().now.with(|it| it.stage) else { return };
        let cancelled = || unsent("cancelled", "it was given up by its caller");
        match stage {
            Stage::Over | Stage::Taken => {
                let _ = call.get().now.with(|it| it.stage = Stage::Taken);
            }
            // What a transaction does is done, whoever waits for it.
            _ if matches!(call.get().want, Want::Act(_)) => {}
            Stage::Made => self.fail(py, call, cancelled()),
            Stage::InLine(token) => {
                if self.pool.give_up(now, token) {
                    self.in_line.remove(&token);
                    self.fail(py, call, cancelled());
                }
                // Otherwise it is granted a connection, which nobody takes: `granted`.
            }
            Stage::Sent(number, token, ticket) => {
                let Some(link) = self.links.get_mut(&number) else { return };
                link.give_up(now, token, ticket);
                self.soil(number);
                self.walk(py, now, number);
            }
        }
    }

    /// Ends a call that is not with the engine.
    pub(crate) fn fail(&mut self, py: Python<'_>, call: &Bound<'_, Call>, failure: Failure) {
        let parts = match &call.get().want {
            Want::Calls(calls) => calls.as_slice(),
            _ => &[],
        };
        for part in parts {
            let failure = failure.again(py, outcome::NOT_SENT);
            self.finish(py, part, Some(failure));
        }
        self.finish(py, call.as_unbound(), Some(failure));
    }

    /// A call has ended: whoever waits hears of it.
    pub(crate) fn finish(&mut self, py: Python<'_>, call: &Py<Call>, failure: Option<Failure>) {
        let it = call.get();
        let Ok(future) = it.now.with(|it| {
            if matches!(it.stage, Stage::Over | Stage::Taken) {
                return None;
            }
            (it.stage, it.args, it.requests) = (Stage::Over, None, Vec::new());
            if failure.is_some() {
                it.failure = failure;
            }
            it.is_woken = it.future.is_some();
            it.future.take()
        }) else {
            return;
        };
        if it.is_own() {
            self.deeds.push(Deed::Step(call.clone_ref(py)));
        } else if let Some(future) = future {
            self.woken += 1;
            self.deeds.push(Deed::Wake(future));
        }
    }

    // --- bytes ---

    pub(crate) fn received(&mut self, py: Python<'_>, now: Time, number: u32, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(&number) else { return };
        link.connection.borrow_mut().receive(now, bytes);
        self.walk(py, now, number);
        self.pool.answered(now, number);
        self.walk_pool(py, now);
        // What had waited for room goes on.
        self.write(py, now, number);
    }

    pub(crate) fn flush(&mut self, py: Python<'_>, now: Time) {
        for number in std::mem::take(&mut self.dirty) {
            if let Some(link) = self.links.get_mut(&number) {
                link.is_dirty = false;
            }
            self.write(py, now, number);
        }
    }

    pub(crate) fn write(&mut self, py: Python<'_>, now: Time, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if let Some(deed) = link.write(py, now) {
            self.deeds.push(deed);
            self.walk(py, now, number);
        }
        let deadline = self.links.get(&number).map(|link| link.connection.borrow().deadline());
        self.arm(now, deadline.unwrap_or(Time::NEVER));
    }

    /// Sees that it is told the time at this moment.
    fn arm(&mut self, now: Time, at: Time) {
        if at < self.armed {
            self.armed = at;
            // A timer of the loop may be early by its resolution.
            self.deeds.push(Deed::Arm(at.since(now) + Duration::from_millis(1)));
        }
    }

    pub(crate) fn tick(&mut self, py: Python<'_>, now: Time) {
        self.armed = Time::NEVER;
        self.pool.time(now);
        self.walk_pool(py, now);
        let mut next = self.pool.deadline();
        for number in self.links.keys().copied().collect::<Vec<_>>() {
            if let Some(link) = self.links.get_mut(&number) {
                link.connection.borrow_mut().time(now);
            }
            self.walk(py, now, number);
            self.write(py, now, number);
            let link = self.links.get(&number);
            next = next.min(link.map_or(Time::NEVER, |link| link.connection.borrow().deadline()));
        }
        self.arm(now, next);
    }

    // --- what the engine tells ---

    pub(crate) fn walk(&mut self, py: Python<'_>, now: Time, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let mut records = std::mem::take(&mut link.records);
        records.extend(link.connection.borrow_mut().drain());
        for record in records.drain(..) {
            self.tell_one(py, now, number, record);
        }
        if let Some(link) = self.links.get_mut(&number) {
            link.records = records;
            if link.pending == 0 && link.is_left {
                self.give_back(py, now, number);
            }
        }
    }

    fn tell_one(&mut self, py: Python<'_>, now: Time, number: u32, record: Record) {
        let Record { kind, token, a, b, block } = record;
        let Some(link) = self.links.get_mut(&number) else { return };
        match kind {
            kind::DATA => {
                if let Some(call) = link.call(token)
                    && link.keep(&call, a, block)
                {
                    self.deeds.push(Deed::Read(call));
                }
            }
            kind::END => {
                let Some(call) = link.take(token) else { return };
                if b & 0xff <= end::PROVISIONAL && !block.is_empty() {
                    link.keep(&call, a, block.clone());
                }
                let failure = Failure::of_end(b, &block, &link.why);
                self.ended(py, now, number, token, &call, failure);
            }
            kind::RESTARTED => {
                if let Some(call) = link.call(token) {
                    let rows = call.get().restart();
                    self.deeds.extend(rows.map(Deed::Drop));
                }
            }
            kind::EVENT if a == event::NOTICE => {
                self.tell("notice", number, Some(Said::Bytes(block)));
            }
            kind::EVENT if a == event::NOTIFICATION => {
                self.tell("notified", number, Some(Said::Bytes(block)));
            }
            kind::READY => self.tell("ready", number, Some(Said::Bytes(block))),
            kind::CLOSED => self.lost(py, now, number, a, &block),
            kind::CANCEL => self.tell("cancel", number, None),
            kind::ASTRAY => {
                self.pool.retire(now, number);
                self.walk_pool(py, now);
            }
            kind::FORGOTTEN => _ = link.columns.remove(&a),
            kind::READ => self.tell("read", number, Some(Said::Flag(a != 0))),
            _ => {}
        }
    }

    /// A request has ended; of a call with parts it may be one of several.
    fn ended(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        token: u32,
        call: &Py<Call>,
        failure: Option<Failure>,
    ) {
        match &call.get().want {
            Want::Parts(_) => {
                let is_last = call.get().now.with(|it| {
                    if it.failure.as_ref().is_none_or(|it| is_aborted(it)) && failure.is_some() {
                        it.failure = failure;
                    }
                    matches!(it.stage, Stage::Sent(_, last, _) if last == token)
                });
                if is_last.unwrap_or(true) {
                    self.finish(py, call, None);
                }
            }
            Want::Calls(parts) => self.pipeline_ended(py, call, parts, failure),
            Want::Act(act @ (Act::Commit | Act::Rollback)) => {
                self.transaction_ended(py, now, number, *act, call, failure);
            }
            _ => {
                let is_part = self.links.get_mut(&number).is_some_and(|it| it.parts.remove(&token));
                match is_part {
                    // Its caller hears of it with the others.
                    true => _ = call.get().now.with(|it| it.failure = failure),
                    false => self.finish(py, call, failure),
                }
            }
        }
    }

    /// A transaction is over, and its connection goes on without it.
    fn transaction_ended(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        act: Act,
        call: &Py<Call>,
        failure: Option<Failure>,
    ) {
        let runs_again = self.asks(now, number, Act::RunsAgain);
        let _ = call.get().now.with(|it| it.number = runs_again.into());
        self.asks(now, number, Act::Forget);
        if failure.is_some() && act == Act::Rollback {
            self.destroy(py, now, number, "a transaction could not be rolled back");
        }
        self.finish(py, call, failure);
    }

    /// All of a pipeline has taken effect, or none.
    fn pipeline_ended(
        &mut self,
        py: Python<'_>,
        call: &Py<Call>,
        parts: &[Py<Call>],
        failure: Option<Failure>,
    ) {
        let cause = parts.iter().find_map(|part| {
            let own = |it: &mut crate::call::Progress| {
                it.failure.as_ref().filter(|it| !is_aborted(it)).map(|it| match &failure {
                    Some(end) => it.again(py, end.outcome()),
                    None => it.again(py, it.outcome()),
                })
            };
            part.get().now.with(own).ok().flatten()
        });
        let cause = cause.or(failure);
        for part in parts {
            let has_failed = part.get().now.with(|it| it.failure.is_some()).unwrap_or(true);
            let undone =
                cause.as_ref().filter(|_| !has_failed).map(|cause| match cause.outcome() {
                    outcome::REJECTED => Failure::said(
                        "rolled_back",
                        outcome::REJECTED,
                        "it was rolled back with its pipeline",
                    ),
                    of => cause.again(py, of),
                });
            self.finish(py, part, undone);
        }
        self.finish(py, call, cause);
    }

    // --- what the pool wants ---

    pub(crate) fn walk_pool(&mut self, py: Python<'_>, now: Time) {
        loop {
            let records: Vec<Record> = self.pool.drain().collect();
            if records.is_empty() {
                break;
            }
            for Record { kind, token, a, .. } in records {
                match kind {
                    kind::POOL_OPEN => self.tell("open", a, None),
                    kind::POOL_PLACED => self.placed(py, now, token, a),
                    kind::POOL_GRANTED => self.granted(py, now, token, a),
                    kind::POOL_FAILED => self.not_served(py, token, a),
                    kind::POOL_RESET => {
                        if let Some(link) = self.links.get(&a) {
                            link.connection.borrow_mut().reset(now);
                            self.soil(a);
                        }
                    }
                    kind::POOL_CLOSE => self.leave(py, now, a),
                    kind::CLOSED => self.tell("closed", 0, None),
                    _ => {}
                }
            }
            self.pool.acted(now);
        }
        let at = self.pool.deadline();
        self.arm(now, at);
    }

    fn placed(&mut self, py: Python<'_>, now: Time, token: u32, number: u32) {
        let Some(call) = self.in_line.remove(&token) else { return };
        let call = call.into_bound(py);
        match self.links.contains_key(&number) {
            true => self.submit(py, now, number, &call),
            // Lost in the moment in which it was told.
            false => self.place(py, now, &call),
        }
    }

    fn granted(&mut self, py: Python<'_>, now: Time, token: u32, number: u32) {
        let Some(call) = self.in_line.remove(&token) else { return };
        let is_awaited = call.get().now.with(|it| matches!(it.stage, Stage::InLine(_)));
        match self.links.get_mut(&number) {
            Some(link) if is_awaited.unwrap_or(false) => {
                link.lend();
                let _ = call.get().now.with(|it| it.number = number);
                self.finish(py, &call, None);
            }
            Some(_) => self.pool.release(now, number, Condition::Clean),
            None => self.checkout(py, now, &call.into_bound(py)),
        }
    }

    fn not_served(&mut self, py: Python<'_>, token: u32, cause: u32) {
        let Some(call) = self.in_line.remove(&token) else { return };
        let last = self.last_error.as_ref();
        let last = last.map(|(error, text)| (error.clone_ref(py), text.clone()));
        let failure = match (cause, &last) {
            (pool_cause::CLOSED, _) => unsent("closed", "the client was closed"),
            (pool_cause::LINE_FULL, _) => {
                unsent("waiting_full", "too many callers wait for a connection")
            }
            (pool_cause::OPEN_FAILED, Some((error, _))) => {
                Failure::Raised(PyErr::from_value(error.bind(py).clone()))
            }
            _ => {
                let mut message = "no connection was free in time".to_owned();
                if let Some((_, text)) = &last {
                    message += "; the last attempt to open one failed: ";
                    message += text;
                }
                let (of, cause) = (outcome::NOT_SENT, last.map(|(error, _)| error));
                Failure::Said { code: "wait_timeout", outcome: of, message, cause }
            }
        };
        self.fail(py, &call.into_bound(py), failure);
    }

    /// The pool has forgotten a connection: it says goodbye.
    fn leave(&mut self, py: Python<'_>, now: Time, number: u32) {
        if let Some(link) = self.links.get_mut(&number) {
            link.is_forgotten = true;
            link.connection.borrow_mut().terminate(now);
            self.walk(py, now, number);
            self.write(py, now, number);
        }
        self.tell("leave", number, None);
    }

    // --- a connection of one's own ---

    /// Puts a call behind all that was submitted there.
    pub(crate) fn enqueue(&mut self, py: Python<'_>, number: u32, call: &Bound<'_, Call>) {
        match self.links.get_mut(&number) {
            Some(link) if !link.is_over => {
                link.line.push_back(call.clone().unbind());
                self.deeds.push(Deed::Advance(number));
            }
            _ => self.fail(py, call, unsent("connection_lost", "the connection was lost")),
        }
    }

    /// The first that waits there, unless the server is being asked about it.
    pub(crate) fn front(&self, py: Python<'_>, number: u32) -> Option<Py<Call>> {
        let link = self.links.get(&number).filter(|link| !link.is_asking)?;
        link.line.front().map(|call| call.clone_ref(py))
    }

    pub(crate) fn send_front(&mut self, py: Python<'_>, now: Time, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let Some(call) = link.line.pop_front().filter(|call| !call.get().is_over()) else { return };
        let call = call.into_bound(py);
        match call.get().want {
            Want::Act(act) => self.do_act(py, now, number, act, &call),
            _ => self.submit(py, now, number, &call),
        }
    }

    /// The first in line ends so.
    pub(crate) fn fail_front(&mut self, py: Python<'_>, number: u32, failure: Failure) {
        let front = self.links.get_mut(&number).and_then(|link| link.line.pop_front());
        if let Some(call) = front {
            self.fail(py, &call.into_bound(py), failure);
        }
    }

    /// A question of the client's own goes on this connection, in front of what waits there.
    pub(crate) fn send_own(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        call: &Bound<'_, Call>,
    ) {
        let _ = call.get().now.with(|it| it.number = number);
        if let Some(link) = self.links.get_mut(&number) {
            link.is_asking = true;
        }
        self.submit(py, now, number, call);
    }

    pub(crate) fn answered_own(&mut self, number: u32) {
        if let Some(link) = self.links.get_mut(&number) {
            link.is_asking = false;
            self.deeds.push(Deed::Advance(number));
        }
    }

    pub(crate) fn open_block(&mut self, number: u32, modes: Modes) {
        if let Some(link) = self.links.get_mut(&number) {
            link.connection.borrow_mut().open_block(modes);
        }
    }

    fn do_act(&mut self, py: Python<'_>, now: Time, number: u32, act: Act, call: &Bound<'_, Call>) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let ends = matches!(act, Act::Commit | Act::Rollback | Act::Release);
        let token = if ends { link.token(call) } else { 0 };
        let said = link.connection.borrow_mut().act(now, act, token);
        match said {
            Ok(_) if ends => {
                let stage = Stage::Sent(number, token, Ticket::Sent);
                let _ = call.get().now.with(|it| it.stage = stage);
            }
            Ok(_) => self.finish(py, call.as_unbound(), None),
            Err(refused) => {
                link.take(token);
                let failure = Failure::refused(refused, &link.why);
                match act {
                    Act::Commit | Act::Rollback => {
                        let call = call.as_unbound();
                        self.transaction_ended(py, now, number, act, call, Some(failure));
                    }
                    _ => self.fail(py, call, failure),
                }
            }
        }
        self.soil(number);
        self.walk(py, now, number);
    }

    pub(crate) fn asks(&mut self, now: Time, number: u32, act: Act) -> bool {
        let link = self.links.get_mut(&number);
        link.is_some_and(|link| {
            link.connection.borrow_mut().act(now, act, 0).is_ok_and(|it| it > 0)
        })
    }

    pub(crate) fn status(&self, number: u32) -> String {
        let link = self.links.get(&number);
        link.map_or(String::new(), |link| char::from(link.connection.borrow().status()).to_string())
    }

    pub(crate) fn release(&mut self, py: Python<'_>, now: Time, number: u32) {
        if let Some(link) = self.links.get_mut(&number) {
            link.is_left = true;
        }
        self.walk(py, now, number);
    }

    /// All that was sent on it is answered.
    fn give_back(&mut self, py: Python<'_>, now: Time, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if !link.line.is_empty() || link.is_asking {
            return;
        }
        let condition = if link.share() { Condition::DirtyHolding } else { Condition::Clean };
        if !link.is_over {
            self.pool.release(now, number, condition);
            self.walk_pool(py, now);
        }
    }

    // --- ends of connections ---

    pub(crate) fn opened(&mut self, py: Python<'_>, now: Time, number: u32) -> bool {
        let Some(link) = self.links.get_mut(&number).filter(|link| !link.is_over) else {
            return false;
        };
        link.is_ready = true;
        self.last_error = None;
        let connection = link.connection.clone();
        connection.borrow_mut().hold(Holder::All);
        self.pool.opened(now, number, connection);
        self.walk_pool(py, now);
        true
    }

    pub(crate) fn open_failed(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        error: (Py<PyAny>, String),
        permanent: bool,
    ) {
        self.last_error = Some(error);
        self.links.remove(&number);
        self.pool.open_failed(now, number, permanent);
        self.walk_pool(py, now);
    }

    pub(crate) fn destroy(&mut self, py: Python<'_>, now: Time, number: u32, message: &str) {
        if let Some(link) = self.links.get_mut(&number) {
            link.why = Loss::lost(message);
        }
        self.peer_closed(py, now, number, None);
        self.tell("leave", number, None);
    }

    /// The socket is closed.
    pub(crate) fn peer_closed(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        message: Option<&str>,
    ) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if let Some(message) = message.filter(|_| !link.is_over) {
            link.why = Loss::lost(message);
        }
        link.connection.borrow_mut().peer_closed();
        self.walk(py, now, number);
        self.gone(py, now, number);
        self.links.remove(&number);
    }

    /// The engine has ended a connection.
    fn lost(&mut self, py: Python<'_>, now: Time, number: u32, reason: u32, block: &Bytes) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let text = String::from_utf8_lossy(block);
        match reason {
            close::HOST => {}
            close::SERVER => link.why = Loss::lost(&server_text(block)),
            close::STALLED => link.why = Loss::lost("the server took no bytes for too long"),
            _ => link.why = Loss::lost(&text),
        }
        let is_login = !link.is_ready;
        if is_login {
            let message = (reason == close::SERVER).then(|| block.clone());
            let said = Said::Refusal(text.into_owned(), message);
            self.tell("refused", number, Some(said));
        } else if reason != close::HOST {
            self.gone(py, now, number);
            self.tell("leave", number, None);
        } else {
            self.tell("leave", number, None);
        }
    }

    /// A connection takes nothing more: the pool hears of it first, so that nothing that is sent again meets this one.
    fn gone(&mut self, py: Python<'_>, now: Time, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if std::mem::replace(&mut link.is_over, true) {
            return;
        }
        let (was_ready, why) = (link.is_ready, link.why.clone());
        let line: VecDeque<_> = std::mem::take(&mut link.line);
        if was_ready && !link.is_forgotten {
            self.pool.lost(now, number);
        }
        for call in line {
            let failure = unsent(why.code, why.message.clone());
            self.fail(py, &call.into_bound(py), failure);
        }
        self.walk_pool(py, now);
    }

    // --- cancels ---

    pub(crate) fn begin_cancel(&mut self, now: Time, number: u32) -> Option<Vec<u8>> {
        let link = self.links.get(&number)?;
        let message = link.connection.borrow_mut().begin_cancel(now).to_vec();
        Some(message).filter(|message| !message.is_empty())
    }

    pub(crate) fn cancel_ended(&mut self, py: Python<'_>, now: Time, number: u32, end: CancelEnd) {
        let Some(link) = self.links.get_mut(&number) else { return };
        link.connection.borrow_mut().cancel_ended(now, end);
        self.walk(py, now, number);
        self.write(py, now, number);
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("links", &self.links.len()).finish_non_exhaustive()
    }
}

fn is_aborted(failure: &Failure) -> bool {
    matches!(failure, Failure::Said { code: "aborted", .. })
}

/// What the policy knows a call by: what is known to be slow goes alone.
fn key_of(call: &Call) -> TextKey {
    let of = |call: &Call| call.statement.as_ref().map(|it| it.get().key);
    match &call.want {
        Want::Calls(calls) => calls.first().and_then(|first| of(first.get())).unwrap_or_default(),
        Want::Description(_) | Want::Types(..) => TextKey::UNTOLD,
        _ => of(call).unwrap_or_default(),
    }
}

fn server_text(block: &[u8]) -> String {
    let body = (Messages { rest: block }).next().map(|(_, body)| body);
    let error = body.and_then(|body| onetrip_postgres::message::ErrorResponse::decode(body).ok());
    error.map_or_else(String::new, |error| {
        onetrip_postgres::message::ServerError::from(error).to_string()
    })
}

/// What a statement is to the engine.
pub(crate) fn submission<'a>(
    flags: u32,
    text: &'a str,
    (id, oids): (u32, &'a [u32]),
    parameters: &'a [u8],
    formats: &'a [onetrip_postgres::message::Format],
) -> Submission<'a> {
    let flags = if formats.is_empty() { flags } else { flags & !flag::BINARY };
    Submission { flags, text, name: "", types: Typed { id, oids }, parameters, formats }
}
