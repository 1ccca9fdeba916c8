//! Repeatable statements, which are sent again when their connection is lost.

use std::fmt::Debug;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use onetrip_engine::pool::{Hedge, Repeats, TextKey};
use onetrip_engine::{Time, Token};

use crate::core::{Connection, Core};
use crate::error::CONNECTION_LOST;
use crate::executor::{Executor, Target};
use crate::first_use::FirstUse;
use crate::hedge::Hedging;
use crate::kept::Kept;
use crate::pool::{Pool, QueueEntry, Work, runtime_gone};
use crate::replies::Taken;
use crate::{Error, Kind, Outcome};

/// What is needed to send a statement again.
#[derive(Debug)]
pub(crate) struct Repeat {
    executor: Executor,
    again: Again,
    /// Whether it may be sent a second time while the first answer may still come.
    hedged: bool,
}

#[derive(Debug)]
pub(crate) enum Again {
    /// As it was encoded.
    Encoded(Kept),
    /// With a Describe in front.
    Asking(Box<FirstUse>),
}

/// How a read on a replica goes to another server.
pub(crate) trait Moves: Debug + Send + Sync {
    /// It ended with this error. Returns its place in line where it goes next, if anywhere.
    fn next(&self, error: &Error) -> Option<Arc<QueueEntry>>;
    /// The replica refused the format of a column: the primary is asked which it has.
    fn ask(&self, first_use: Box<FirstUse>) -> Arc<QueueEntry>;
}

impl Again {
    fn key(&self) -> TextKey {
        match self {
            Again::Encoded(kept) => kept.key,
            Again::Asking(first_use) => first_use.key(),
        }
    }
}

impl Repeat {
    pub(crate) fn new(executor: Executor, again: Again, hedged: bool) -> Repeat {
        let repeat = Repeat { executor, again, hedged };
        if let Some(pool) = repeat.pool().filter(|_| hedged) {
            pool.hedges().earn();
        }
        repeat
    }

    /// Sends it a second time, if its answer on the connection `first` is late.
    pub(crate) fn hedge(
        &self,
        first: &Arc<Connection>,
        deadline: Time,
    ) -> Hedge<(Arc<Connection>, Token)> {
        let Some(pool) = self.pool() else { return Hedge::At(Time::NEVER) };
        let submit = |core: &mut Core, now| {
            let token = self.executor.submit_again(core, now, &self.again, deadline);
            core.count_hedge(token.is_ok());
            token
        };
        pool.try_hedge(self.again.key(), first, submit)
    }

    fn pool(&self) -> Option<&Arc<Pool>> {
        match &self.executor.target {
            Target::Any(pool) => Some(pool),
            Target::One(_) => None,
        }
    }
}

/// The repeats of one reply's statement.
#[derive(Debug)]
pub(crate) struct Repeating {
    repeat: Arc<Repeat>,
    deadline: Time,
    repeats: u32,
    may_have_run: bool,
    /// How long it may still wait for connections, if it has no deadline.
    waits_max: Duration,
    hedging: Hedging,
}

impl Repeating {
    pub(crate) fn new(repeat: Repeat, deadline: Time) -> Repeating {
        let hedging = if repeat.hedged { Hedging::Waits(None) } else { Hedging::Over };
        let waits_max = repeat.pool().map_or(Duration::ZERO, |pool| pool.wait_timeout());
        let repeat = Arc::new(repeat);
        Repeating { repeat, deadline, repeats: 0, may_have_run: false, waits_max, hedging }
    }

    /// Ready with the hedged answer, if that comes before the first one.
    pub(crate) fn poll_hedge(
        &mut self,
        first: &Arc<Connection>,
        cx: &mut Context<'_>,
    ) -> Poll<(Arc<Connection>, Taken)> {
        let Repeating { repeat, deadline, hedging, .. } = self;
        hedging.poll(|| repeat.hedge(first, *deadline), || first.now(), cx)
    }

    /// Stops waiting for the hedged answer.
    pub(crate) fn end_hedge(&mut self) {
        self.hedging.end();
    }

    /// From now on it is sent with a Describe, since the server refused the format of a column.
    pub(crate) fn ask(&mut self, first_use: &FirstUse) {
        let mut first_use = Box::new(first_use.clone());
        first_use.lacks_binary_form = true;
        let executor = self.repeat.executor.clone();
        self.repeat = Arc::new(Repeat { executor, again: Again::Asking(first_use), hedged: false });
        self.hedging = Hedging::Over;
    }

    /// Counts time for which it has waited for a connection.
    pub(crate) fn waited(&mut self, waited: Duration) {
        self.waits_max = self.waits_max.saturating_sub(waited);
    }

    /// The statement ended with this error, `on` this connection if it had one. If it is sent
    /// again, returns its place in line for that.
    pub(crate) fn again(
        &mut self,
        error: &Error,
        on: Option<&Connection>,
    ) -> Option<Arc<QueueEntry>> {
        self.may_have_run |= error.outcome() == Outcome::Unknown;
        let pool = self.repeat.pool().filter(|pool| is_lost(error) && !pool.is_closed())?;
        let pause = Repeats::default().pause(self.repeats + 1, random())?;
        // The loss may be long past, if the reply was awaited late.
        let since = on.map_or(Duration::ZERO, |on| pool.now().since(on.lock().ended_at));
        let pause = pause.saturating_sub(since);
        let waits = self.deadline != Time::NEVER || !self.waits_max.is_zero();
        if !waits || pool.now().after(pause) >= self.deadline {
            return None;
        }
        self.repeats += 1;
        Some(Resubmission::begin(pool, self, pause))
    }

    /// Its last error. If an earlier attempt may have run, the outcome is `Unknown`.
    pub(crate) fn last(&self, error: Error) -> Error {
        let outcome = error.outcome().over_attempts(self.may_have_run);
        error.with_outcome(outcome)
    }
}

/// Whether a statement ended with its connection, and was not itself the reason.
fn is_lost(error: &Error) -> bool {
    error.code() == CONNECTION_LOST && matches!(error.kind(), Kind::Transport | Kind::Server)
}

/// For the pauses. Without random bytes, statements that were lost together are repeated together.
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
        let queue_entry = QueueEntry::new(pool.clone());
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
            let key = repeat.again.key();
            let work = Work::new(move |_, core, now| {
                repeat.executor.submit_again(core, now, &repeat.again, deadline)
            });
            let in_line_until = match deadline {
                Time::NEVER => pool.now().after(self.waits_max),
                deadline => deadline,
            };
            pool.run_for(&self.queue_entry, key, work, in_line_until);
        }
    }
}

impl Drop for Resubmission {
    /// The runtime may be shut down: whoever waits is answered.
    fn drop(&mut self) {
        if self.repeat.is_some()
            && let Some(waker) = self.queue_entry.fail(runtime_gone())
        {
            waker.wake();
        }
    }
}
