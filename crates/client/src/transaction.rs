//! Transactions whose BEGIN costs no trip.

use std::marker::PhantomData;
use std::sync::Arc;

use onetrip_engine::{Request, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::message::SYNC;
use postgres_types::Type;

use crate::executor::{Executor, Lead, plain_statement};
use crate::params::Params;
use crate::pipeline::Pipeline;
use crate::reply::Reply;
use crate::rows::{Row, Rows};
use crate::session::Session;
use crate::statement::{Statement, ToStatement};
use crate::{Error, Kind, Outcome};

/// A transaction on a session. BEGIN leaves with its first statement; one without statements sends
/// nothing at all.
///
/// Dropping it without [`commit`](Transaction::commit) rolls it back: ROLLBACK leaves at once, and
/// nobody waits for it.
///
/// # Example
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let mut session = client.session().await?;
/// let tx = session.begin().await?; // No trip.
/// tx.execute("update account set balance = balance - $1 where id = $2", &[&5, &1]).await?;
/// tx.execute("update account set balance = balance + $1 where id = $2", &[&5, &2]).await?;
/// tx.commit().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Transaction<'a> {
    executor: Executor,
    lead: Arc<Lead>,
    ended: bool,
    /// Nothing else is done on the session meanwhile.
    session: PhantomData<&'a mut Session>,
}

impl Transaction<'_> {
    pub(crate) fn new<'a>(session: &Executor) -> Transaction<'a> {
        let lead = Arc::new(Lead::default());
        let executor = session.behind(lead.clone());
        Transaction { executor, lead, ended: false, session: PhantomData }
    }

    /// Commits: one trip, or none if nothing was sent.
    ///
    /// # Errors
    /// The commit failed, or the server answered it with ROLLBACK since a statement had failed
    /// before (`Rejected`). If the connection is lost meanwhile, the outcome is `Unknown`.
    ///
    /// Dropping the future does not take a COMMIT back that was sent.
    pub async fn commit(self) -> Result<(), Error> {
        match self.end("COMMIT").await?.as_str() {
            "" | "COMMIT" => Ok(()),
            _ => Err(Error::new(
                Kind::Server,
                Outcome::Rejected,
                "rolled_back",
                "the transaction was rolled back at its commit, since a statement in it had failed",
            )),
        }
    }

    /// Rolls back: one trip, or none if nothing was sent.
    pub async fn rollback(self) -> Result<(), Error> {
        self.end("ROLLBACK").await.map(drop)
    }

    /// Sends what ends the transaction, unless nothing began it, and says the command tag.
    async fn end(mut self, command: &str) -> Result<String, Error> {
        if !self.lead.is_sent() {
            return Ok(String::new());
        }
        let result = self.executor.command(command).await;
        // Where nothing was sent the transaction is still open, and is rolled back by dropping it.
        self.ended = !matches!(&result, Err(error) if error.outcome() == Outcome::NotSent);
        result
    }

    /// See [`Client::query`](crate::Client::query).
    pub fn query(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Rows> {
        self.executor.run(statement, params)
    }

    /// See [`Client::query_one`](crate::Client::query_one).
    pub fn query_one(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Row> {
        self.executor.run(statement, params)
    }

    /// See [`Client::query_opt`](crate::Client::query_opt).
    pub fn query_opt(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Option<Row>> {
        self.executor.run(statement, params)
    }

    /// See [`Client::execute`](crate::Client::execute).
    pub fn execute(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<u64> {
        self.executor.run(statement, params)
    }

    /// See [`Client::prepare`](crate::Client::prepare). A text that the server refuses ends the
    /// transaction.
    pub async fn prepare(&self, sql: &str) -> Result<Statement, Error> {
        self.executor.prepare(sql, &[]).await
    }

    /// See [`Client::prepare_typed`](crate::Client::prepare_typed).
    pub async fn prepare_typed(&self, sql: &str, types: &[Type]) -> Result<Statement, Error> {
        self.executor.prepare(sql, types).await
    }

    /// Begins a pipeline inside the transaction.
    pub fn pipeline(&self) -> Pipeline {
        Pipeline::new(&self.executor)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.ended || !self.lead.is_sent() {
            return;
        }
        let Ok(mut rollback) = plain_statement("ROLLBACK") else { return };
        rollback.extend_from_slice(&SYNC);
        let expect = Expect::sync().parse().bind().execute();
        let request = Request::isolated(Token::DISCARD, expect);
        // Where even this is not taken the connection is gone, and the transaction with it.
        let _ = self.executor.shared.with(|core, now| core.submit_forced(now, request, &rollback));
    }
}
