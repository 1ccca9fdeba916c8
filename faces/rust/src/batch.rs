//! Batches: many parameter sets for one statement.

mod atomic;
mod encoder;
mod isolated;
mod parameter_set;
mod plan;
mod result;

use std::pin::Pin;
use std::task::{Context, Waker};

use crate::executor::Executor;
use crate::statement::{Source, ToStatement};
pub use parameter_set::{Parameter, ParameterSet};
pub use result::{Affected, BatchError, BatchReport};

/// Many parameter sets for one statement, its *rows*. `batch` of a client, a session or a
/// transaction makes one; [`atomic`](Batch::atomic) or [`isolated`](Batch::isolated) sends it.
///
/// The iterator is advanced as rows are sent, so any number of rows needs only the memory of a
/// window. A row is a tuple, a slice or array of parameters, or a type of yours that implements
/// [`ParameterSet`]. The statement is prepared once, with the first rows. The first row decides the
/// types of the parameters; if that would be a guess, the server is asked instead, which costs a
/// trip. Rows that the statement returns are dropped.
///
/// # Example
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let sql = "insert into reading (sensor, value) values ($1, $2)";
/// let readings = (0..10_000).map(|number| (number % 7, f64::from(number) / 2.0));
///
/// // One transaction: all rows stand, or none.
/// let affected = client.batch(sql, readings.clone()).atomic().await?;
/// assert_eq!(affected.total(), 10_000);
///
/// // One transaction per row: a row that fails leaves the others alone.
/// let report = client.batch(sql, readings).isolated().await;
/// for failed in report.errors() {
///     eprintln!("{failed}"); // row 7 of the batch: …
/// }
/// # Ok(()) }
/// ```
#[must_use = "a batch is sent by atomic() or isolated()"]
#[derive(Debug)]
pub struct Batch<'a, R> {
    executor: Executor,
    source: Source<'a>,
    rows: R,
}

impl<'a, R> Batch<'a, R>
where
    R: IntoIterator,
    R::Item: ParameterSet,
{
    pub(crate) fn new(
        executor: &Executor,
        statement: &'a (impl ToStatement + ?Sized),
        rows: R,
    ) -> Batch<'a, R> {
        Batch { executor: executor.clone(), source: statement.to_statement(), rows }
    }

    /// Runs the statement for all rows or for none: in one implicit transaction with one sync
    /// point, or as a part of the open transaction. The first rows leave when this is called, the
    /// others as the future is polled. Until it ends it holds a connection, as a
    /// [`Pipeline`](crate::Pipeline) does. Resolves when the server has answered the sync point.
    ///
    /// # Errors
    /// The first failure, of a row or of the whole batch. Then no row has an effect, unless the
    /// outcome is `Unknown`. Inside a transaction a failure also fails the transaction, unless
    /// nothing was sent. `request_timeout_ms` applies to each flight of rows, not to the whole
    /// batch.
    ///
    /// If the future is dropped before the sync point, which is behind the last row, has left, the
    /// batch is given up: no row has an effect. A short batch sends its sync point when this is
    /// called, unless the window is full or another caller has the connection. From then on dropping
    /// takes nothing back: all rows have an effect, or none.
    pub fn atomic(self) -> impl Future<Output = Result<Affected, BatchError>> + use<'a, R> {
        begun(atomic::run(self.executor, self.source, self.rows.into_iter()))
    }

    /// Runs the statement for each row in a transaction of its own, in order, with some hundred
    /// rows in flight. The report has the errors by row; a row that fails does not keep others from
    /// being sent. No further rows are taken once the connection is lost, a deadline has passed or
    /// the statement can't be prepared. Inside a transaction rows can't be isolated: the call
    /// fails, and nothing is sent.
    ///
    /// A batch counts what its statement returns, and keeps none of it.
    ///
    /// Dropping the future keeps further rows from being sent; those that were sent may have an
    /// effect.
    pub fn isolated(self) -> impl Future<Output = BatchReport> + use<'a, R> {
        begun(isolated::run(self.executor, self.source, self.rows.into_iter()))
    }
}

/// Polls the future once, so that the call takes effect when it is made, as all calls do.
fn begun<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let mut future = Box::pin(future);
    let mut early = match Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    };
    async move {
        match early.take() {
            Some(output) => output,
            None => future.await,
        }
    }
}
