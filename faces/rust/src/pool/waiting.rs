//! Callers that wait for a connection: sessions, and statements that find no connection with room.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use onetrip_engine::Token;

use super::queue::{QueueEntry, Work};
use crate::Error;
use crate::core::Connection;

/// The callers that wait, by token.
#[derive(Debug, Default)]
pub(super) struct Callers {
    next: u64,
    pub(super) list: HashMap<Token, Caller>,
}

#[derive(Debug)]
pub(super) enum Caller {
    /// Waits for a connection of its own.
    Session(Session),
    /// Waits to have its statement placed.
    Statement(Statement),
}

/// A statement in line.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) work: Work,
    pub(super) queue_entry: Arc<QueueEntry>,
    /// Whether it has a deadline of its own; without one it waits for the pool's `wait_timeout`.
    pub(super) is_timed: bool,
}

#[derive(Debug)]
pub(super) enum Session {
    Waiting(Option<Waker>),
    Ended(Result<Arc<Connection>, Error>),
}

impl Callers {
    pub(super) fn add(&mut self, caller: Caller) -> Token {
        self.next += 1;
        let token = Token(self.next);
        self.list.insert(token, caller);
        token
    }

    /// Whether a caller waits until a deadline of its own, and not for the pool's `wait_timeout`.
    pub(super) fn is_timed(&self, token: Token) -> bool {
        matches!(self.list.get(&token), Some(Caller::Statement(it)) if it.is_timed)
    }

    /// Gives a session its connection. Returns whom to wake; or the connection, if the caller has
    /// given up.
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

    /// Runs a statement's work on the connection where it was placed, if that is still there. Returns
    /// whom to wake, and the statement if the connection takes nothing any more.
    pub(super) fn place(
        &mut self,
        token: Token,
        connection: Option<&Arc<Connection>>,
    ) -> (Vec<Waker>, Option<Statement>) {
        let Some(Caller::Statement(statement)) = self.list.remove(&token) else {
            return (Vec::new(), None);
        };
        let Some(connection) = connection else { return (Vec::new(), Some(statement)) };
        let Statement { work, queue_entry, is_timed } = statement;
        let (wakers, left) = queue_entry.run(work, connection);
        (wakers, left.map(|work| Statement { work, queue_entry, is_timed }))
    }

    pub(super) fn fail(&mut self, token: Token, error: Error) -> Vec<Waker> {
        if let Some(Caller::Session(session)) = self.list.get_mut(&token) {
            return session.end(Err(error)).into_iter().collect();
        }
        match self.list.remove(&token) {
            Some(Caller::Statement(it)) => it.queue_entry.give_back(it.work, error),
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
