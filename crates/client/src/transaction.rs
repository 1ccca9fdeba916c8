//! Transactions whose BEGIN costs no trip.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::core::Connection;
use crate::executor::{Executor, Lead, plain_statement};
use crate::methods::statement_methods;
use crate::reply::{command_tag, rolled_back_at_commit};
use crate::session::Session;
use crate::{Error, Outcome};
use onetrip_postgres::message::SYNC;

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
    connection: Arc<Connection>,
    executor: Executor,
    lead: Arc<Lead>,
    ended: bool,
    /// Nothing else is done on the session meanwhile.
    session: PhantomData<&'a mut Session>,
}

impl Transaction<'_> {
    pub(crate) fn new<'a>(connection: &Arc<Connection>, session: &Executor) -> Transaction<'a> {
        let lead = Arc::new(Lead::default());
        let executor = session.behind(lead.clone());
        let connection = connection.clone();
        Transaction { connection, executor, lead, ended: false, session: PhantomData }
    }

    /// Commits: one trip, or none if nothing was sent.
    ///
    /// # Errors
    /// The commit failed, or the server answered it with ROLLBACK since a statement had failed
    /// before (`Rejected`). If the connection is lost meanwhile, the outcome is `Unknown`.
    ///
    /// Dropping the future does not take a COMMIT back that was sent.
    pub fn commit(self) -> impl Future<Output = Result<(), Error>> {
        let ended = self.end("COMMIT");
        async move {
            match ended.await? {
                Some(tag) if tag != "COMMIT" => Err(rolled_back_at_commit()),
                _ => Ok(()),
            }
        }
    }

    /// Rolls back: one trip, or none if nothing was sent.
    pub fn rollback(self) -> impl Future<Output = Result<(), Error>> {
        let ended = self.end("ROLLBACK");
        async move { ended.await.map(drop) }
    }

    /// Sends what ends the transaction, unless nothing began it, and says the command tag.
    fn end(self, command: &str) -> impl Future<Output = Result<Option<String>, Error>> {
        let reply = self.lead.is_sent().then(|| self.executor.command(command));
        async move {
            // Dropped on the way, it is rolled back, which changes nothing behind a COMMIT.
            let mut transaction = self;
            let Some(reply) = reply else { return Ok(None) };
            let result = reply.await;
            // Where nothing was sent the transaction is still open, and dropping it rolls it back.
            transaction.ended =
                !matches!(&result, Err(error) if error.outcome() == Outcome::NotSent);
            Ok(Some(command_tag(&result?).unwrap_or_default().to_owned()))
        }
    }

    statement_methods!();
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.ended || !self.lead.is_sent() {
            return;
        }
        let Ok(mut rollback) = plain_statement("ROLLBACK") else { return };
        rollback.extend_from_slice(&SYNC);
        self.connection.with(|core, now| {
            // Where even this is not taken, the transaction must end with its connection.
            if core.submit_unwaited(now, &rollback).is_err() {
                let error = core.lost("a transaction was dropped, and its ROLLBACK found no room");
                core.close(error);
            }
        });
    }
}
