//! Pipelines whose replies are read after the pipeline has finished.

use super::drive::Runtime;
use crate::params::Params;
use crate::{Error, FromReply, PipelineStatus, Row, Rows, ToStatement};

/// Statements that share one trip; otherwise like [`onetrip::Pipeline`](crate::Pipeline). Adding a
/// statement never blocks.
#[derive(Debug)]
pub struct Pipeline {
    inner: crate::Pipeline,
    runtime: Runtime,
}

/// The reply to a statement of a pipeline. Dropping it disturbs nobody.
#[must_use = "a reply does nothing by itself: wait for it, or drop it where the result doesn't matter"]
#[derive(Debug)]
pub struct Reply<T> {
    inner: crate::Reply<T>,
    runtime: Runtime,
}

impl Pipeline {
    pub(super) fn new(inner: crate::Pipeline, runtime: Runtime) -> Pipeline {
        Pipeline { inner, runtime }
    }

    /// Adds a statement. The reply has its rows.
    pub fn query(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Rows> {
        let reply = self.inner.query(statement, params);
        self.reply(reply)
    }

    /// Adds a statement that returns exactly one row. The reply has that row.
    pub fn query_one(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Row> {
        let reply = self.inner.query_one(statement, params);
        self.reply(reply)
    }

    /// Adds a statement that returns at most one row. The reply has the row, if there is one.
    pub fn query_opt(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Option<Row>> {
        let reply = self.inner.query_opt(statement, params);
        self.reply(reply)
    }

    /// Adds a statement. The reply has the number of rows that it inserted, updated, deleted or
    /// returned.
    pub fn execute(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<u64> {
        let reply = self.inner.execute(statement, params);
        self.reply(reply)
    }

    /// Adds a sync point: the statements before it are a transaction of their own.
    pub fn sync(&mut self) -> Reply<()> {
        let reply = self.inner.sync();
        self.reply(reply)
    }

    fn reply<T>(&self, inner: crate::Reply<T>) -> Reply<T> {
        Reply { inner, runtime: self.runtime.clone() }
    }

    /// Asks the server for the replies so far, without a sync point.
    pub fn flush(&mut self) {
        self.inner.flush();
    }

    /// Blocks until another statement would leave without waiting in memory.
    ///
    /// # Errors
    /// As [`onetrip::Pipeline::ready`](crate::Pipeline::ready).
    pub fn ready(&mut self) -> Result<(), Error> {
        let inner = &mut self.inner;
        self.runtime.wait(move || inner.ready())
    }

    /// The status of the pipeline, as far as replies have told.
    pub fn status(&self) -> PipelineStatus {
        self.inner.status()
    }

    /// Sends the remaining statements with a sync point, and returns when that was answered.
    ///
    /// # Errors
    /// As [`onetrip::Pipeline::finish`](crate::Pipeline::finish).
    pub fn finish(self) -> Result<(), Error> {
        let Pipeline { inner, runtime } = self;
        runtime.wait(|| inner.finish())
    }
}

impl<T: FromReply> Reply<T> {
    /// Blocks until the reply has come; once the pipeline has finished, returns at once.
    ///
    /// # Errors
    /// The error of the statement.
    pub fn wait(self) -> Result<T, Error> {
        let Reply { inner, runtime } = self;
        runtime.wait(|| inner)
    }
}
