//! The state of a client: the pool, its connections, who waits for what. All of it is marshalled,
//! and nothing is decided.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use onetrip_abi::completion::outcome;
use onetrip_abi::{Connection, Pool};
use onetrip_engine::Time;
use onetrip_engine::pool::TextKey;
use pyo3::prelude::*;

use crate::call::{Call, Stage, Want, unsent};
use crate::deed::{Deed, Said};
use crate::failure::Failure;
use crate::link::Link;
use crate::types::Types;

mod ends;
mod own;
mod pool;
mod records;

/// The state of a client.
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
    /// So many calls in a row were awaited before anything else was submitted.
    alone: u32,
    /// The last call was written at once, and is not awaited yet.
    is_early: bool,
    /// Questions for what texts are, which are not answered.
    pub(crate) asked: usize,
    /// Bytes of one result that are kept.
    result_bytes_max: usize,
}

impl State {
    pub(crate) fn new(settings: &[u8], seed: u64, result_bytes_max: usize) -> State {
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
            alone: 0,
            is_early: false,
            asked: 0,
            result_bytes_max: if result_bytes_max == 0 { usize::MAX } else { result_bytes_max },
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
            Want::Parts(..) | Want::Calls(_) => link.submit_parts(py, now, number, call),
            _ => link.submit(py, now, number, call),
        };
        if let Some(failure) = failure {
            self.fail(py, call, failure);
        }
        self.walk(py, now, number);
        self.leave_soon(py, now, number);
    }

    /// Something was submitted. It is written with all else of this turn; or at once where calls were
    /// awaited one by one so far, which spares the event loop a round for each.
    pub(super) fn leave_soon(&mut self, py: Python<'_>, now: Time, number: u32) {
        if std::mem::take(&mut self.is_early) {
            // What was written at once was not awaited at once.
            self.alone = 0;
        }
        let is_only = self.links.get(&number).is_some_and(|it| it.pending == 1 && !it.is_dirty);
        self.is_early = is_only && self.woken == 0 && self.alone >= ALONE_MIN;
        match self.is_early {
            true => self.write(py, now, number),
            false => self.soil(number),
        }
    }

    /// Somebody waits. Whether it is time to write: no task that was woken has yet to go on, which may
    /// have more to send.
    pub(crate) fn waits(&mut self) -> bool {
        self.is_early = false;
        let [number] = self.dirty[..] else {
            self.alone = if self.dirty.is_empty() { self.alone } else { 0 };
            return self.woken == 0 && !self.dirty.is_empty();
        };
        let is_only = self.links.get(&number).is_some_and(|link| link.pending == 1);
        self.alone = if is_only { self.alone.saturating_add(1) } else { 0 };
        self.woken == 0
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
                // A connection that was granted, and whose caller was cancelled before he went on.
                let number = call.get().now.with(|it| std::mem::take(&mut it.number));
                if let (Want::Checkout, Ok(number @ 1..), Stage::Over) =
                    (&call.get().want, number, stage)
                {
                    self.release(py, now, number);
                }
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

    /// Takes nothing new. What waits until its text is described was taken.
    pub(crate) fn close(&mut self, py: Python<'_>, now: Time) {
        self.is_closing = true;
        if self.asked == 0 {
            self.pool.close(now);
            self.walk_pool(py, now);
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
}

/// From so many calls on that were awaited one by one, such a call is written at once.
const ALONE_MIN: u32 = 8;

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("links", &self.links.len()).finish_non_exhaustive()
    }
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
