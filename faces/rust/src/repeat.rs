//! Statements of which the caller says that they may run twice.

use std::sync::Arc;
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_engine::pool::Repeats;

use crate::core::Connection;
use crate::error::CONNECTION_LOST;
use crate::executor::{Executor, Kept, Target};
use crate::first_use::FirstUse;
use crate::params::Params;
use crate::pool::{Pool, QueueEntry, Work, runtime_gone};
use crate::reply::{FromReply, Reply};
use crate::{Client, Error, Kind, Outcome, Row, Rows, ToStatement};

/// A client's statements of which the caller says that running them twice does no harm: made by
/// [`Client::repeatable`].
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
/// **It is sent again if its connection is lost**, on another one, up to three times, each after a
/// longer pause since the loss (20 ms, 160 ms, 1.28 s, or down to half of that) and within its
/// `request_timeout`; without one, it waits for connections for `wait_timeout` in all. Only then:
/// an error of the statement's own is reported as it comes, and so is the end of a connection that
/// was given up for what somebody had sent on it. If it fails in the end and was sent before, its
/// outcome is `Unknown` whatever the last error was, since an earlier attempt may have run. A
/// dropped [`Reply`] sends nothing again.
///
/// **Neighbouring reads share a sync point**, which costs the server less: up to 64 of those that
/// are written together, and none waits for others to come. A read here is a single SELECT, VALUES,
/// TABLE or WITH that shows no INTO, no row locks and no writing WITH; anything else keeps a sync
/// point of its own. If one fails, the others are run again, each by itself, so a caller sees
/// nothing but its own error. What can be noticed all the same:
///
/// * Those that share one are one transaction to the server: each sees what was committed when it
///   began (READ COMMITTED), `now()` is the same for all, and locks are held to the end of the last.
///   A function that changes its transaction (`set_config(…, true)`, `pg_advisory_xact_lock`) does
///   so for those behind it, too.
/// * A reply is complete when the last of them has been answered: a fast read may wait for a slow
///   one.
///
/// There is no `repeatable` on a [`Session`](crate::Session), a transaction or a pipeline: their
/// connection, and the order of what is on it, is part of what a statement means there.
#[derive(Clone, Copy, Debug)]
pub struct Repeatable<'a> {
    client: &'a Client,
    timeout: Option<Duration>,
}

impl<'a> Repeatable<'a> {
    pub(crate) fn new(client: &'a Client) -> Repeatable<'a> {
        Repeatable { client, timeout: None }
    }

    /// The same with a deadline of its own for each statement, in place of the client's
    /// [`request_timeout`](crate::config::Settings::request_timeout). It covers all attempts and
    /// the pauses between them. A late statement that shares a sync point is cancelled at the
    /// server once nobody waits for any of those that share it.
    pub fn timeout(&self, timeout: Duration) -> Repeatable<'a> {
        Repeatable { timeout: Some(timeout), ..*self }
    }

    fn run<T: FromReply>(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<T> {
        let executor = self.client.executor();
        match self.timeout {
            Some(timeout) => executor.within(timeout).run_repeatable(statement, params),
            None => executor.run_repeatable(statement, params),
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

    /// Runs a statement that returns one row. None, or more than one, is an error (`Applied`).
    pub fn query_one(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Row> {
        self.run(statement, params)
    }

    /// Runs a statement that returns one row or none.
    pub fn query_opt(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Option<Row>> {
        self.run(statement, params)
    }

    /// Runs a statement and returns how many rows it inserted, updated, deleted or returned: those
    /// of its last run.
    pub fn execute(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<u64> {
        self.run(statement, params)
    }
}

/// What it takes to send a statement again.
#[derive(Debug)]
pub(crate) struct Repeat {
    executor: Executor,
    again: Again,
}

#[derive(Debug)]
pub(crate) enum Again {
    /// As it was encoded.
    Encoded(Kept),
    /// With a Describe in front.
    Asking(Box<FirstUse>),
}

impl Repeat {
    pub(crate) fn new(executor: Executor, again: Again) -> Repeat {
        Repeat { executor, again }
    }

    fn pool(&self) -> Option<&Arc<Pool>> {
        match &self.executor.target {
            Target::Any(pool) => Some(pool),
            Target::One(_) => None,
        }
    }
}

/// A reply's side of it: how often it was sent.
#[derive(Debug)]
pub(crate) struct Repeating {
    repeat: Arc<Repeat>,
    deadline: Time,
    repeats: u32,
    may_have_run: bool,
    /// How long it may still wait for a connection, where it has no deadline.
    waits_max: Duration,
}

impl Repeating {
    pub(crate) fn new(repeat: Repeat, deadline: Time) -> Repeating {
        let waits_max = repeat.pool().map_or(Duration::ZERO, |pool| pool.wait_timeout());
        let repeat = Arc::new(repeat);
        Repeating { repeat, deadline, repeats: 0, may_have_run: false, waits_max }
    }

    /// It is asked about from now on, since the server refused the format of a column.
    pub(crate) fn ask(&mut self, first_use: &FirstUse) {
        let mut first_use = Box::new(first_use.clone());
        first_use.lacks_binary_form = true;
        let executor = self.repeat.executor.clone();
        self.repeat = Arc::new(Repeat::new(executor, Again::Asking(first_use)));
    }

    /// It has waited for a connection.
    pub(crate) fn waited(&mut self, waited: Duration) {
        self.waits_max = self.waits_max.saturating_sub(waited);
    }

    /// It has ended with this error, `on` this connection if it had come so far. Where it will be
    /// sent again, says where it waits for that.
    pub(crate) fn again(
        &mut self,
        error: &Error,
        on: Option<&Connection>,
    ) -> Option<Arc<QueueEntry>> {
        self.may_have_run |= error.outcome() == Outcome::Unknown;
        let pool = self.repeat.pool().filter(|pool| is_lost(error) && !pool.is_closed())?;
        let pause = Repeats::default().pause(self.repeats + 1, random())?;
        // It may be long ago by now, for one whose turn to be awaited came late.
        let since = on.map_or(Duration::ZERO, |on| pool.now().since(on.lock().ended_at));
        let pause = pause.saturating_sub(since);
        let waits = self.deadline != Time::NEVER || !self.waits_max.is_zero();
        if !waits || pool.now().after(pause) >= self.deadline {
            return None;
        }
        self.repeats += 1;
        Some(Resubmission::begin(pool, self, pause))
    }

    /// What is known of it in the end: an earlier attempt may have run.
    pub(crate) fn last(&self, error: Error) -> Error {
        match self.may_have_run && error.outcome() != Outcome::Applied {
            true => error.with_outcome(Outcome::Unknown),
            false => error,
        }
    }
}

/// Whether a statement ended with its connection, through no fault of what was sent on it.
fn is_lost(error: &Error) -> bool {
    error.code() == CONNECTION_LOST && matches!(error.kind(), Kind::Transport | Kind::Server)
}

/// Without any, those that were lost together come back together.
fn random() -> u64 {
    let mut seed = [0; 8];
    let _ = getrandom::fill(&mut seed);
    u64::from_le_bytes(seed)
}

/// A statement that pauses before it is sent again.
struct Resubmission {
    queue_entry: Arc<QueueEntry>,
    /// `None` once it was submitted.
    repeat: Option<Arc<Repeat>>,
    deadline: Time,
    waits_max: Duration,
}

impl Resubmission {
    fn begin(pool: &Arc<Pool>, of: &Repeating, pause: Duration) -> Arc<QueueEntry> {
        let queue_entry = QueueEntry::new(pool);
        let (repeat, deadline, waits_max) = (Some(of.repeat.clone()), of.deadline, of.waits_max);
        let waiting =
            Resubmission { queue_entry: queue_entry.clone(), repeat, deadline, waits_max };
        pool.spawn(async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            waiting.submit();
        });
        queue_entry
    }

    fn submit(mut self) {
        let deadline = self.deadline;
        if let Some(repeat) = self.repeat.take()
            && let Some(pool) = repeat.pool().cloned()
            && !self.queue_entry.is_given_up()
        {
            let work = Work::new(move |_, core, now| {
                repeat.executor.submit_again(core, now, &repeat.again, deadline)
            });
            let in_line_until = match deadline {
                Time::NEVER => pool.now().after(self.waits_max),
                deadline => deadline,
            };
            pool.run_for(&self.queue_entry, work, in_line_until);
        }
    }
}

impl Drop for Resubmission {
    /// The runtime is shut down: nobody may wait for it then.
    fn drop(&mut self) {
        if self.repeat.is_some()
            && let Some(waker) = self.queue_entry.fail(runtime_gone())
        {
            waker.wake();
        }
    }
}
