//! What the policy of the pool wants, and who gets a connection.

use std::rc::Rc;

use onetrip_client::completion::{Record, kind, pool_cause};
use onetrip_engine::Time;
use onetrip_engine::pool::Condition;

use super::{State, Todo, Waiting};
use crate::failure::Failure;
use crate::session::Session;

impl State {
    pub(super) fn walk_pool(&mut self, now: Time) {
        loop {
            let records: Vec<Record> = self.pool.drain().collect();
            if records.is_empty() {
                return;
            }
            for Record { kind, token, a, .. } in records {
                match kind {
                    kind::POOL_OPEN => self.open(now, a),
                    kind::POOL_PLACED => self.placed(now, token, a),
                    kind::POOL_GRANTED => self.granted(now, token, a),
                    kind::POOL_FAILED => self.not_served(token, a),
                    kind::POOL_RESET => {
                        if let Some(link) = self.links.get(&a) {
                            link.connection.borrow_mut().reset(now);
                            self.does(Todo::Walk(a));
                            self.soil(a);
                        }
                    }
                    kind::POOL_CLOSE => self.leave(now, a),
                    kind::POOL_SCOUT => self.scout(now),
                    kind::CLOSED => self.is_closed = true,
                    _ => {}
                }
            }
            self.pool.acted(now);
        }
    }

    fn placed(&mut self, now: Time, token: u32, number: u32) {
        let Some(Waiting::Call(call)) = self.in_line.remove(&token) else { return };
        if !call.is_over() {
            self.submit(now, number, &call);
        }
    }

    fn granted(&mut self, now: Time, token: u32, number: u32) {
        let Some(Waiting::Session(session)) = self.in_line.remove(&token) else {
            // Its caller has gone.
            self.pool.release(now, number, Condition::Clean);
            return self.does(Todo::Pool);
        };
        match self.links.get_mut(&number).filter(|link| !link.is_over) {
            Some(link) => {
                link.lend(&session);
                session.number.set(number);
                self.does(Todo::Advance(session));
            }
            None => self.checkout(now, &session),
        }
    }

    /// Asks for a connection of one caller's own.
    pub(crate) fn checkout(&mut self, now: Time, session: &Rc<Session>) {
        let token = self.token();
        session.token.set(token);
        self.in_line.insert(token, Waiting::Session(session.clone()));
        self.pool.checkout(now, token, None);
        self.does(Todo::Pool);
    }

    fn not_served(&mut self, token: u32, cause: u32) {
        let Some(waiting) = self.in_line.remove(&token) else { return };
        let (code, mut message) = self.pool.unserved(cause);
        let failure = match (cause, &self.last_error) {
            (pool_cause::OPEN_FAILED, Some(error)) => error.clone(),
            (pool_cause::CLOSED | pool_cause::LINE_FULL, _) | (_, None) => {
                Failure::unsent(code, message)
            }
            (_, Some(error)) => {
                message += "; the last attempt to open one failed: ";
                message += &error.message;
                Failure::unsent(code, message)
            }
        };
        match waiting {
            Waiting::Call(call) => self.fail(&call, failure),
            Waiting::Session(session) => self.end_session(&session, &failure),
        }
    }

    /// Nothing goes to a session any more, for this reason.
    pub(super) fn end_session(&mut self, session: &Session, failure: &Failure) {
        session.over.borrow_mut().get_or_insert_with(|| failure.clone());
        let line = std::mem::take(&mut *session.line.borrow_mut());
        for call in line {
            self.fail(&call, session.over_for(&call.want, failure.clone()));
        }
    }

    /// The pool has forgotten a connection: it says goodbye.
    pub(crate) fn leave(&mut self, now: Time, number: u32) {
        if let Some(opening) = self.openings.get_mut(&number) {
            opening.give_up();
            return self.go_on(now, number);
        }
        if let Some(link) = self.links.get_mut(&number) {
            (link.is_forgotten, link.is_leaving) = (true, true);
            link.connection.borrow_mut().terminate(now);
            self.does(Todo::Walk(number));
            self.soil(number);
        }
    }
}
