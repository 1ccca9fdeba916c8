//! The asynchronous client as a `Place` for the cases.

use std::time::Duration;

use onetrip::types::ToSql;
use onetrip::{
    Client, Error, Pipeline, Reply, Rows, RunOptions, Savepoint, Session, Transaction,
    TransactionOptions,
};

use super::statements::{Asked, Came};
use super::steps::{Answer, Batch, Boxed, Done, End, Failures, Group, Place, Sent};

/// Sends a statement on anything that has the calls for it.
macro_rules! sent {
    ($to:expr, $asked:expr) => {{
        let (text, parameters) = ($asked.text.as_str(), $asked.parameters());
        match $asked.is_counted() {
            true => counted($to.execute(text, &parameters)),
            false => rows($to.query(text, &parameters)),
        }
    }};
}

/// The same, with the timeout of the case.
macro_rules! sent_in_time {
    ($to:expr, $asked:expr) => {
        match $asked.timeout() {
            Some(timeout) => sent!($to.timeout(timeout), $asked),
            None => sent!($to, $asked),
        }
    };
}

fn rows(reply: Reply<Rows>) -> Sent<'static> {
    let canceller = Some(reply.canceller());
    Sent { canceller, answer: Box::pin(async { reply.await.map(Came::Rows) }) }
}

fn counted(reply: Reply<u64>) -> Sent<'static> {
    let canceller = Some(reply.canceller());
    Sent { canceller, answer: Box::pin(async { reply.await.map(Came::Count) }) }
}

impl Place for Client {
    fn ask<'a>(&'a self, asked: &'a Asked) -> Sent<'a> {
        match asked.is_marked("repeatable") {
            true => sent_in_time!(self.repeatable(), asked),
            false => sent_in_time!(self, asked),
        }
    }

    fn session(&self) -> Boxed<'_, Result<Box<dyn Place>, Error>> {
        Box::pin(async { Ok(Box::new(Client::session(self).await?) as Box<dyn Place>) })
    }

    fn begin(
        &mut self,
        options: TransactionOptions,
    ) -> Boxed<'_, Result<Box<dyn Place + '_>, Error>> {
        Box::pin(async move { Ok(Box::new(self.begin_with(options).await?) as Box<dyn Place>) })
    }

    fn pipeline(&self) -> Box<dyn Group> {
        Box::new(Client::pipeline(self))
    }

    fn batch<'a>(&'a self, batch: &'a Batch) -> Boxed<'a, (Option<u64>, Failures)> {
        Box::pin(sent_batch(Client::batch(self, batch.text.as_str(), sets(batch)), batch.is_atomic))
    }

    fn run<'a>(&'a self, max: u32, texts: &'a [String]) -> Boxed<'a, (u64, Result<(), Error>)> {
        Box::pin(run(self, max, texts))
    }
}

impl Place for Session {
    fn ask<'a>(&'a self, asked: &'a Asked) -> Sent<'a> {
        sent_in_time!(self, asked)
    }

    fn begin(
        &mut self,
        options: TransactionOptions,
    ) -> Boxed<'_, Result<Box<dyn Place + '_>, Error>> {
        Box::pin(async move { Ok(Box::new(self.begin_with(options).await?) as Box<dyn Place>) })
    }

    fn pipeline(&self) -> Box<dyn Group> {
        Box::new(Session::pipeline(self))
    }
}

impl Place for Transaction<'_> {
    fn ask<'a>(&'a self, asked: &'a Asked) -> Sent<'a> {
        sent_in_time!(self, asked)
    }

    fn savepoint(&mut self) -> Box<dyn Place + '_> {
        Box::new(Transaction::savepoint(self))
    }

    fn pipeline(&self) -> Box<dyn Group> {
        Box::new(Transaction::pipeline(self))
    }

    fn batch<'a>(&'a self, batch: &'a Batch) -> Boxed<'a, (Option<u64>, Failures)> {
        let sent = Transaction::batch(self, batch.text.as_str(), sets(batch));
        Box::pin(sent_batch(sent, batch.is_atomic))
    }

    fn end<'a>(self: Box<Self>, end: End<'a>) -> Done<'a>
    where
        Self: 'a,
    {
        match end {
            End::Commit => Box::pin(self.commit()),
            End::Rollback => Box::pin(self.rollback()),
            End::Release { .. } => panic!("a transaction is not released"),
            End::Drop => Box::pin(async {
                drop(self);
                Ok(())
            }),
            End::With(last) => Box::pin(async move {
                let came = self.commit_with::<u64, _>(last.text.as_str(), &last.parameters()).await;
                last.check(came.map(Came::Count), &last.text);
                Ok(())
            }),
        }
    }
}

impl Place for Savepoint<'_> {
    fn ask<'a>(&'a self, asked: &'a Asked) -> Sent<'a> {
        sent!(self, asked)
    }

    fn savepoint(&mut self) -> Box<dyn Place + '_> {
        Box::new(Savepoint::savepoint(self))
    }

    fn end<'a>(self: Box<Self>, end: End<'a>) -> Done<'a>
    where
        Self: 'a,
    {
        match end {
            End::Release { awaited: true } => Box::pin(self.release()),
            End::Release { awaited: false } => {
                drop(self.release());
                Box::pin(std::future::ready(Ok(())))
            }
            End::Rollback => Box::pin(self.rollback()),
            End::Drop => Box::pin(async {
                drop(self);
                Ok(())
            }),
            _ => panic!("a savepoint is not committed"),
        }
    }
}

impl Group for Pipeline {
    fn ask(&mut self, asked: &Asked) -> Answer<'static> {
        sent!(self, asked).answer
    }

    fn sync(&mut self) -> Done<'static> {
        Box::pin(Pipeline::sync(self))
    }

    fn flush(&mut self) {
        Pipeline::flush(self);
    }

    fn finish(self: Box<Self>) -> Done<'static> {
        Box::pin(Pipeline::finish(*self))
    }
}

/// The parameter sets of a batch.
pub(super) fn sets(batch: &Batch) -> impl Iterator<Item = Vec<&(dyn ToSql + Sync)>> {
    batch.sets.iter().map(|set| set.iter().map(|it| -> &(dyn ToSql + Sync) { it }).collect())
}

async fn sent_batch<'a, R>(batch: onetrip::Batch<'a, R>, is_atomic: bool) -> (Option<u64>, Failures)
where
    R: IntoIterator,
    R::Item: onetrip::ParameterSet,
{
    match is_atomic {
        true => of_atomic(batch.atomic().await),
        false => of_report(&batch.isolated().await),
    }
}

pub(super) fn of_atomic(
    came: Result<onetrip::Affected, onetrip::BatchError>,
) -> (Option<u64>, Failures) {
    match came {
        Ok(affected) => (Some(affected.total()), Vec::new()),
        Err(error) => (None, vec![(error.index(), error.into())]),
    }
}

pub(super) fn of_report(report: &onetrip::BatchReport) -> (Option<u64>, Failures) {
    let failures = report.errors().iter().map(|it| (it.index(), it.clone().into())).collect();
    (Some(report.affected().total()), failures)
}

pub(super) async fn run(
    client: &Client,
    attempts_max: u32,
    texts: &[String],
) -> (u64, Result<(), Error>) {
    let attempts = std::cell::Cell::new(0);
    let pause = Duration::from_millis(1);
    let options = RunOptions::new().attempts_max(attempts_max).pauses(pause, pause);
    let ended = client.run_with(options, async |tx| {
        attempts.set(attempts.get() + 1);
        for text in texts {
            tx.query(text.as_str(), &[]).await?;
        }
        Ok::<_, Error>(())
    });
    let ended = ended.await.map(|_| ());
    (attempts.get(), ended)
}
