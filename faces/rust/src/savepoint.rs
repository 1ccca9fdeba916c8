//! Savepoints: parts of a transaction that can be undone alone, without a trip of their own.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::core::Connection;
use crate::error::ABORTED;
use crate::executor::{Executor, Sent};
use crate::lead::{Lead, Part};
use crate::methods::statement_methods;
use crate::reply::Reply;
use crate::rows::Blocks;
use crate::streams::{Lease, stream_methods};
use crate::{Error, Outcome};
use onetrip_postgres::client::transaction::verdict::not_released;

/// A part of a transaction that can be undone alone. Made by
/// [`Transaction::savepoint`](crate::Transaction::savepoint).
///
/// SAVEPOINT leaves with the first statement behind it; one without statements sends nothing at all.
/// Dropping it without [`release`](Savepoint::release) undoes what was done since: ROLLBACK TO and
/// RELEASE leave at once, and nobody waits for them. That also mends a transaction in which a
/// statement behind the savepoint has failed.
///
/// # Example
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let mut tx = client.begin().await?;
/// tx.execute("insert into orders (id) values (7)", &[]).await?;
/// let gift = tx.savepoint(); // No trip.
/// if gift.execute("insert into gifts (order_id) values (7)", &[]).await.is_ok() {
///     drop(gift.release()); // No trip: it leaves with what comes next.
/// } else {
///     drop(gift); // The order stands without it.
/// }
/// tx.commit().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Savepoint<'a> {
    connection: Arc<Connection>,
    executor: Executor,
    lead: Arc<Lead>,
    /// Statements of what is around it.
    outer: Executor,
    ended: bool,
    /// Nothing else is done in what is around it meanwhile.
    borrows: PhantomData<&'a mut Executor>,
}

impl<'a> Savepoint<'a> {
    pub(crate) fn new(
        connection: &Arc<Connection>,
        outer: &Executor,
        around: &Arc<Lead>,
    ) -> Savepoint<'a> {
        let lead = around.savepoint();
        let (connection, executor) = (connection.clone(), outer.behind(lead.clone()));
        let outer = outer.clone();
        Savepoint { connection, executor, lead, outer, ended: false, borrows: PhantomData }
    }

    /// Sets a savepoint within this one, to any depth. No trip.
    pub fn savepoint(&mut self) -> Savepoint<'_> {
        Savepoint::new(&self.connection, &self.executor, &self.lead)
    }

    /// Makes what was done a part of what is around it. RELEASE rides along with what comes next in
    /// the transaction; where nothing but its end comes, none is needed. Only whoever awaits what this
    /// returns sends it by itself, and waits for the answer: one trip, or none if nothing was sent.
    pub fn release(mut self) -> Release<'a> {
        self.ended = true;
        if self.lead.is_sent() {
            self.lead.release();
        }
        Release { savepoint: self, reply: None }
    }

    /// Undoes what was done since, and waits for the server to say so: one trip, or none if nothing
    /// was sent. It leaves when this is called. Dropping the savepoint does the same without waiting.
    ///
    /// # Errors
    /// The transaction has failed outside of it, or the connection is lost, also where nothing was sent
    /// since.
    pub fn rollback(mut self) -> impl Future<Output = Result<(), Error>> + use<'a> {
        let reply = self.lead.is_open().then(|| self.undo());
        // Where it was refused, dropping it sees to that the transaction can't go on with it.
        self.ended = !reply.as_ref().is_some_and(Reply::is_refused);
        async move {
            let Some(reply) = reply else {
                // Where BEGIN was refused there is nothing to undo; with the connection all of it went.
                return self.connection.lock().refusal().map_or(Ok(()), Err);
            };
            let result = reply.await;
            match (result, self.lead.refusal()) {
                // BEGIN was refused meanwhile, so there is nothing to undo.
                (Err(_), Some(_)) | (Ok(_), _) => Ok(()),
                // ROLLBACK TO failed in front of RELEASE, which is what was waited for.
                (Err(error), None) if error.code() == ABORTED => {
                    Err(self.outer_failure().unwrap_or(error))
                }
                (Err(error), None) => Err(error),
            }
        }
    }

    fn outer_failure(&self) -> Option<Error> {
        self.outer.lead.as_ref().and_then(|lead| lead.failure())
    }

    fn undo(&self) -> Reply<Blocks> {
        let submitted = self.connection.with(|core, now| {
            let token = core.replies.add();
            let submitted = self.lead.submit_undo(core, now, token);
            submitted.inspect_err(|_| core.replies.remove(token)).map(|()| token)
        });
        match submitted {
            Ok(token) => Reply::of(Sent::here(&self.connection, token)),
            Err(error) => Reply::refused(error),
        }
    }

    /// Undoes it without waiting. Where even this is not taken, the transaction must end with its
    /// connection.
    fn undo_unwaited(&self) {
        let reply = self.undo();
        if reply.is_refused() {
            self.connection.with(|core, _| {
                let error = core.lost("a savepoint was dropped, and its ROLLBACK TO found no room");
                core.close(error);
            });
        }
    }

    statement_methods!();
    stream_methods!((&mut self), '_, Lease::of(&self.connection, &self.executor));
}

impl Drop for Savepoint<'_> {
    fn drop(&mut self) {
        self.lead.end();
        if !self.ended && self.lead.is_open() {
            self.undo_unwaited();
        }
    }
}

/// What [`Savepoint::release`] returns. Await it to wait for the server's answer; drop it to have
/// RELEASE ride along with what comes next.
///
/// # Errors
/// A statement behind the savepoint had failed (`Rejected`, with the code `rolled_back`): it was
/// rolled back to, and the transaction goes on without what was done since. Or BEGIN was refused, or the
/// connection is lost, also where nothing was sent since.
///
/// Where it is dropped after it was polled, RELEASE was sent.
#[derive(Debug)]
pub struct Release<'a> {
    savepoint: Savepoint<'a>,
    reply: Option<Reply<Blocks>>,
}

impl Future for Release<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.reply.is_none() {
            // Nothing was sent, or what came next has taken it along.
            let Some(release) = this.savepoint.lead.take_release() else {
                return Poll::Ready(this.savepoint.is_in_vain().map_or(Ok(()), Err));
            };
            this.reply = Some(this.savepoint.outer.command(&release, Part::Undo));
        }
        let Some(reply) = &mut this.reply else { return Poll::Ready(Ok(())) };
        let Poll::Ready(result) = Pin::new(reply).poll(cx) else { return Poll::Pending };
        Poll::Ready(result.map(drop).map_err(|error| this.savepoint.unreleased(error)))
    }
}

impl Savepoint<'_> {
    /// Why nothing of its transaction can be done any more. What was asked for may have been refused for
    /// it, so that there is nothing to release.
    fn is_in_vain(&self) -> Option<Error> {
        let begin = self.lead.refusal().map(|why| why.with_outcome(Outcome::NotSent));
        begin.or_else(|| self.connection.lock().refusal())
    }

    /// RELEASE failed. Where that is since a statement had failed, what is around goes on.
    fn unreleased(&self, error: Error) -> Error {
        if error.outcome() != Outcome::Rejected || !self.lead.is_open() {
            return error;
        }
        let why = self.lead.failure().or_else(|| self.outer_failure());
        self.undo_unwaited();
        not_released(why)
    }
}
