//! Transactions that are run again after a conflict.

use std::time::Duration;

use onetrip_engine::{Retry, RetryLimits};
use onetrip_postgres::client::transaction::verdict::runs_again;
use tokio::time::Instant;

use crate::transaction::Transaction;
use crate::transaction_options::TransactionOptions;
use crate::{Client, Error, Kind, Outcome, Session};

/// How [`Client::run_with`] and [`Session::run_with`] run a transaction.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use onetrip::{Isolation, RunOptions, TransactionOptions};
///
/// let options = RunOptions::new()
///     .transaction(TransactionOptions::new().isolation(Isolation::Serializable))
///     .attempts_max(5)
///     .timeout(Duration::from_secs(2));
/// # drop(options);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    transaction: TransactionOptions,
    limits: RetryLimits,
    timeout: Option<Duration>,
}

impl RunOptions {
    /// The server's defaults for the transaction, 10 attempts, no deadline.
    pub fn new() -> RunOptions {
        RunOptions::default()
    }

    /// How each attempt begins.
    #[must_use]
    pub fn transaction(self, transaction: TransactionOptions) -> RunOptions {
        RunOptions { transaction, ..self }
    }

    /// The number of attempts, the first one included: 10 by default. With 1 nothing is tried
    /// again.
    #[must_use]
    pub fn attempts_max(mut self, attempts_max: u32) -> RunOptions {
        self.limits.attempts_max = attempts_max;
        self
    }

    /// The pause before the second attempt, which then doubles, and the longest pause: 5 ms and 1 s
    /// by default. Each is shortened by up to half at random.
    #[must_use]
    pub fn pauses(mut self, min: Duration, max: Duration) -> RunOptions {
        (self.limits.pause_min, self.limits.pause_max) = (min, max);
        self
    }

    /// How long all attempts and pauses may take together, including the wait for a connection.
    /// None by default. When it has passed, the current attempt is dropped, which rolls it back.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> RunOptions {
        RunOptions { timeout: Some(timeout), ..self }
    }
}

/// The result of a transaction that was committed, and how often it was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed<T> {
    /// What the closure returned in the attempt that was committed.
    pub value: T,
    /// How often the transaction was run again: 0 if the first attempt was committed.
    pub retries: u32,
}

impl Client {
    /// Runs a transaction on a connection of its own and commits it. After a conflict it is run
    /// again: a serialization failure (SQLSTATE 40001) or a deadlock (40P01), of a statement or of
    /// COMMIT; or an error which shows that the schema was changed under a text that the client
    /// remembers. At most 10 attempts, with pauses between them that double from 5 ms.
    ///
    /// **The closure may run several times**, each time in a new transaction. What it does outside
    /// of the transaction is not undone. If it returns an error, the transaction is rolled back,
    /// and the error is returned as it is, whatever its type. But if a statement of the transaction
    /// had a conflict, the closure is run again, and its error is returned only after the last
    /// attempt.
    ///
    /// In a task that moves between threads (`tokio::spawn`) the closure has to own what it uses:
    /// write `async move`, and give it clones. If it borrows, today's compiler can't see that the
    /// future is `Send`.
    ///
    /// # Errors
    /// The error of the closure, or of COMMIT. If it is not known what became of COMMIT (`Unknown`:
    /// the connection was lost, or a deadline passed), nothing is run again; nor after any other
    /// failure that is no conflict.
    ///
    /// Dropping the future rolls the transaction back, unless COMMIT was sent.
    ///
    /// # Example
    /// ```no_run
    /// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
    /// let committed = client
    ///     .run(async |tx| {
    ///         let row = tx.query_one("select balance from account where id = 1", &[]).await?;
    ///         let balance: i64 = row.get(0);
    ///         let sql = "update account set balance = $1 where id = 1";
    ///         tx.execute(sql, &[&(balance - 5)]).await?;
    ///         Ok::<_, onetrip::Error>(balance - 5)
    ///     })
    ///     .await?;
    /// println!("{} left, after {} retries", committed.value, committed.retries);
    /// # Ok(()) }
    /// ```
    pub async fn run<T, E: From<Error>>(
        &self,
        work: impl AsyncFn(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<Committed<T>, E> {
        self.run_with(RunOptions::new(), work).await
    }

    /// The same with options: how the transaction begins, how often it is tried, and until when.
    ///
    /// # Errors
    /// As [`run`](Client::run). If the deadline passes, the code is `timeout`: `NotSent` before the
    /// transaction began, `Rejected` before COMMIT was sent, `Unknown` after that.
    pub async fn run_with<T, E: From<Error>>(
        &self,
        options: RunOptions,
        work: impl AsyncFn(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<Committed<T>, E> {
        run(On::Client(self), options, work).await
    }
}

impl Session {
    /// Runs a transaction on this session, and again after a conflict: see [`Client::run`].
    ///
    /// # Errors
    /// As [`Client::run`].
    pub async fn run<T, E: From<Error>>(
        &mut self,
        work: impl AsyncFn(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<Committed<T>, E> {
        self.run_with(RunOptions::new(), work).await
    }

    /// The same with options: see [`Client::run_with`].
    ///
    /// # Errors
    /// As [`Client::run_with`].
    pub async fn run_with<T, E: From<Error>>(
        &mut self,
        options: RunOptions,
        work: impl AsyncFn(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<Committed<T>, E> {
        run(On::Session(self), options, work).await
    }
}

/// Where a transaction is run.
#[derive(Clone, Copy)]
enum On<'a> {
    Client(&'a Client),
    Session(&'a Session),
}

impl<'a> On<'a> {
    async fn begin(self, options: TransactionOptions) -> Result<Transaction<'a>, Error> {
        match self {
            On::Client(client) => client.begin_with(options).await,
            On::Session(session) => Ok(session.transaction(options)),
        }
    }
}

/// How an attempt failed.
struct Failed<E> {
    error: E,
    /// Whether it failed by a conflict, so that the next attempt may succeed.
    conflict: bool,
}

impl<E: From<Error>> Failed<E> {
    fn of(error: Error) -> Failed<E> {
        let conflict = runs_again(&error);
        Failed { error: error.into(), conflict }
    }
}

async fn run<T, E: From<Error>>(
    on: On<'_>,
    options: RunOptions,
    work: impl AsyncFn(&mut Transaction<'_>) -> Result<T, E>,
) -> Result<Committed<T>, E> {
    let deadline = options.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut retry = Retry::new(options.limits.clone(), seed());
    loop {
        let failed = match attempt(on, options.transaction, deadline, &work).await {
            Ok(value) => return Ok(Committed { value, retries: retry.failures() }),
            Err(failed) => failed,
        };
        let pause = if failed.conflict { retry.failed() } else { None };
        let Some(pause) = pause else { return Err(failed.error) };
        let Some(next) = Instant::now().checked_add(pause) else { return Err(failed.error) };
        if deadline.is_some_and(|deadline| deadline <= next) {
            return Err(failed.error);
        }
        tokio::time::sleep_until(next).await;
    }
}

async fn attempt<T, E: From<Error>>(
    on: On<'_>,
    options: TransactionOptions,
    deadline: Option<Instant>,
    work: &impl AsyncFn(&mut Transaction<'_>) -> Result<T, E>,
) -> Result<T, Failed<E>> {
    let begun = until(deadline, on.begin(options)).await;
    let mut tx = begun.unwrap_or_else(|| Err(late(Outcome::NotSent))).map_err(Failed::of)?;
    let value = match until(deadline, work(&mut tx)).await {
        Some(Ok(value)) => value,
        // Dropping the transaction rolls it back.
        Some(Err(error)) => return Err(Failed { error, conflict: tx.lead().has_conflict() }),
        None => return Err(Failed::of(late(Outcome::Rejected))),
    };
    let lead = tx.lead();
    let committed = until(deadline, tx.commit()).await;
    committed.unwrap_or_else(|| Err(late(Outcome::Unknown))).map_err(|error| {
        let conflict = lead.runs_again(&error);
        Failed { error: error.into(), conflict }
    })?;
    Ok(value)
}

/// The result of a future, or `None` if the deadline passes first.
async fn until<F: Future>(deadline: Option<Instant>, future: F) -> Option<F::Output> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, future).await.ok(),
        None => Some(future.await),
    }
}

fn late(outcome: Outcome) -> Error {
    let message = match outcome {
        Outcome::Unknown => {
            "the deadline passed before the server answered COMMIT; it may have been committed"
        }
        _ => "the deadline passed before the transaction was committed, so it was rolled back",
    };
    Error::new(Kind::Timeout, outcome, "timeout", message)
}

/// For the pauses. Without random bytes they are the same for all transactions that conflict, which
/// costs attempts and breaks nothing.
fn seed() -> u64 {
    let mut seed = [0; 8];
    let _ = getrandom::fill(&mut seed);
    u64::from_le_bytes(seed)
}
