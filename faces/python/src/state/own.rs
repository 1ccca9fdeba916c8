//! Connections that one caller has alone: the order of its calls, and its transaction.

use onetrip_client::completion::outcome;
use onetrip_client::postgres::Act;
use onetrip_engine::pool::Condition;
use onetrip_engine::{Ticket, Time};
use onetrip_postgres::client::transaction::modes::Modes;
use onetrip_postgres::sql::Refusal;
use pyo3::prelude::*;

use super::State;
use crate::call::{Call, Stage, Want};
use crate::deed::Deed;
use crate::failure::Failure;
use crate::link::Link;

impl State {
    /// Puts a call behind all that was submitted there.
    pub(crate) fn enqueue(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        call: &Bound<'_, Call>,
    ) {
        match self.links.get_mut(&number) {
            Some(link) if !link.is_over => {
                link.line.push_back(call.clone().unbind());
                self.deeds.push(Deed::Advance(number));
            }
            _ => self.fail_behind(py, now, number, call, self.lost_before(number)),
        }
    }

    /// A call that was refused takes its place in the line: it is left out of what is the innermost
    /// level once those before it were sent.
    pub(crate) fn enqueue_refused(&mut self, number: u32, call: &Bound<'_, Call>) {
        if let Some(link) = self.links.get_mut(&number).filter(|link| !link.is_over) {
            link.line.push_back(call.clone().unbind());
            self.deeds.push(Deed::Advance(number));
        }
    }

    /// A call ends so that came when its connection had ended, or waited there. An act still says
    /// which savepoints are open.
    pub(super) fn fail_behind(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        call: &Bound<'_, Call>,
        failure: Failure,
    ) {
        if let Want::Act(act) = call.get().want {
            // A savepoint is asked while it is the innermost, and the transaction once it is.
            let ends_all = matches!(act, Act::Commit | Act::Rollback);
            if !ends_all {
                self.note_whole(number, call);
            }
            self.asks(now, number, act);
            if ends_all {
                self.note_whole(number, call);
            }
        }
        self.fail(py, call, failure);
    }

    /// What ends a transaction or a savepoint says whether something of that was sent.
    fn note_whole(&mut self, number: u32, call: &Bound<'_, Call>) {
        let has_left = self.asks(Time::NEVER, number, Act::HasLeft);
        let _ = call.get().now.with(|it| it.whole.has_left = has_left);
    }

    /// A stream or a COPY has a connection of one caller's, or has it no more.
    pub(crate) fn claim(&mut self, number: u32, claimed: Option<Refusal>) {
        if let Some(link) = self.links.get_mut(&number) {
            link.claimed = claimed;
        }
    }

    pub(crate) fn claimed(&self, number: u32) -> Option<Refusal> {
        self.links.get(&number).and_then(|link| link.claimed)
    }

    /// The first that waits there, unless the server is being asked about it.
    pub(crate) fn front(&self, py: Python<'_>, number: u32) -> Option<Py<Call>> {
        let link = self.links.get(&number).filter(|link| !link.is_asking)?;
        link.line.front().map(|call| call.clone_ref(py))
    }

    pub(crate) fn send_front(&mut self, py: Python<'_>, now: Time, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let Some(call) = link.line.pop_front() else { return };
        if call.get().is_over() {
            // Its caller gave it up, or it was refused, and nothing of it was sent.
            let _ = link.connection.borrow_mut().act(now, Act::LeaveOut, 0);
            return;
        }
        let call = call.into_bound(py);
        match call.get().want {
            Want::Act(act) => self.do_act(py, now, number, act, &call),
            Want::Attributes => self.finish(py, call.as_unbound(), None),
            _ => _ = self.submit(py, now, number, &call),
        }
    }

    /// The first in line ends so. One that was not sent, or that its caller gave up, stays:
    /// `send_front` leaves it out.
    pub(crate) fn fail_front(&mut self, py: Python<'_>, number: u32, failure: Failure) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let Some(call) = link.line.front().filter(|call| !call.get().is_over()) else { return };
        let call = call.clone_ref(py).into_bound(py);
        let held = call.get().now.with(|it| it.held.take()).ok().flatten();
        let failure = held.map_or(failure, |it| *it);
        if failure.outcome() != outcome::NOT_SENT {
            link.line.pop_front();
        }
        self.fail(py, &call, failure);
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

    /// The caller has gone of whose text the server is being asked, on the caller's connection.
    pub(crate) fn stop_asking(&mut self, py: Python<'_>, now: Time, call: &Bound<'_, Call>) {
        let is_asked =
            |link: &Link| link.is_asking && link.line.front().is_some_and(|front| front.is(call));
        let found = self.links.iter_mut().find(|(_, link)| is_asked(link));
        let Some((&number, link)) = found else { return };
        if let Some((Stage::Sent(_, token, ticket), question)) = link.question(py)
            // Otherwise it is about the reply to another call, which waits for it.
            && !matches!(question.get().want, Want::TypesOf(..))
        {
            link.give_up(now, token, ticket, question);
            self.soil(number);
            self.walk(py, now, number);
        }
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
        self.note_whole(number, call);
        let Some(link) = self.links.get_mut(&number) else { return };
        link.stop_those(now);
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
        self.walk(py, now, number);
        self.leave_soon(py, now, number);
    }

    pub(crate) fn asks(&mut self, now: Time, number: u32, act: Act) -> bool {
        let link = self.links.get(&number).map(|link| &link.connection);
        let connection = link.or_else(|| self.cut_off.get(&number));
        connection.is_some_and(|it| it.borrow_mut().act(now, act, 0).is_ok_and(|it| it > 0))
    }

    /// A connection has ended, and its last records were told.
    pub(crate) fn forget_link(&mut self, number: u32) {
        let Some(link) = self.links.remove(&number) else { return };
        let has_transaction = {
            let mut connection = link.connection.borrow_mut();
            connection.act(Time::NEVER, Act::IsKnown, 0).is_ok()
                || connection.act(Time::NEVER, Act::HasLeft, 0).is_ok_and(|it| it > 0)
        };
        if has_transaction && !link.is_left {
            self.cut_off.insert(number, link.connection);
        }
    }

    pub(crate) fn status(&self, number: u32) -> String {
        let link = self.links.get(&number);
        link.map_or(String::new(), |link| char::from(link.connection.borrow().status()).to_string())
    }

    /// Nobody has its connection after its caller.
    pub(crate) fn spoil(&mut self, number: u32) {
        if let Some(link) = self.links.get_mut(&number) {
            link.is_spoiled = true;
        }
    }

    /// MULTI was sent on it by hand, so scripts go as texts from now on.
    pub(crate) fn send_scripts_as_texts(&mut self, number: u32) {
        if let Some(link) = self.links.get(&number) {
            link.connection.borrow_mut().send_scripts_as_texts();
        }
    }

    pub(crate) fn release(&mut self, py: Python<'_>, now: Time, number: u32) {
        if let Some(link) = self.links.get_mut(&number) {
            link.is_left = true;
        }
        self.cut_off.remove(&number);
        self.walk(py, now, number);
    }

    /// Gives it back if its caller has gone, and all that was sent on it is answered.
    pub(crate) fn left(&mut self, py: Python<'_>, now: Time, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if !link.is_left || link.pending > 0 || !link.line.is_empty() || link.is_asking {
            return;
        }
        link.is_left = false;
        if link.is_spoiled && !link.is_over {
            self.pool.release(now, number, Condition::Broken);
            self.leave(py, now, number);
            return self.walk_pool(py, now);
        }
        let condition = if link.share() { Condition::DirtyHolding } else { Condition::Clean };
        if !link.is_over {
            self.pool.release(now, number, condition);
            self.walk_pool(py, now);
        }
    }
}
