//! Connections that one caller has alone: the order of its calls, and its transaction.

use std::rc::Rc;

use onetrip_client::flag;
use onetrip_client::postgres::{Act, Part};
use onetrip_engine::pool::Condition;
use onetrip_engine::{Ticket, Time};
use onetrip_postgres::client::stream::Rest;

use super::{State, Todo};
use crate::call::{Call, Request, Stage, Want};
use crate::failure::Failure;
use crate::session::Session;

impl State {
    /// Puts a call behind all that was submitted there.
    pub(crate) fn enqueue(&mut self, now: Time, session: &Rc<Session>, call: &Rc<Call>) {
        self.time_out(call);
        let over = session.over.borrow().clone();
        match over {
            Some(failure) => self.fail(call, session.over_for(&call.want, failure)),
            None => {
                session.line.borrow_mut().push_back(call.clone());
                self.does(Todo::Advance(session.clone()));
            }
        }
        self.settle(now);
    }

    /// Sends what waits on a session, in its order.
    pub(super) fn advance(&mut self, now: Time, session: &Rc<Session>) {
        let number = session.number.get();
        while number != 0 && !session.is_asking.get() {
            let front = session.line.borrow_mut().pop_front();
            let Some(call) = front else { return self.left(now, session) };
            if call.is_over() {
                continue;
            }
            let Some(link) = self.links.get_mut(&number).filter(|link| !link.is_over) else {
                return self.fail(&call, Failure::unsent("connection_lost", LOST));
            };
            // The server does not skip these where BEGIN has failed.
            let is_firm = matches!(call.want, Want::CopyIn) || call.flags & flag::SIMPLE != 0;
            let known = |link: &crate::link::Link| {
                link.connection.borrow_mut().act(now, Act::IsKnown, 0) != Ok(0)
            };
            // What it does depends on what became of the statements behind the savepoint.
            if matches!(call.want, Want::Act(Act::Release)) && link.pending > 0 {
                session.line.borrow_mut().push_front(call);
                return;
            }
            if is_firm && !known(link) {
                session.line.borrow_mut().push_front(call);
                session.is_asking.set(true);
                return self.ask(now, number);
            }
            match &call.want {
                Want::Begin(modes) => {
                    link.connection.borrow_mut().open_block(*modes);
                    self.finish(&call, None);
                }
                Want::Act(act) => self.do_act(now, number, *act, &call),
                _ => self.submit(now, number, &call),
            }
        }
    }

    /// Asks whether the transaction has begun.
    fn ask(&mut self, now: Time, number: u32) {
        let statement = self.statement("select 1");
        let types = Default::default();
        let request = Request { statement, types, first: Vec::new(), more: Vec::new() };
        let call = Call::new(Want::Probe, 0, Time::NEVER, vec![request], 1);
        self.submit(now, number, &call);
    }

    fn do_act(&mut self, now: Time, number: u32, act: Act, call: &Rc<Call>) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let ends = matches!(act, Act::Commit | Act::Rollback | Act::Release);
        let token = if ends { link.token(call, 0) } else { 0 };
        let mut connection = link.connection.borrow_mut();
        let has_left = ends && connection.act(now, Act::HasLeft, 0).is_ok_and(|it| it > 0);
        let said = connection.act(now, act, token);
        drop(connection);
        match said {
            Ok(_) if ends => call.now().stage = Stage::Sent(number, token, Ticket::Sent),
            Ok(_) => self.finish(call, None),
            Err(refused) => {
                link.take(token);
                let failure = Failure::refused(refused, &link.why);
                match act {
                    Act::Commit | Act::Rollback => {
                        self.transaction_ended(now, number, act, call, Some(failure));
                    }
                    Act::Release => self.fail(call, failure.of_whole(has_left)),
                    _ => self.fail(call, failure),
                }
            }
        }
        self.does(Todo::Walk(number));
        self.soil(number);
    }

    /// A savepoint was released, or it has failed.
    pub(super) fn released(
        &mut self,
        now: Time,
        number: u32,
        call: &Rc<Call>,
        why: Option<Failure>,
    ) {
        let has_left = self.asks(now, number, Act::HasLeft);
        self.answered(now, call, why.map(|failure| failure.of_whole(has_left)));
    }

    /// What the connection says of its transaction.
    pub(super) fn asks(&mut self, now: Time, number: u32, act: Act) -> bool {
        let link = self.links.get(&number);
        link.is_some_and(|it| it.connection.borrow_mut().act(now, act, 0).is_ok_and(|it| it > 0))
    }

    /// A transaction is over, and its connection goes on without it.
    pub(super) fn transaction_ended(
        &mut self,
        now: Time,
        number: u32,
        act: Act,
        call: &Rc<Call>,
        failure: Option<Failure>,
    ) {
        let runs_again = self.asks(now, number, Act::RunsAgain);
        let has_left = self.asks(now, number, Act::HasLeft);
        self.asks(now, number, Act::Forget);
        if let Some(session) = self.links.get(&number).and_then(|link| link.session.as_ref()) {
            session.runs_again.set(runs_again);
        }
        if failure.is_some() && act == Act::Rollback {
            self.destroy(now, number, "a transaction could not be rolled back");
        }
        let failure = failure.map(|failure| match act {
            Act::Commit => Failure { runs_again, ..failure.of_whole(has_left) },
            _ => Failure { runs_again, ..failure },
        });
        self.finish(call, failure);
    }

    /// Nobody takes more of a stream, or gives more to a COPY.
    pub(crate) fn abandon(&mut self, now: Time, session: &Session, call: &Rc<Call>) {
        let stage = call.look().stage;
        match (stage, &call.want) {
            (Stage::Over, _) => {}
            (Stage::Sent(number, token, ticket), want) => {
                if let Some(link) = self.links.get(&number) {
                    let mut connection = link.connection.borrow_mut();
                    // A cancel would fail the transaction.
                    let is_open = connection.act(now, Act::IsKnown, 0).is_ok();
                    let rest = if is_open { Rest::Read } else { Rest::Cancel };
                    if matches!(want, Want::CopyIn) {
                        let _ = connection.feed(now, token, Part::Failed("it was left"));
                    } else if !connection.cancel(now, ticket) {
                        connection.leave(now, token, rest);
                    }
                }
                self.does(Todo::Walk(number));
                self.soil(number);
            }
            _ => self.give_up(now, call),
        }
        // What goes there now goes behind its rest.
        session.claimed.take();
        self.settle(now);
    }

    /// The caller has gone.
    pub(crate) fn release(&mut self, now: Time, session: &Rc<Session>) {
        let claimed = session.claimed.borrow().clone();
        if let Some(call) = claimed {
            self.abandon(now, session, &call);
        }
        if session.in_transaction.replace(false) {
            let call = Call::new(Want::Act(Act::Rollback), 0, Time::NEVER, Vec::new(), 1);
            self.enqueue(now, session, &call);
        }
        session.is_left.set(true);
        if session.number.get() == 0 && self.in_line.remove(&session.token.get()).is_some() {
            // Otherwise it is granted a connection, which goes back at once.
            self.pool.give_up(now, session.token.get());
            self.end_session(session, &Failure::unsent("cancelled", "its session was closed"));
            self.does(Todo::Pool);
        }
        self.does(Todo::Advance(session.clone()));
        self.settle(now);
    }

    /// Gives a connection back if its caller has gone, and all that was sent on it is answered.
    pub(super) fn left(&mut self, now: Time, session: &Rc<Session>) {
        let number = session.number.get();
        let Some(link) = self.links.get_mut(&number) else { return };
        let is_busy = link.pending > 0 || session.is_asking.get();
        if !session.is_left.get() || is_busy || !session.line.borrow().is_empty() {
            return;
        }
        session.number.set(0);
        session.over.replace(Some(Failure::unsent("over", "the session was closed")));
        if link.is_over {
            link.session = None;
            return;
        }
        let condition = if link.share() { Condition::DirtyHolding } else { Condition::Clean };
        self.pool.release(now, number, condition);
        self.does(Todo::Pool);
    }
}

const LOST: &str = "the connection was lost";
