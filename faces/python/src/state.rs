//! The state of a client: the pool, its connections, who waits for what. All of it is marshalled,
//! and nothing is decided.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use onetrip_client::completion::outcome;
use onetrip_client::postgres::Part;
use onetrip_client::{Connection, Pool};
use onetrip_engine::pool::TextKey;
use onetrip_engine::{Ticket, Time};
use onetrip_postgres::client::stream::Rest;
use pyo3::prelude::*;

use crate::call::{Call, Progress, Stage, Want, closed, unsent};
use crate::deed::{Deed, Said};
use crate::failure::{Failure, Loss};
use crate::link::Link;
use crate::redis;
use crate::replicas::Replicas;
use crate::statement::Generation;
use crate::types::Types;

mod ends;
mod own;
mod pool;
mod records;

/// The state of a client.
pub(crate) struct State {
    pub(crate) pool: Pool<Rc<RefCell<Connection>>>,
    pub(crate) links: BTreeMap<u32, Link>,
    /// Who waits in the pool, by token.
    in_line: BTreeMap<u32, Py<Call>>,
    /// Connections that have ended, and whose callers have a transaction: they are asked whether
    /// something of that was sent.
    cut_off: BTreeMap<u32, Rc<RefCell<Connection>>>,
    tokens: u32,
    /// Connections with bytes to send.
    pub(crate) dirty: Vec<u32>,
    /// So many calls of `turn_ends` are due.
    scheduled: usize,
    /// Somebody was told to go on since that was asked last.
    has_woken: bool,
    seed: u64,
    /// When the next call of `tick` is due.
    armed: Time,
    pub(crate) deeds: Vec<Deed>,
    /// Somebody does them already.
    pub(crate) is_acting: bool,
    pub(crate) types: Types,
    pub(crate) generation: Generation,
    /// Those of descriptions; 1 is the client's own question.
    pub(crate) ids: u32,
    /// What became of the connections that were lost last, for who still has one.
    losses: VecDeque<(u32, Loss)>,
    /// Why a connection could not be opened last.
    last_error: Option<(Py<PyAny>, String)>,
    pub(crate) is_closing: bool,
    /// Why, where that was not its caller's wish.
    why_closed: Option<Loss>,
    /// So many calls in a row were awaited before anything else was submitted.
    alone: u32,
    /// The last call was written at once, and is not awaited yet.
    is_early: bool,
    /// What is sent again, since its connection was lost, and when.
    pausing: Vec<(Time, Py<Call>)>,
    /// Questions for what texts are, which are not answered.
    pub(crate) asked: usize,
    /// Bytes of one result that are kept.
    pub(crate) result_bytes_max: usize,
    pub(crate) counts: Counts,
    /// The replies that a client of Redis keeps, if any are.
    pub(crate) cache: Option<Py<redis::RedisCache>>,
    /// The replicas beside the primary; which of them its connections lead to, if to one.
    pub(crate) replicas: Option<(Py<Replicas>, Option<usize>)>,
    /// Calls that were answered by it since bytes were received.
    pub(crate) hits: u32,
}

/// What was counted since the client was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) opened: u64,
    pub(crate) open_failed: u64,
    pub(crate) lost: u64,
    pub(crate) statements: u64,
    pub(crate) failed: u64,
    pub(crate) sent_again: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// Connections from this number on are none of the pool's.
pub(crate) const APART: u32 = 1 << 31;

impl State {
    pub(crate) fn new(now: Time, settings: &[u8], seed: u64, result_bytes_max: usize) -> State {
        State {
            pool: Pool::new(now, settings, seed),
            links: BTreeMap::new(),
            in_line: BTreeMap::new(),
            cut_off: BTreeMap::new(),
            tokens: 0,
            dirty: Vec::new(),
            scheduled: 0,
            has_woken: false,
            seed,
            armed: Time::NEVER,
            deeds: Vec::new(),
            is_acting: false,
            types: Types::default(),
            generation: Generation::default(),
            ids: 1,
            losses: VecDeque::new(),
            last_error: None,
            is_closing: false,
            why_closed: None,
            alone: 0,
            is_early: false,
            pausing: Vec::new(),
            asked: 0,
            result_bytes_max: if result_bytes_max == 0 { usize::MAX } else { result_bytes_max },
            counts: Counts::default(),
            cache: None,
            replicas: None,
            hits: 0,
        }
    }

    pub(crate) fn tell(&mut self, name: &'static str, number: u32, said: Option<Said>) {
        self.deeds.push(Deed::Tell(name, number, said));
    }

    // --- shared calls ---

    /// Puts a call on a connection that others use as well, at once or when its turn comes.
    pub(crate) fn place(&mut self, py: Python<'_>, now: Time, call: &Bound<'_, Call>) {
        if matches!(call.get().want, Want::Attributes) {
            return self.finish(py, call.as_unbound(), None);
        }
        let key = key_of(call.get());
        let number = self.pool.place(now, key);
        if number != 0 {
            self.walk_pool(py, now);
            if self.submit(py, now, number, call) {
                return;
            }
        } else {
            self.wait_shared(now, call);
        }
        self.walk_pool(py, now);
    }

    /// Keeps its place in the line of the pool. Whoever calls this walks the pool then.
    fn wait_shared(&mut self, now: Time, call: &Bound<'_, Call>) {
        let token = self.token();
        self.in_line.insert(token, call.clone().unbind());
        let _ = call.get().now.with(|it| it.stage = Stage::InLine(token));
        let call = call.get();
        self.pool.wait_shared(now, token, key_of(call), deadline_of(call));
    }

    /// The same, if a connection takes it at once. Whether one did.
    pub(crate) fn place_now(&mut self, py: Python<'_>, now: Time, call: &Bound<'_, Call>) -> bool {
        let number = self.pool.place(now, key_of(call.get()));
        self.walk_pool(py, now);
        if number != 0 && !self.submit(py, now, number, call) {
            self.walk_pool(py, now);
        }
        number != 0
    }

    pub(crate) fn replicas_of<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Replicas>> {
        self.replicas.as_ref().map(|(replicas, _)| replicas.bind(py).clone())
    }

    /// A read goes nowhere else: it was answered, or nobody waits for it.
    fn settle_read(&self, call: &Call) {
        let reading = call.now.with(|it| it.reading.take()).ok().flatten();
        if let (Some(reading), Some((replicas, _))) = (reading, &self.replicas) {
            replicas.get().forget(reading);
        }
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
            return self.fail(py, call, self.closed());
        }
        let token = self.token();
        self.in_line.insert(token, call.clone().unbind());
        let _ = call.get().now.with(|it| it.stage = Stage::InLine(token));
        self.pool.checkout(now, token, deadline_of(call.get()));
        self.walk_pool(py, now);
    }

    /// Hands a call to the engine. False if it waits in the pool, which is to be walked then.
    fn submit(&mut self, py: Python<'_>, now: Time, number: u32, call: &Bound<'_, Call>) -> bool {
        let Some(link) = self.links.get_mut(&number) else {
            self.fail(py, call, self.lost_before(number));
            return true;
        };
        self.counts.statements += 1;
        let failure = match &call.get().want {
            Want::Parts(..) | Want::Calls(_) => link.submit_parts(py, now, number, call),
            _ => link.submit(py, now, number, call),
        };
        match failure {
            // Others were placed there at the same time, and have filled its queue.
            Some(failure) if failure.is_of_room() && !link.is_lent => {
                self.counts.statements -= 1;
                self.wait_shared(now, call);
                return false;
            }
            Some(failure) => self.fail(py, call, failure),
            // It takes data from now on.
            None if matches!(call.get().want, Want::CopyIn(_)) => self.wake(call.as_unbound()),
            None => {}
        }
        self.walk(py, now, number);
        self.leave_soon(py, now, number);
        true
    }

    /// Something was submitted. It is written with all else of this turn; or at once where calls
    /// were awaited one by one so far, which spares the event loop a round for each.
    pub(super) fn leave_soon(&mut self, py: Python<'_>, now: Time, number: u32) {
        if std::mem::take(&mut self.is_early) {
            // What was written at once was not awaited at once.
            self.alone = 0;
        }
        let is_only = self.links.get(&number).is_some_and(|it| it.pending == 1 && !it.is_dirty);
        self.is_early = is_only && self.scheduled == 0 && self.alone >= ALONE_MIN;
        match self.is_early {
            true => self.write(py, now, number),
            false => self.soil(number),
        }
    }

    /// Somebody waits. Whether calls are awaited one by one is counted.
    pub(crate) fn waits(&mut self) {
        self.is_early = false;
        let is_only = match self.dirty[..] {
            [] => return,
            [number] => self.links.get(&number).is_some_and(|link| link.pending == 1),
            _ => false,
        };
        self.alone = if is_only { self.alone.saturating_add(1) } else { 0 };
    }

    /// A connection has bytes to send, perhaps.
    pub(super) fn soil(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if !std::mem::replace(&mut link.is_dirty, true) {
            self.dirty.push(number);
        }
        if self.scheduled == 0 {
            self.schedule();
        }
    }

    fn schedule(&mut self) {
        self.scheduled += 1;
        self.deeds.push(Deed::Schedule);
    }

    /// Writes what those have submitted that ran in front of this. Where more were told to go on
    /// meanwhile, it is called again behind them.
    pub(crate) fn turn_ends(&mut self, py: Python<'_>, now: Time) {
        self.scheduled -= 1;
        if self.scheduled == 0 {
            self.flush(py, now);
        }
    }

    /// Nobody waits for it any more.
    pub(crate) fn give_up(&mut self, py: Python<'_>, now: Time, call: &Bound<'_, Call>) {
        let Ok(stage) = call.get().now.with(|it| it.stage) else { return };
        self.settle_read(call.get());
        let cancelled = || unsent("cancelled", "it was given up by its caller");
        match stage {
            Stage::Over | Stage::Taken => {
                let number = call.get().now.with(|it| {
                    it.stage = Stage::Taken;
                    if it.failure.is_none() { it.number } else { 0 }
                });
                // A connection that was granted while its caller was cancelled.
                if let (Want::Checkout, Stage::Over, Ok(1..)) = (&call.get().want, stage, number) {
                    self.release(py, now, number.unwrap_or_default());
                }
            }
            // What a transaction does is done, whoever waits for it.
            Stage::Made if matches!(call.get().want, Want::Act(_)) => {}
            Stage::Made => {
                self.fail(py, call, cancelled());
                self.stop_asking(py, now, call);
            }
            Stage::Routed(token) => self.tell("given_up", token, None),
            Stage::InLine(token) => {
                // Otherwise it is granted a connection, which goes back at once: `granted`.
                if self.pool.give_up(now, token) {
                    self.in_line.remove(&token);
                }
                self.fail(py, call, cancelled());
                self.walk_pool(py, now);
            }
            // Nothing can stop it but the end of its connection, and it may block for long.
            Stage::Sent(number, ..) if is_alone(call.get()) => {
                self.destroy(py, now, number, "its caller gave it up");
            }
            Stage::Answered => {
                const WHY: &str = "it was given up by its caller";
                self.fail(py, call, Failure::said("cancelled", outcome::APPLIED, WHY));
                // What nobody else waits for is asked no more.
                if let Ok(Some(question)) = call.get().now.with(|it| it.question.take()) {
                    self.give_up(py, now, question.bind(py));
                }
            }
            // Others have a part in it.
            Stage::Sent(..) if is_list(call.get()) => {}
            Stage::Sent(number, token, ticket) => {
                let Some(link) = self.links.get_mut(&number) else { return };
                link.give_up(now, token, ticket, call.clone().unbind());
                self.soil(number);
                self.walk(py, now, number);
                // What was not written is gone, and with it perhaps what a connection was to be
                // closed behind.
                self.pool.answered(now, number);
                self.walk_pool(py, now);
            }
        }
    }

    /// Ends a call that is not with the engine.
    pub(crate) fn fail(&mut self, py: Python<'_>, call: &Bound<'_, Call>, failure: Failure) {
        let parts = match &call.get().want {
            Want::Calls(calls) => calls.as_slice(),
            Want::Redis(request) => request.parts.as_slice(),
            _ => &[],
        };
        for part in parts {
            let failure = failure.again(py, failure.outcome());
            self.finish(py, part, Some(failure));
        }
        self.finish(py, call.as_unbound(), Some(failure));
    }

    /// A call has ended: whoever waits hears of it.
    pub(crate) fn finish(&mut self, py: Python<'_>, call: &Py<Call>, failure: Option<Failure>) {
        let it = call.get();
        if let Some(failure) = failure {
            // What was not encoded was sent nowhere.
            let may_move = |it: &mut Progress| it.reading.is_some() && !it.requests.is_empty();
            if !it.is_over() && it.now.with(may_move).unwrap_or(false) {
                let _ = it.now.with(|it| it.stage = Stage::Made);
                return self.deeds.push(Deed::Move(call.clone_ref(py), Some(failure)));
            }
            self.settle_read(it);
            return self.end(py, call, Some(failure));
        }
        self.settle_read(it);
        self.end(py, call, None);
    }

    fn end(&mut self, py: Python<'_>, call: &Py<Call>, failure: Option<Failure>) {
        let it = call.get();
        if let Want::Redis(request) = &it.want
            && !it.is_over()
        {
            redis::tell(self, py, (call, request), failure.is_none());
        }
        let failure = match &it.want {
            Want::Redis(request) => failure.map(|failure| redis::told(py, request, failure)),
            _ => failure,
        };
        let Ok((future, is_awaited)) = it.now.with(|it| {
            if matches!(it.stage, Stage::Over | Stage::Taken) {
                return (None, it.is_awaited);
            }
            // Its arguments go with its result: to free them may run code of Python's.
            (it.stage, it.requests) = (Stage::Over, Vec::new());
            self.counts.failed += u64::from(failure.is_some());
            if let Some(failure) = failure {
                it.failure = Some(failure.after(it.may_have_run));
            }
            (it.future.take(), it.is_awaited)
        }) else {
            return;
        };
        // Were it freed here, it would warn here, which is code of Python's.
        if !is_awaited {
            self.deeds.push(Deed::Drop(call.clone_ref(py).into_any()));
        }
        if it.is_own() {
            self.deeds.push(Deed::Step(call.clone_ref(py)));
        } else if let Some(future) = future {
            self.has_woken = true;
            self.deeds.push(Deed::Wake(future));
        }
    }

    /// Its connection was lost, and it is sent again after this time.
    pub(crate) fn pause(
        &mut self,
        py: Python<'_>,
        (now, pause): (Time, Duration),
        call: &Py<Call>,
    ) {
        self.drop_rows(call);
        let _ = call.get().now.with(|it| it.stage = Stage::Made);
        let at = now.after(pause);
        self.pausing.push((at, call.clone_ref(py)));
        self.arm(now, at);
    }

    /// Another call has asked for the same; behind this time it is sent, which fails as it is late.
    pub(crate) fn wait(&mut self, now: Time, until: Option<Time>, call: &Bound<'_, Call>) {
        if let Some(at) = until {
            self.pausing.push((at, call.clone().unbind()));
            self.arm(now, at);
        }
    }

    /// A reply begins anew.
    fn drop_rows(&mut self, call: &Py<Call>) {
        let rows = call.get().restart();
        self.deeds.extend(rows.map(|rows| Deed::Drop(rows.into_any())));
    }

    /// Sends again what has paused, and says when the next pause is over.
    fn resume(&mut self, py: Python<'_>, now: Time) -> Time {
        let (due, later) =
            std::mem::take(&mut self.pausing).into_iter().partition(|(at, _)| *at <= now);
        self.pausing = later;
        let due: Vec<_> = due;
        let is_read = |call: &Py<Call>| call.get().now.with(|it| it.reading.is_some());
        for (_, call) in due.into_iter().filter(|(_, call)| call.get().is_made()) {
            if is_read(&call).unwrap_or(false) {
                self.deeds.push(Deed::Move(call, None));
                continue;
            }
            self.counts.sent_again += 1;
            match call.get().want {
                Want::Redis(_) if is_alone(call.get()) => self.checkout(py, now, call.bind(py)),
                Want::Redis(_) => self.place(py, now, call.bind(py)),
                _ => self.deeds.push(Deed::Begin(call)),
            }
        }
        self.pausing.iter().map(|(at, _)| *at).min().unwrap_or(Time::NEVER)
    }

    /// A part of a reply has come, or a COPY takes more: whoever waits for that goes on.
    pub(super) fn wake(&mut self, call: &Py<Call>) {
        let future = call.get().now.with(|it| {
            it.is_told = true;
            it.future.take()
        });
        if let Ok(Some(future)) = future {
            self.has_woken = true;
            self.deeds.push(Deed::Wake(future));
        }
    }

    /// The reader of a reply has taken so many bytes of it.
    pub(crate) fn taken(&mut self, py: Python<'_>, now: Time, number: u32, bytes: usize) {
        if let Some(link) = self.links.get_mut(&number) {
            link.connection.borrow_mut().taken_of_stream(bytes);
        }
        self.walk(py, now, number);
    }

    /// Hands over data of a COPY. Whether it was taken; otherwise `wake` says when it may be.
    pub(crate) fn feed(
        &mut self,
        py: Python<'_>,
        now: Time,
        (number, token): (u32, u32),
        part: Part<'_>,
    ) -> bool {
        let Some(link) = self.links.get_mut(&number) else { return false };
        let fed = link.connection.borrow_mut().feed(now, token, part);
        if fed.is_err() {
            // It must not be stored with a part missing.
            let part = Part::Failed("a part of its data could not be sent");
            let _ = link.connection.borrow_mut().feed(now, token, part);
        }
        self.walk(py, now, number);
        // Data of a COPY is written as it is made: there is much of it.
        self.write(py, now, number);
        fed.unwrap_or(false)
    }

    /// Nobody takes more of a reply.
    pub(crate) fn abandon(
        &mut self,
        py: Python<'_>,
        now: Time,
        (number, token, ticket): (u32, u32, Ticket),
        rest: Rest,
        stops: bool,
    ) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let mut connection = link.connection.borrow_mut();
        if !connection.cancel(now, ticket) {
            connection.leave(now, token, rest);
            if stops {
                connection.want_cancel(now, &[token]);
            }
        }
        drop(connection);
        self.walk(py, now, number);
        self.write(py, now, number);
    }

    /// The failure of what comes behind its end.
    fn closed(&self) -> Failure {
        let of_loss = |why: &Loss| why.failure(outcome::NOT_SENT);
        self.why_closed.as_ref().map_or_else(closed, of_loss)
    }

    /// It was closed for this reason.
    pub(crate) fn close_for(&mut self, py: Python<'_>, now: Time, why: &str) {
        self.why_closed = Some(Loss::lost(why));
        self.close(py, now);
    }

    /// Takes nothing new. What waits until its text is described was taken.
    pub(crate) fn close(&mut self, py: Python<'_>, now: Time) {
        self.is_closing = true;
        self.cache.iter().for_each(|cache| cache.get().close());
        for (_, call) in std::mem::take(&mut self.pausing) {
            self.fail(py, call.bind(py), self.closed());
        }
        self.end_blocking(py, now);
        if self.asked == 0 {
            self.pool.close(now);
            self.walk_pool(py, now);
        }
    }

    /// Ends commands that wait for what may never come.
    fn end_blocking(&mut self, py: Python<'_>, now: Time) {
        let blocks = |call: &Py<Call>| {
            matches!(&call.get().want, Want::Redis(request) if request.blocks)
                && !call.get().is_over()
        };
        let in_line = self.in_line.iter().filter(|(_, call)| blocks(call));
        let in_line: Vec<_> = in_line.map(|(token, call)| (*token, call.clone_ref(py))).collect();
        for (token, call) in in_line {
            // Otherwise it is granted a connection, which goes back at once: `granted`.
            if self.pool.give_up(now, token) {
                self.in_line.remove(&token);
            }
            self.fail(py, call.bind(py), self.closed());
        }
        let sent = self.links.iter().filter(|(_, link)| link.has(blocks));
        for number in sent.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.destroy(py, now, number, "the client was closed");
        }
    }

    /// A text is described, and whoever waited for that goes on; or it can't be.
    pub(crate) fn told(&mut self, py: Python<'_>, now: Time) {
        self.asked -= 1;
        if self.is_closing {
            self.close(py, now);
        }
    }

    // --- bytes ---

    pub(crate) fn received(&mut self, py: Python<'_>, now: Time, number: u32, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(&number) else { return };
        link.connection.borrow_mut().receive(now, bytes);
        self.counts.received += bytes.len() as u64;
        self.hits = 0;
        self.walk(py, now, number);
        self.pool.answered(now, number);
        self.walk_pool(py, now);
        // What had waited for room goes on.
        self.write(py, now, number);
        // Behind those that go on now, in the same turn: they may have more to send.
        if std::mem::take(&mut self.has_woken) && self.alone < ALONE_MIN {
            self.schedule();
        }
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
        if link.stop_those(now) {
            self.walk(py, now, number);
        }
        let Some(link) = self.links.get_mut(&number) else { return };
        if let Some((deed, bytes)) = link.write(py, now, number) {
            self.counts.sent += bytes as u64;
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

    /// It could not be seen to.
    pub(crate) fn disarm(&mut self) {
        self.armed = Time::NEVER;
    }

    pub(crate) fn tick(&mut self, py: Python<'_>, now: Time) {
        self.armed = Time::NEVER;
        self.pool.time(now);
        self.walk_pool(py, now);
        let mut next = self.resume(py, now).min(self.pool.deadline());
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
}

/// From so many calls on that were awaited one by one, such a call is written at once.
const ALONE_MIN: u32 = 8;

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("links", &self.links.len()).finish_non_exhaustive()
    }
}

/// Whether it is a command of Redis with a connection to itself.
fn is_alone(call: &Call) -> bool {
    matches!(&call.want, Want::Redis(request) if request.is_own)
}

/// When it fails where it waits for a connection.
fn deadline_of(call: &Call) -> Option<Time> {
    match &call.want {
        Want::Redis(request) => request.deadline,
        _ => call.now.with(|it| it.requeue.as_ref().map(|it| it.until())).ok().flatten(),
    }
}

fn is_list(call: &Call) -> bool {
    matches!(&call.want, Want::Redis(request) if request.packed.is_list())
}

/// What the policy knows a call by: what is known to be slow goes alone.
pub(crate) fn key_of(call: &Call) -> TextKey {
    let of = |call: &Call| call.statement.as_ref().map(|it| it.get().key);
    match &call.want {
        Want::Calls(calls) => {
            let first = calls.first().and_then(|first| of(first.get()));
            first.unwrap_or_default().staying(true)
        }
        Want::Parts(..) => of(call).unwrap_or_default().staying(true),
        Want::Description(_) | Want::Types(..) | Want::TypesOf(..) => TextKey::UNTOLD,
        _ => of(call).unwrap_or_default(),
    }
}
