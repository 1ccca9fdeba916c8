//! Repeatable statements: their caller says that they may run twice.

use std::time::Duration;

use crate::params::Params;
use crate::reply::{FromReply, Reply};
use crate::{Client, Row, Rows, ToStatement};

/// A client's repeatable statements: their caller says that running them twice does no harm. Made
/// by [`Client::repeatable`].
///
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let sql = "select price from item where id = $1";
/// let row = client.repeatable().query_one(sql, &[&7]).await?;
/// # Ok(()) }
/// ```
///
/// Two things follow.
///
/// **A statement is sent again if its connection is lost**, on another one, up to three times.
/// Before each repeat it pauses, counted from the loss: 20 ms, 160 ms, 1.28 s, or down to half of
/// that. All repeats stay within its `request_timeout`; if it has none, it waits for connections
/// for `wait_timeout` in all. Nothing else is repeated: an error of the statement's own is reported
/// as it comes, and so is the end of a connection that was given up for what somebody had sent on
/// it. If the statement fails in the end and was sent before, its outcome is `Unknown` whatever the
/// last error was, since an earlier attempt may have run. A dropped [`Reply`] sends nothing again.
///
/// **Neighbouring reads share a sync point**, which costs the server less: up to 64 of those that
/// are written together, and none waits for others to come. A read here is a single SELECT, VALUES,
/// TABLE or WITH that shows no INTO, no row locks and no writing WITH; any other statement keeps a
/// sync point of its own. If one read fails, the others are run again, each by itself, so a caller
/// sees no error but its own. Two effects can be noticed:
///
/// - The reads that share a sync point are one transaction to the server: each sees what was
///   committed when it began (READ COMMITTED), `now()` is the same for all, and locks are held
///   until the last has ended. A function that changes its transaction (`set_config(…, true)`,
///   `pg_advisory_xact_lock`) does so for those behind it, too.
/// - A reply is complete when the last of them has been answered: a fast read may wait for a slow
///   one.
///
/// With [`hedged`](Repeatable::hedged), a read is also sent a second time when its answer is late.
///
/// There is no `repeatable` on a [`Session`](crate::Session), a transaction or a pipeline: a
/// statement there depends on its connection, and on the order of the statements on it.
#[derive(Clone, Copy, Debug)]
pub struct Repeatable<'a> {
    client: &'a Client,
    timeout: Option<Duration>,
    hedged: bool,
}

impl<'a> Repeatable<'a> {
    pub(crate) fn new(client: &'a Client) -> Repeatable<'a> {
        Repeatable { client, timeout: None, hedged: false }
    }

    /// The same with another deadline for each statement, in place of the client's
    /// [`request_timeout`](crate::config::Settings::request_timeout). It covers all attempts and
    /// the pauses between them. A late statement that shares a sync point is cancelled at the
    /// server once nobody waits for any of those that share it.
    pub fn timeout(&self, timeout: Duration) -> Repeatable<'a> {
        Repeatable { timeout: Some(timeout), ..*self }
    }

    /// The same, but each read is sent a second time if its answer is late: if the statement at the
    /// head of its connection has been running for longer than `slow_head`, and another open
    /// connection has nothing slow on it. The first answer wins; the other is read and dropped.
    ///
    /// Whether an answer is late is checked while the [`Reply`] is awaited. At most one in 20 of
    /// these statements is sent twice, and at most once more. A statement is not hedged if it is no
    /// read, if its text is itself slow, or if its text was never seen.
    /// [`Counts::hedged`](crate::Counts) counts them.
    pub fn hedged(&self) -> Repeatable<'a> {
        Repeatable { hedged: true, ..*self }
    }

    fn run<T: FromReply>(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<T> {
        let executor = self.client.executor();
        match self.timeout {
            Some(timeout) => {
                executor.within(timeout).run_repeatable(self.hedged, statement, params)
            }
            None => executor.run_repeatable(self.hedged, statement, params),
        }
    }

    /// Runs a statement and returns its rows.
    pub fn query(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Rows> {
        self.run(statement, params)
    }

    /// Runs a statement that returns exactly one row. No row, or several, is an error (`Applied`).
    pub fn query_one(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Row> {
        self.run(statement, params)
    }

    /// Runs a statement that returns at most one row. Several are an error (`Applied`).
    pub fn query_opt(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Option<Row>> {
        self.run(statement, params)
    }

    /// Runs a statement and returns how many rows it inserted, updated, deleted or returned, in its
    /// last run.
    pub fn execute(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<u64> {
        self.run(statement, params)
    }
}
