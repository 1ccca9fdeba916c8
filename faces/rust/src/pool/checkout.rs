//! Checks connections out, for one caller each.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use onetrip_engine::pool::Ticket;
use onetrip_engine::{Time, Token};

use super::waiting::{Caller, Session};
use super::{Pool, State};
use crate::core::Connection;
use crate::{Error, trace};

impl Pool {
    /// Checks a connection out, until the deadline or, if there is none, within `wait_timeout`.
    /// Cancel safe: if it is dropped, the line goes on without it.
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

    /// Counts the time that a caller waited for a connection, whether or not it got one.
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
                // It was granted just now.
                Some(Caller::Session(Session::Ended(Ok(connection)))) => {
                    let condition = connection.lock().condition();
                    state.policy.release(now, connection.pool_slot.id, condition);
                }
                _ => {}
            }
        });
    }
}
