//! The blocking client as a `Place` for the cases. Each call has ended when it returns, so
//! statements that are sent together elsewhere are sent one by one. Calls that it does not have
//! itself run through `wait`.

use std::future::ready;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use onetrip::blocking::{Client, Pipeline, Reply, Session, Transaction};
use onetrip::{Error, FromReply, TransactionOptions};

use super::places::{of_atomic, of_report, run, sets};
use super::statements::{Asked, Came};
use super::steps::{Answer, Batch, Boxed, Done, End, Failures, Group, Place, Sent};

/// Runs a future that never waits.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a call that blocks returned before it was over"),
    }
}

macro_rules! sent {
    ($to:expr, $asked:expr) => {{
        let (text, parameters) = ($asked.text.as_str(), $asked.parameters());
        let came = match $asked.is_counted() {
            true => $to.execute(text, &parameters).map(Came::Count),
            false => $to.query(text, &parameters).map(Came::Rows),
        };
        Sent { answer: Box::pin(ready(came)), canceller: None }
    }};
}

impl Place for Client {
    fn ask<'a>(&'a self, asked: &'a Asked) -> Sent<'a> {
        let is_plain = asked.timeout().is_none() && !asked.is_marked("repeatable");
        match is_plain {
            true => sent!(self, asked),
            false => {
                let came = self.wait(|client| {
                    let client = client.clone();
                    async move { Place::ask(&client, asked).answer.await }
                });
                Sent { answer: Box::pin(ready(came)), canceller: None }
            }
        }
    }

    fn session(&self) -> Boxed<'_, Result<Box<dyn Place>, Error>> {
        let session = Client::session(self);
        Box::pin(ready(session.map(|it| Box::new(it) as Box<dyn Place>)))
    }

    fn begin(
        &mut self,
        options: TransactionOptions,
    ) -> Boxed<'_, Result<Box<dyn Place + '_>, Error>> {
        let begun = self.begin_with(options);
        Box::pin(ready(begun.map(|it| Box::new(it) as Box<dyn Place>)))
    }

    fn pipeline(&self) -> Box<dyn Group> {
        Box::new(Client::pipeline(self))
    }

    fn batch<'a>(&'a self, batch: &'a Batch) -> Boxed<'a, (Option<u64>, Failures)> {
        let made = Client::batch(self, batch.text.as_str(), sets(batch));
        Box::pin(ready(sent_batch(made, batch.is_atomic)))
    }

    fn run<'a>(&'a self, max: u32, texts: &'a [String]) -> Boxed<'a, (u64, Result<(), Error>)> {
        let came = self.wait(|client| {
            let client = client.clone();
            async move { Ok(run(&client, max, texts).await) }
        });
        Box::pin(ready(came.unwrap()))
    }
}

impl Place for Session {
    fn ask<'a>(&'a self, asked: &'a Asked) -> Sent<'a> {
        sent!(self, asked)
    }

    fn begin(
        &mut self,
        options: TransactionOptions,
    ) -> Boxed<'_, Result<Box<dyn Place + '_>, Error>> {
        let begun = self.begin_with(options);
        Box::pin(ready(begun.map(|it| Box::new(it) as Box<dyn Place>)))
    }

    fn pipeline(&self) -> Box<dyn Group> {
        Box::new(Session::pipeline(self))
    }
}

impl Place for Transaction<'_> {
    fn ask<'a>(&'a self, asked: &'a Asked) -> Sent<'a> {
        sent!(self, asked)
    }

    fn pipeline(&self) -> Box<dyn Group> {
        Box::new(Transaction::pipeline(self))
    }

    fn batch<'a>(&'a self, batch: &'a Batch) -> Boxed<'a, (Option<u64>, Failures)> {
        let made = Transaction::batch(self, batch.text.as_str(), sets(batch));
        Box::pin(ready(sent_batch(made, batch.is_atomic)))
    }

    fn end<'a>(self: Box<Self>, end: End<'a>) -> Done<'a>
    where
        Self: 'a,
    {
        Box::pin(ready(match end {
            End::Commit => self.commit(),
            End::Rollback => self.rollback(),
            End::Release { .. } => panic!("a transaction is not released"),
            End::Drop => {
                drop(self);
                Ok(())
            }
            End::With(last) => {
                let came = self.commit_with::<u64>(last.text.as_str(), &last.parameters());
                last.check(came.map(Came::Count), &last.text);
                Ok(())
            }
        }))
    }
}

impl Group for Pipeline {
    fn ask(&mut self, asked: &Asked) -> Answer<'static> {
        let (text, parameters) = (asked.text.as_str(), asked.parameters());
        match asked.is_counted() {
            true => later(self.execute(text, &parameters), Came::Count),
            false => later(self.query(text, &parameters), Came::Rows),
        }
    }

    fn sync(&mut self) -> Done<'static> {
        let reply = Pipeline::sync(self);
        Box::pin(async { reply.wait() })
    }

    fn flush(&mut self) {
        Pipeline::flush(self);
    }

    fn finish(self: Box<Self>) -> Done<'static> {
        Box::pin(ready(Pipeline::finish(*self)))
    }
}

/// A reply that is waited for when it is requested.
fn later<T: FromReply + 'static>(reply: Reply<T>, came: fn(T) -> Came) -> Answer<'static> {
    Box::pin(async move { reply.wait().map(came) })
}

fn sent_batch<R>(batch: onetrip::blocking::Batch<'_, R>, is_atomic: bool) -> (Option<u64>, Failures)
where
    R: IntoIterator,
    R::Item: onetrip::ParameterSet,
{
    match is_atomic {
        true => of_atomic(batch.atomic()),
        false => of_report(&batch.isolated().unwrap()),
    }
}
