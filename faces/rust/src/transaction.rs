//! Transactions whose BEGIN costs no trip.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::core::Connection;
use crate::executor::{Executor, plain_statement};
use crate::lead::{Lead, Part};
use crate::methods::statement_methods;
use crate::params::Params;
use crate::reply::{FromReply, Reply, command_tag};
use crate::rows::Blocks;
use crate::savepoint::Savepoint;
use crate::session::Session;
use crate::statement::ToStatement;
use crate::streams::{Lease, stream_methods};
use crate::transaction_options::TransactionOptions;
use crate::{Canceller, Error, Outcome, Timed};
use onetrip_postgres::client::transaction::verdict::{self, Leaver};
use onetrip_postgres::message::SYNC;

/// A transaction on a connection of one's own. BEGIN leaves with its first statement; a transaction
/// without statements sends nothing at all.
///
/// Dropping it without [`commit`](Transaction::commit) rolls it back: ROLLBACK leaves at once, and
/// nobody waits for it.
///
/// If the server refuses BEGIN, no statement of the transaction runs: the error of the first
/// statement says `BEGIN: …`, and so does that of each later one.
///
/// # Example
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let tx = client.begin().await?; // No trip.
/// tx.execute("update account set balance = balance - $1 where id = $2", &[&5, &1]).await?;
/// tx.execute("update account set balance = balance + $1 where id = $2", &[&5, &2]).await?;
/// tx.commit().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Transaction<'a> {
    connection: Arc<Connection>,
    executor: Executor,
    lead: Arc<Lead>,
    ended: bool,
    /// Whether COMMIT was sent.
    commits: bool,
    /// Gives the connection back to the pool; `None` if it belongs to a caller's session.
    _own: Option<Session>,
    /// Borrows the session, so that nothing else is done on it meanwhile.
    session: PhantomData<&'a mut Session>,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(
        connection: &Arc<Connection>,
        session: &Executor,
        options: TransactionOptions,
    ) -> Transaction<'a> {
        let generation = &connection.context.metadata_cache.generation;
        let lead = Lead::begin(options.begin(), generation);
        let executor = session.behind(lead.clone());
        let connection = connection.clone();
        let (ended, commits, session) = (false, false, PhantomData);
        Transaction { connection, executor, lead, ended, commits, _own: None, session }
    }

    pub(crate) fn owning(self, session: Session) -> Transaction<'a> {
        let mut transaction = self;
        transaction._own = Some(session);
        transaction
    }

    /// Sets a savepoint: what is done from now on can be undone alone. No trip: SAVEPOINT leaves
    /// with the first statement behind it. Until the savepoint is dropped, rolled back or released,
    /// statements go through it.
    pub fn savepoint(&mut self) -> Savepoint<'_> {
        Savepoint::new(&self.connection, &self.executor, &self.lead)
    }

    /// Commits: one trip, or none if nothing was sent. COMMIT leaves when this is called, together
    /// with earlier statements that were not awaited.
    ///
    /// # Errors
    /// The commit failed; or the server answered it with ROLLBACK, since a statement had failed
    /// before (`Rejected`, with the code `rolled_back` and what is known of that failure). If a
    /// statement was refused, as one that found the queue full, COMMIT is not sent, and the
    /// transaction is rolled back (`rolled_back`; `NotSent` if nothing of it was sent). If the
    /// connection is lost or the deadline passes meanwhile, the outcome is `Unknown`. If the
    /// connection was lost before, it is an error even if nothing of the transaction was sent:
    /// `NotSent` then, and otherwise `Rejected`. Behind a pipeline of the transaction that has begun
    /// to send and is not finished, it is refused (`pipeline_open`), and the transaction is rolled
    /// back.
    ///
    /// Dropping the future does not take back a COMMIT that was sent.
    pub fn commit(self) -> impl Future<Output = Result<(), Error>> + use<'a> {
        // Where statements were refused, or may have been for want of a connection, it must fail.
        let is_due = self.lead.is_sent()
            || self.lead.is_incomplete()
            || !self.connection.lock().engine.is_open();
        let reply = is_due.then(|| self.executor.command("COMMIT", Part::Commit));
        self.lead.end();
        async move {
            let mut transaction = self;
            transaction.commits = reply.is_some();
            match reply {
                Some(reply) => transaction.committed(reply).await,
                None => Ok(()),
            }
        }
    }

    /// Runs the last statement and commits. Both leave in one write when this is called, with BEGIN
    /// if this is the only statement. One trip. If the statement succeeds, the transaction is
    /// committed; if it fails, the transaction is rolled back. The result is read as `T`:
    /// [`Rows`](crate::Rows), [`Row`](crate::Row), `Option<Row>`, or `u64` for the number of rows.
    ///
    /// # Errors
    /// The error of the statement, or of the commit. `Rejected`: everything is rolled back.
    /// `Applied`: the transaction was committed, and only the result could not be read as `T`.
    /// `Unknown`: no final answer came. `NotSent`: the statement was refused, and nothing of the
    /// transaction was sent.
    ///
    /// Dropping the future takes nothing back.
    ///
    /// # Example
    /// ```no_run
    /// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
    /// let tx = client.begin().await?;
    /// tx.execute("update account set balance = balance - 5 where id = 1", &[]).await?;
    /// let sql = "update account set balance = balance + 5 where id = 2 returning balance";
    /// let row: onetrip::Row = tx.commit_with(sql, &[]).await?;
    /// # drop(row); Ok(()) }
    /// ```
    pub fn commit_with<T: FromReply, S: ToStatement + ?Sized>(
        self,
        statement: &S,
        params: Params<'_>,
    ) -> impl Future<Output = Result<T, Error>> + use<'a, T, S> {
        self.connection.with_local(|core| core.hold());
        let reply: Reply<T> = self.executor.run(statement, params);
        let commit = (!reply.is_refused()).then(|| self.executor.command("COMMIT", Part::Commit));
        self.connection.with(|core, now| core.unhold(now));
        self.lead.end();
        async move {
            let mut transaction = self;
            transaction.commits = commit.is_some();
            // What is said of it is said of the whole.
            let has_left = transaction.lead.has_left();
            let result = reply.await.map_err(|error| {
                let outcome = verdict::left(error.outcome(), Leaver::Commit, has_left);
                error.with_outcome(outcome)
            });
            let Some(commit) = commit else { return result };
            let committed = transaction.committed(commit).await;
            verdict::both(result, committed)
        }
    }

    /// Rolls back: one trip, or none if nothing was sent. ROLLBACK leaves when this is called.
    ///
    /// # Errors
    /// The connection was lost. Then nothing of the transaction stands either.
    pub fn rollback(self) -> impl Future<Output = Result<(), Error>> + use<'a> {
        let reply = self.lead.is_open().then(|| self.executor.command("ROLLBACK", Part::Undo));
        self.lead.end();
        self.lead.is_undone();
        async move {
            let mut transaction = self;
            let Some(reply) = reply else { return Ok(()) };
            let result = reply.await;
            transaction.note_end(&result);
            match result {
                // BEGIN was refused meanwhile, so there is nothing to roll back.
                Err(_) if transaction.lead.refusal().is_some() => Ok(()),
                result => result.map(drop),
            }
        }
    }

    /// What knows whether it is run again, also once it has ended.
    pub(crate) fn lead(&self) -> Arc<Lead> {
        self.lead.clone()
    }

    /// Handles the answer to COMMIT.
    async fn committed(&mut self, reply: Reply<Blocks>) -> Result<(), Error> {
        let committed = self.commit_answered(reply).await;
        self.commits = false;
        match committed.as_ref().map_err(Error::outcome) {
            Ok(()) | Err(Outcome::Applied) => {}
            Err(Outcome::Unknown) => self.lead.fate.is_in_doubt(),
            Err(Outcome::NotSent | Outcome::Rejected) => self.lead.is_undone(),
        }
        committed
    }

    async fn commit_answered(&mut self, reply: Reply<Blocks>) -> Result<(), Error> {
        let result = reply.await;
        self.note_end(&result);
        let blocks = result.map_err(|why| {
            let is_lost = why.is_connection_lost();
            let why = verdict::not_committed(why, is_lost, self.lead.is_doomed());
            let outcome = verdict::left(why.outcome(), Leaver::Commit, self.lead.has_left());
            why.with_outcome(outcome)
        })?;
        verdict::committed(command_tag(&blocks), self.lead.failure())
    }

    /// If COMMIT was not sent the transaction is still open, and dropping it rolls it back.
    fn note_end(&mut self, result: &Result<Blocks, Error>) {
        self.ended = !matches!(result, Err(error) if error.outcome() == Outcome::NotSent);
    }

    /// The same transaction with another deadline for each statement; see [`Timed`]. A late
    /// statement does not undo the rest of the transaction: that stands or falls with its commit.
    pub fn timeout(&self, timeout: Duration) -> Timed<'_> {
        Timed::new(self.executor.within(timeout))
    }

    /// Returns a handle that cancels what the server runs of this transaction: see
    /// [`Session::canceller`].
    pub fn canceller(&self) -> Canceller {
        Canceller::of_connection(&self.connection)
    }

    statement_methods!();
    stream_methods!((&mut self), '_, self.lease());

    fn lease(&self) -> Lease<'_> {
        Lease::of(&self.connection, &self.executor)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.lead.end();
        match (self.ended, self.commits) {
            (_, true) => self.lead.fate.is_in_doubt(),
            (false, false) => self.lead.is_undone(),
            (true, false) => {}
        }
        // Behind a COMMIT it would change nothing. Nobody waits for the answer to either; a server
        // that never gives it keeps the connection for some time only.
        if self.ended || !self.lead.is_open() {
            if self.commits {
                self.connection.with(|core, now| core.engine.handle_given_up(now));
            }
            return;
        }
        let Ok(mut rollback) = plain_statement("ROLLBACK") else { return };
        rollback.extend_from_slice(&SYNC);
        self.connection.with(|core, now| {
            // If the connection does not take even this, it is closed, which ends the transaction.
            if core.submit_unwaited(now, &rollback).is_err() {
                let error = core.lost("a transaction was dropped, and its ROLLBACK found no room");
                core.close(error);
            }
            core.engine.handle_given_up(now);
        });
    }
}
