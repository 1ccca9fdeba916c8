//! Savepoints: parts of a transaction that can be undone alone. They cost no trip of their own.

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
use onetrip_postgres::client::transaction::verdict::{
    Failure, INCOMPLETE_SAVEPOINT, Leaver, left, not_released,
};

/// A part of a transaction that can be undone alone.
/// [`Transaction::savepoint`](crate::Transaction::savepoint) makes one.
///
/// SAVEPOINT leaves with the first statement behind it; a savepoint without statements sends
/// nothing at all. Dropping it without [`release`](Savepoint::release) undoes what was done since:
/// ROLLBACK TO and RELEASE leave at once, and nobody waits for them. If a statement behind the
/// savepoint has failed, this makes the transaction usable again.
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
    /// For statements of the transaction or savepoint around it.
    outer: Executor,
    ended: bool,
    /// Borrows what is around it, so that nothing else is done there meanwhile.
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

    /// Keeps what was done since, as a part of what is around it. RELEASE travels with what comes
    /// next in the transaction; before COMMIT or ROLLBACK none is needed. If the returned future is
    /// awaited, RELEASE is sent by itself and its answer waited for: one trip, or none if nothing
    /// was sent.
    pub fn release(mut self) -> Release<'a> {
        let is_incomplete = self.lead.is_incomplete();
        // Otherwise dropping it undoes what was done since.
        self.ended = !is_incomplete;
        if self.ended && self.lead.is_sent() {
            self.lead.release();
        }
        Release { savepoint: self, reply: None, is_incomplete }
    }

    /// Undoes what was done since, and waits for the server's answer: one trip, or none if nothing
    /// was sent. It leaves when this is called. Dropping the savepoint does the same without
    /// waiting.
    ///
    /// # Errors
    /// The transaction failed outside of the savepoint, or the connection was lost, even if nothing
    /// was sent since.
    pub fn rollback(mut self) -> impl Future<Output = Result<(), Error>> + use<'a> {
        self.lead.is_undone();
        let refused = self.connection.with_local(|core| core.check_not_behind_itself());
        let undo = || refused.map_or_else(Reply::refused, |()| self.undo());
        let reply = self.lead.is_open().then(undo);
        // If it was refused, dropping it makes sure that the transaction can't go on.
        self.ended = !reply.as_ref().is_some_and(Reply::is_refused);
        async move {
            let Some(reply) = reply else {
                // If BEGIN was refused, there is nothing to undo; if the connection was lost,
                // everything went with it.
                return self.connection.lock().refusal().map_or(Ok(()), Err);
            };
            let result = reply.await;
            match (result, self.lead.refusal()) {
                // BEGIN was refused meanwhile, so there is nothing to undo.
                (Err(_), Some(_)) | (Ok(_), _) => Ok(()),
                // ROLLBACK TO failed, so the RELEASE behind it, whose reply this is, was skipped.
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

    /// Undoes it without waiting. If the connection does not take even this, it is closed, which
    /// ends the transaction.
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
        if self.ended {
            return;
        }
        self.lead.is_undone();
        if self.lead.is_open() {
            self.undo_unwaited();
        }
    }
}

/// Returned by [`Savepoint::release`]. Await it to wait for the server's answer; drop it to let
/// RELEASE travel with what comes next.
///
/// # Errors
/// A statement behind the savepoint had failed or was refused (with the code `rolled_back`): the
/// savepoint was rolled back, and the transaction goes on without what was done since. If a
/// statement was refused and this is not awaited, the transaction can't be committed. Or BEGIN was
/// refused, or the connection was lost, even if nothing was sent since.
///
/// Once it has been polled, RELEASE was sent, and dropping it changes nothing.
#[derive(Debug)]
pub struct Release<'a> {
    savepoint: Savepoint<'a>,
    reply: Option<Reply<Blocks>>,
    /// A statement behind the savepoint was refused, of which its caller has not heard yet.
    is_incomplete: bool,
}

impl Drop for Release<'_> {
    /// Who does not wait for it expects what is behind the savepoint to be kept.
    fn drop(&mut self) {
        if self.is_incomplete
            && let Some(outer) = &self.savepoint.outer.lead
        {
            outer.leave_out();
        }
    }
}

impl Future for Release<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.reply.is_none() {
            if std::mem::take(&mut this.is_incomplete) {
                return Poll::Ready(Err(this.savepoint.incomplete()));
            }
            // Nothing was sent, or a later statement has taken RELEASE along.
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
    /// Why nothing of its transaction can be done any more. Then its statements were refused, and
    /// there is nothing to release.
    fn is_in_vain(&self) -> Option<Error> {
        let begin = self.lead.refusal().map(|why| why.with_outcome(Outcome::NotSent));
        begin.or_else(|| Some(self.of_whole(self.connection.lock().refusal()?)))
    }

    /// The error of a release speaks of all that is behind the savepoint.
    fn of_whole(&self, error: Error) -> Error {
        let outcome = left(error.outcome(), Leaver::Commit, self.lead.has_left());
        error.with_outcome(outcome)
    }

    /// A statement behind it was refused, so it is not kept: it is rolled back to once this is
    /// dropped.
    fn incomplete(&self) -> Error {
        self.is_in_vain().unwrap_or_else(|| {
            let why = Error::rolled_back(INCOMPLETE_SAVEPOINT, None);
            let outcome = left(Outcome::NotSent, Leaver::Commit, self.lead.has_left());
            why.with_outcome(outcome)
        })
    }

    /// RELEASE failed. If the reason is a failed statement, the savepoint is rolled back, so that
    /// what is around it goes on.
    fn unreleased(&self, error: Error) -> Error {
        if error.outcome() != Outcome::Rejected || !self.lead.is_open() {
            return self.of_whole(error);
        }
        let why = self.lead.failure().or_else(|| self.outer_failure());
        self.lead.is_undone();
        self.undo_unwaited();
        not_released(why)
    }
}
