//! Sessions and transactions whose calls block.

use onetrip_postgres::message::TransactionStatus;

use super::blocking_methods;
use super::drive::Runtime;
use crate::params::Params;
use crate::simple::SimpleResult;
use crate::{Error, FromReply, Notifications, ToStatement, TransactionOptions};

/// A connection of one's own; otherwise like [`onetrip::Session`](crate::Session). Dropping it
/// gives the connection back to the pool.
#[derive(Debug)]
pub struct Session {
    inner: crate::Session,
    runtime: Runtime,
}

impl Session {
    pub(super) fn new(inner: crate::Session, runtime: Runtime) -> Session {
        Session { inner, runtime }
    }

    /// Begins a transaction. No trip: BEGIN leaves with the first statement.
    ///
    /// # Errors
    /// The call was made inside asynchronous code (`blocking_in_async`).
    pub fn begin(&mut self) -> Result<Transaction<'_>, Error> {
        let (inner, runtime) = (&mut self.inner, self.runtime.clone());
        let inner = runtime.wait(move || inner.begin())?;
        Ok(Transaction::new(inner, runtime))
    }

    /// As [`begin`](Session::begin), with an isolation level, read only or deferrable.
    ///
    /// # Errors
    /// The call was made inside asynchronous code (`blocking_in_async`).
    pub fn begin_with(&mut self, options: TransactionOptions) -> Result<Transaction<'_>, Error> {
        let (inner, runtime) = (&mut self.inner, self.runtime.clone());
        let inner = runtime.wait(move || inner.begin_with(options))?;
        Ok(Transaction::new(inner, runtime))
    }

    /// Runs a text of one or more statements, without parameters. Values come as text.
    ///
    /// # Errors
    /// As [`onetrip::Session::script`](crate::Session::script).
    pub fn script(&self, sql: &str) -> Result<Vec<SimpleResult>, Error> {
        self.runtime.wait(|| self.inner.script(sql))
    }

    /// Runs a future of the asynchronous session; see [`Client::wait`](super::Client::wait).
    ///
    /// # Errors
    /// The error of the future.
    pub fn wait<'a, T, F: Future<Output = Result<T, Error>>>(
        &'a mut self,
        make: impl FnOnce(&'a mut crate::Session) -> F,
    ) -> Result<T, Error> {
        let inner = &mut self.inner;
        self.runtime.wait(move || make(inner))
    }

    blocking_methods!();

    /// The notifications that reach this session; [`wait`](Self::wait) runs their futures.
    pub fn notifications(&self) -> Notifications {
        self.inner.notifications()
    }

    /// The transaction status that the server reported last.
    pub fn status(&self) -> TransactionStatus {
        self.inner.status()
    }

    /// The value of a setting that the server reports; `None` if it does not report this one.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.inner.parameter(name)
    }

    /// Whether the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}

/// A transaction on a session; otherwise like [`onetrip::Transaction`](crate::Transaction).
/// Dropping it rolls it back: ROLLBACK leaves at once, and nobody waits for it.
#[derive(Debug)]
pub struct Transaction<'a> {
    inner: crate::Transaction<'a>,
    runtime: Runtime,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(inner: crate::Transaction<'a>, runtime: Runtime) -> Transaction<'a> {
        Transaction { inner, runtime }
    }

    /// Commits: one trip, or none if nothing was sent.
    ///
    /// # Errors
    /// As [`onetrip::Transaction::commit`](crate::Transaction::commit).
    pub fn commit(self) -> Result<(), Error> {
        let Transaction { inner, runtime } = self;
        runtime.wait(|| inner.commit())
    }

    /// Runs the last statement and commits, in one trip. The result of the statement is read as
    /// `T`.
    ///
    /// # Errors
    /// As [`onetrip::Transaction::commit_with`](crate::Transaction::commit_with).
    pub fn commit_with<T: FromReply>(
        self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Result<T, Error> {
        let Transaction { inner, runtime } = self;
        runtime.wait(|| inner.commit_with(statement, params))
    }

    /// Rolls back: one trip, or none if nothing was sent.
    ///
    /// # Errors
    /// As [`onetrip::Transaction::rollback`](crate::Transaction::rollback).
    pub fn rollback(self) -> Result<(), Error> {
        let Transaction { inner, runtime } = self;
        runtime.wait(|| inner.rollback())
    }

    /// Runs a future of the asynchronous transaction; see [`Client::wait`](super::Client::wait).
    ///
    /// # Errors
    /// The error of the future.
    pub fn wait<'b, T, F: Future<Output = Result<T, Error>>>(
        &'b mut self,
        make: impl FnOnce(&'b mut crate::Transaction<'a>) -> F,
    ) -> Result<T, Error> {
        let inner = &mut self.inner;
        self.runtime.wait(move || make(inner))
    }

    blocking_methods!();
}
