//! Callers that wait for a connection: sessions, and statements that find none to go on.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use onetrip_engine::pool::Ticket;
use onetrip_engine::{Time, Token};

use super::placing::{QueueEntry, Work};
use super::{Pool, State};
use crate::core::Connection;
use crate::{Error, trace};

/// Who waits, by token.
#[derive(Debug, Default)]
pub(super) struct Callers {
    next: u64,
    list: HashMap<Token, Caller>,
}

#[derive(Debug)]
enum Caller {
    /// For a connection of its own.
    Session(Session),
    /// To have its statement placed; whether it has a deadline of its own.
    Statement(Work, Arc<QueueEntry>, bool),
}

#[derive(Debug)]
enum Session {
    Waiting(Option<Waker>),
    Ended(Result<Arc<Connection>, Error>),
}

impl Callers {
    fn add(&mut self, caller: Caller) -> Token {
        self.next += 1;
        let token = Token(self.next);
        self.list.insert(token, caller);
        token
    }

    pub(super) fn add_statement(
        &mut self,
        work: Work,
        queue_entry: Arc<QueueEntry>,
        is_timed: bool,
    ) -> Token {
        self.add(Caller::Statement(work, queue_entry, is_timed))
    }

    /// Whether one waits until a deadline of its own, rather than for what the pool allows.
    pub(super) fn is_timed(&self, token: Token) -> bool {
        matches!(self.list.get(&token), Some(Caller::Statement(_, _, true)))
    }

    /// Gives a session its connection. Returns whom to wake; or the connection, if its caller has
    /// gone away.
    pub(super) fn grant(
        &mut self,
        token: Token,
        connection: Arc<Connection>,
    ) -> Result<Option<Waker>, Arc<Connection>> {
        match self.list.get_mut(&token) {
            Some(Caller::Session(session)) => Ok(session.end(Ok(connection))),
            _ => Err(connection),
        }
    }

    /// Puts a statement on the connection where it was placed.
    pub(super) fn place(&mut self, token: Token, connection: &Arc<Connection>) -> Vec<Waker> {
        match self.list.remove(&token) {
            Some(Caller::Statement(work, queue_entry, _)) => queue_entry.run(work, connection),
            _ => Vec::new(),
        }
    }

    pub(super) fn fail(&mut self, token: Token, error: Error) -> Vec<Waker> {
        if let Some(Caller::Session(session)) = self.list.get_mut(&token) {
            return session.end(Err(error)).into_iter().collect();
        }
        match self.list.remove(&token) {
            Some(Caller::Statement(work, queue_entry, _)) => queue_entry.give_back(work, error),
            _ => Vec::new(),
        }
    }

    pub(super) fn remove(&mut self, token: Token) {
        self.list.remove(&token);
    }
}

impl Session {
    fn end(&mut self, result: Result<Arc<Connection>, Error>) -> Option<Waker> {
        match std::mem::replace(self, Session::Ended(result)) {
            Session::Waiting(waker) => waker,
            Session::Ended(_) => None,
        }
    }
}

impl Pool {
    /// Checks a connection out, until the deadline or, where there is none, within `wait_timeout`.
    /// Cancel safe: dropped on the way, it leaves no hole in the line.
    pub(crate) async fn checkout(
        self: &Arc<Self>,
        deadline: Time,
    ) -> Result<Arc<Connection>, Error> {
        while let Some(connection) = self.exchange.take() {
            if !connection.lock().engine.is_closed() {
                return Ok(connection);
            }
        }
        let (token, ticket) = self.with(|state, now| {
            let token = state.callers.add(Caller::Session(Session::Waiting(None)));
            let deadline = (deadline != Time::NEVER).then_some(deadline);
            (token, state.policy.checkout(now, token, deadline))
        });
        let waiting = Checkout { pool: self.clone(), token, ticket };
        if self.exchange.is_missed() {
            // Sessions that ended just now did not see it wait.
            self.hand_over_parked();
        }
        let since = self.now();
        let mut waiting = std::pin::pin!(waiting);
        let at_once = std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await;
        if let Poll::Ready(result) = at_once {
            return result;
        }
        trace::waits();
        let result = waiting.await;
        self.waited(since);
        result
    }

    /// A caller has waited for a connection, and got it or not.
    pub(super) fn waited(&self, since: Time) {
        let time = self.now().since(since);
        self.context.totals.waited(time);
        trace::waited(time);
    }
}

/// A caller that waits for a connection of its own.
struct Checkout {
    pool: Arc<Pool>,
    token: Token,
    ticket: Ticket,
}

impl Future for Checkout {
    type Output = Result<Arc<Connection>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.pool.lock();
        let list = &mut state.callers.list;
        match list.get_mut(&self.token) {
            Some(Caller::Session(Session::Waiting(waker))) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => match list.remove(&self.token) {
                Some(Caller::Session(Session::Ended(result))) => Poll::Ready(result),
                _ => panic!("a checkout was polled again after it had ended"),
            },
        }
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        self.pool.clone().with(|state: &mut State, now| {
            let left = state.callers.list.remove(&self.token);
            match left {
                Some(Caller::Session(Session::Waiting(_))) => {
                    state.policy.give_up(self.ticket);
                }
                // It was granted in this very moment.
                Some(Caller::Session(Session::Ended(Ok(connection)))) => {
                    let condition = connection.lock().condition();
                    state.policy.release(now, connection.pool_slot.id, condition);
                }
                _ => {}
            }
        });
    }
}
