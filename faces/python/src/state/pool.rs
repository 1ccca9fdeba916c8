//! What the policy of the pool wants, and who gets a connection.

use onetrip_client::completion::{Record, kind, outcome, pool_cause};
use onetrip_engine::Time;
use onetrip_engine::pool::Condition;
use pyo3::prelude::*;

use super::State;
use crate::call::{Stage, Want, unsent};
use crate::failure::{Cause, Failure};

impl State {
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
                    kind::POOL_SCOUT => self.tell("scout", 0, None),
                    kind::CLOSED => self.tell("closed", 0, None),
                    _ => {}
                }
            }
            self.pool.acted(now);
        }
        let at = self.pool.deadline();
        self.arm(now, at);
    }

    pub(super) fn placed(&mut self, py: Python<'_>, now: Time, token: u32, number: u32) {
        let Some(call) = self.in_line.remove(&token) else { return };
        let call = call.into_bound(py);
        match self.links.get(&number).is_some_and(|link| !link.is_over) {
            _ if call.get().is_over() => {}
            // What waits again is walked by whoever told of this.
            true => _ = self.submit(py, now, number, &call),
            // Lost in the moment in which it was told.
            false => self.place(py, now, &call),
        }
    }

    pub(super) fn granted(&mut self, py: Python<'_>, now: Time, token: u32, number: u32) {
        let Some(call) = self.in_line.remove(&token) else { return };
        let is_awaited = call.get().now.with(|it| matches!(it.stage, Stage::InLine(_)));
        let is_awaited = is_awaited.unwrap_or(false);
        match self.links.get_mut(&number).filter(|link| !link.is_over) {
            Some(link) if is_awaited => {
                link.lend();
                if matches!(call.get().want, Want::Redis(_)) {
                    // It goes back when it has answered that.
                    link.is_left = true;
                    self.submit(py, now, number, &call.into_bound(py));
                    return;
                }
                let _ = call.get().now.with(|it| it.number = number);
                self.finish(py, &call, None);
            }
            Some(_) => self.pool.release(now, number, Condition::Clean),
            None if is_awaited => self.checkout(py, now, &call.into_bound(py)),
            None => {}
        }
    }

    pub(super) fn not_served(&mut self, py: Python<'_>, token: u32, cause: u32) {
        let Some(call) = self.in_line.remove(&token) else { return };
        let last = self.last_error.as_ref();
        let last = last.map(|(error, text)| (error.clone_ref(py), text.clone()));
        let (code, mut message) = self.pool.unserved(cause);
        let failure = match (cause, last) {
            (pool_cause::OPEN_FAILED, Some((error, _))) => {
                Failure::Raised(PyErr::from_value(error.into_bound(py)))
            }
            (pool_cause::CLOSED, _) => self.closed(),
            (pool_cause::LINE_FULL, _) | (_, None) => unsent(code, message),
            (_, Some((error, text))) => {
                message += "; the last attempt to open one failed: ";
                message += &text;
                let (outcome, cause) = (outcome::NOT_SENT, Cause::Raised(error));
                Failure::Said { code, outcome, message, cause }
            }
        };
        self.fail(py, &call.into_bound(py), failure);
    }

    /// The pool has forgotten a connection: it says goodbye.
    pub(crate) fn leave(&mut self, py: Python<'_>, now: Time, number: u32) {
        if let Some(link) = self.links.get_mut(&number) {
            link.is_forgotten = true;
            link.connection.borrow_mut().terminate(now);
            self.walk(py, now, number);
            self.write(py, now, number);
        }
        self.tell("leave", number, None);
    }
}
