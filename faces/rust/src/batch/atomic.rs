//! Atomic batches: a pipeline of its own, whose statements are runs of rows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use onetrip_engine::{Outcome, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::pipeline::{Limits, PipelineId, failing};
use onetrip_postgres::sql::Traits;

use super::ParameterSet;
use super::encoder::{ChunkMax, Encoder, Pause, Rows};
use super::plan::{Plan, Planned, place_of};
use super::result::{Affected, BatchError};
use crate::core::{Connection, Core};
use crate::error::SERVER_ERROR;
use crate::executor::Executor;
use crate::home::Home;
use crate::replies::{Entry, Finished, Taken};
use crate::reply::result_too_large;
use crate::rows::Blocks;
use crate::statement::Source;
use crate::statements::Use;
use crate::{Error, Kind};

/// How much of the rows goes into one request: half of what a loopback socket takes in one write.
/// With more the server would wait for the first rows; with less each row costs more.
const CHUNK_MAX: ChunkMax = ChunkMax { rows: u32::MAX, bytes: 16 << 10 };

pub(super) async fn run<I>(
    executor: Executor,
    source: Source<'_>,
    rows: I,
) -> Result<Affected, BatchError>
where
    I: Iterator,
    I::Item: ParameterSet,
{
    let Some(mut rows) = Rows::of(rows) else { return Ok(Affected::default()) };
    let executor = executor.at(place_of(&executor));
    let plan = plan(&executor, source, &rows).await?;
    executor.lead_now()?;
    let mut flight = Flight::begin(&executor, &plan).await?;
    let name = flight.statement.as_ref().map_or("", |used| used.prepared().name());
    let mut encoder = Encoder::new(plan.metadata(), name);
    let mut out = BytesMut::new();
    loop {
        flight.ready().await;
        if flight.failure.is_some() {
            break;
        }
        out.clear();
        let first = rows.index;
        let (count, pause) = encoder.fill(&mut rows, CHUNK_MAX, &mut out);
        match pause {
            Pause::Full => flight.push(first, count, &out),
            Pause::Refused(index, error) => flight.refuse(BatchError::at(index, error))?,
            Pause::Exhausted => {
                flight.push(first, count, &out);
                break;
            }
        }
    }
    // In a transaction its outcome follows what becomes of that.
    let fate = executor.lead.as_ref().map(|lead| &lead.fate);
    let result = flight.finish().await.map_err(|error| error.part_of(fate));
    plan.learn(&executor, result.as_ref().err());
    result
}

/// The plan of a batch; one trip if the server has to be asked.
pub(super) async fn plan<I>(
    executor: &Executor,
    source: Source<'_>,
    rows: &Rows<I>,
) -> Result<Plan, Error>
where
    I: Iterator,
    I::Item: ParameterSet,
{
    let nothing = || Error::misuse("no_rows", "there are no rows");
    let undescribed = match executor.plan(source, rows.first().ok_or_else(nothing)?)? {
        Planned::Now(plan) => return Ok(plan),
        Planned::Ask(undescribed) => undescribed,
    };
    let answer = undescribed.ask(executor).await?;
    undescribed.answered(&answer, rows.first().ok_or_else(nothing)?)
}

impl Plan {
    /// Remembers the metadata after a success, or forgets it after an error that it may have
    /// caused.
    pub(super) fn learn(&self, executor: &Executor, error: Option<&BatchError>) {
        let metadata_cache = &executor.context.metadata_cache;
        match error {
            None if self.is_new => metadata_cache.remember(self.metadata().clone()),
            Some(error) => metadata_cache.failed(self.metadata(), error.error()),
            None => {}
        }
    }
}

/// A pipeline that is given up unless it has ended.
struct Held {
    home: Home,
    /// No row is to come.
    finished: bool,
    ended: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        match self.ended {
            true => self.home.leave(None),
            false => self.home.abandon(),
        }
    }
}

/// The batch on its connection.
struct Flight {
    connection: Arc<Connection>,
    id: PipelineId,
    limits: Limits,
    /// `None` if it has no name, and is parsed in front of the rows.
    statement: Option<Use>,
    traits: Traits,
    /// Requests that were submitted, and whose replies were not taken yet.
    sent: VecDeque<Sent>,
    affected: Affected,
    failure: Option<BatchError>,
    /// Whether counts are missing, since even without rows a reply was too long.
    uncounted: bool,
    held: Held,
}

/// A request that was submitted.
struct Sent {
    token: Token,
    /// The number of its first row; `None` if it has no rows.
    first: Option<u64>,
}

impl Flight {
    /// Opens a pipeline, and submits what prepares the statement.
    async fn begin(executor: &Executor, plan: &Plan) -> Result<Flight, Error> {
        let mut held = Held { home: Home::of(executor), finished: false, ended: false };
        let (connection, id) = held.home.found().await?;
        let limits = executor.limits();
        let (statement, token) = connection.with(|core, now| {
            core.pipelines.is_batch(id);
            core.push_parse(now, id, plan, limits)
        })?;
        let sent = token.into_iter().map(|token| Sent { token, first: None }).collect();
        let affected = Affected::default();
        let traits = plan.metadata().traits;
        Ok(Flight {
            connection,
            id,
            limits,
            statement,
            traits,
            sent,
            affected,
            failure: None,
            uncounted: false,
            held,
        })
    }

    /// Submits rows.
    fn push(&mut self, first: u64, rows: u32, bytes: &[u8]) {
        if rows == 0 {
            return;
        }
        let used = self.statement.as_ref().map(|used| Use::of(used.prepared().clone()));
        let expect = Expect::run(rows).of_traits(self.traits);
        let (id, limits) = (self.id, self.limits);
        let pushed = self.connection.with(|core, now| {
            let token = core.pipeline_push(now, id, (expect, used), bytes, limits)?;
            core.replies.entry(token).into_iter().for_each(Entry::skim);
            Ok(token)
        });
        self.note(pushed, Some(first));
    }

    fn note(&mut self, pushed: Result<Token, Error>, first: Option<u64>) {
        match pushed {
            Ok(token) => self.sent.push_back(Sent { token, first }),
            Err(error) => drop(self.failure.get_or_insert(error.into())),
        }
    }

    /// A row can't be written. If rows were sent, a statement that must fail is sent, so that the
    /// server undoes them; otherwise nothing is sent.
    fn refuse(&mut self, error: BatchError) -> Result<(), BatchError> {
        let (id, limits) = (self.id, self.limits);
        let request = (Expect::sync().execute(), None);
        let pushed = self.connection.with(|core, now| {
            let any_left = core.pipelines.has_group(id);
            any_left.then(|| core.pipeline_push(now, id, request, &failing(), limits))
        });
        let Some(pushed) = pushed else { return Err(error) };
        self.failure.get_or_insert(error);
        self.note(pushed, None);
        Ok(())
    }

    /// Resolves when more rows would be sent, or when no more are to be sent.
    async fn ready(&mut self) {
        let (id, limits) = (self.id, self.limits);
        let ready = std::future::poll_fn(|cx| {
            let polled = self.poll(cx, |core, now, cx| core.pipeline_ready(now, id, limits, cx));
            if self.failure.is_some() { Poll::Ready(Ok(())) } else { polled }
        })
        .await;
        if let Err(error) = ready {
            self.failure.get_or_insert(error.into());
        }
    }

    /// Sends the sync point, and resolves when everything was answered. If the answer is late,
    /// nothing may be committed any more.
    async fn finish(mut self) -> Result<Affected, BatchError> {
        let is_late = |failure: &BatchError| failure.error().kind() == Kind::Timeout;
        if self.failure.as_ref().is_some_and(is_late) {
            return self.failure.take().map_or(Ok(Affected::default()), Err);
        }
        let id = self.id;
        self.held.finished = true;
        let (token, given_up) = self.connection.with(|core, now| {
            let token = core.pipelined(now, |pipelines, io| pipelines.finish(io, id));
            (token, core.pipelines.failure(id).filter(|_| token.is_none()))
        });
        let Some(token) = token else {
            // There is no answer to wait for: there were no rows, or they were given up meanwhile.
            self.held.ended = true;
            let failure = self.failure.take().or_else(|| given_up.map(BatchError::from));
            return failure.map_or(Ok(Affected::default()), Err);
        };
        self.sent.push_back(Sent { token, first: None });
        let end = std::future::poll_fn(|cx| self.poll_end(cx)).await;
        self.held.ended = true;
        match (self.failure.take(), end) {
            (None, Ok(_)) if self.uncounted => {
                Err(result_too_large(&self.connection.context.options).into())
            }
            (None, Ok(_)) => Ok(std::mem::take(&mut self.affected)),
            (None, Err(error)) => Err(error.into()),
            (Some(failure), Ok(_)) => Err(failure),
            (Some(failure), Err(error)) => Err(self.judge(failure, &error)),
        }
    }

    /// The outcome of the whole batch is that of its sync point.
    fn judge(&self, failure: BatchError, at_sync: &Error) -> BatchError {
        let known = self.connection.with_local(|core| core.pipelines.failure(self.id));
        let outcome = match at_sync.outcome() {
            Outcome::NotSent => known.map_or(Outcome::Unknown, |error| error.outcome()),
            outcome => outcome,
        };
        failure.with_outcome(outcome)
    }

    /// Resolves with the last reply, which answers the sync point.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<Finished, Error>> {
        let mut last = None;
        let _ = self.poll_with(cx, |_, _, _| Poll::Ready(()), &mut last);
        match (self.sent.is_empty(), last) {
            (true, Some(result)) => Poll::Ready(result),
            _ => Poll::Pending,
        }
    }

    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        ask: impl FnOnce(&mut Core, Time, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.poll_with(cx, ask, &mut None)
    }

    /// Takes the replies that have come, and calls `f` for what is next. Returns how the last of
    /// them ended.
    fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        ask: impl FnOnce(&mut Core, Time, &mut Context<'_>) -> Poll<T>,
        last: &mut Option<Result<Finished, Error>>,
    ) -> Poll<T> {
        let (sent, mut taken) = (&mut self.sent, Vec::new());
        let polled = self.connection.with(|core, now| {
            while let Some(Sent { token, first }) = sent.front()
                && core.replies.poll_ended(*token, cx)
            {
                taken.push((*first, core.take_member(now, *token)));
                sent.pop_front();
            }
            core.settle(now);
            let polled = ask(core, now, cx);
            core.write_on_await(now);
            polled
        });
        for (first, Taken { blocks, result, too_large, .. }) in taken {
            self.uncounted |= too_large;
            *last = Some(result.clone());
            self.take(first, &blocks, result);
        }
        polled
    }

    fn take(&mut self, first: Option<u64>, blocks: &Blocks, result: Result<Finished, Error>) {
        let before = self.affected.len();
        self.affected.take(blocks);
        let Err(error) = result else { return };
        // If the connection or the clock failed, it is not the fault of a row.
        let first = first.filter(|_| error.code() == SERVER_ERROR);
        let done = self.affected.len() - before;
        if self.failure.is_none() && !self.held.finished || first.is_some() {
            self.failure.get_or_insert_with(|| match first {
                Some(first) => BatchError::at(first + done, error),
                None => error.into(),
            });
        }
    }
}

impl Drop for Flight {
    /// Replies that were not taken are dropped as they come.
    fn drop(&mut self) {
        let sent = std::mem::take(&mut self.sent);
        self.connection.with(|core, now| {
            sent.into_iter().for_each(|sent| core.drop_reply(now, sent.token));
        });
    }
}

impl Core {
    /// Adds what prepares the statement of a batch, if this connection does not have it.
    fn push_parse(
        &mut self,
        now: Time,
        id: PipelineId,
        plan: &Plan,
        limits: Limits,
    ) -> Result<(Option<Use>, Option<Token>), Error> {
        let mut out = BytesMut::new();
        let scope = self.pipelines.scope(id);
        let used = self.prepare_ahead(&plan.bound, scope, plan.shared, &mut out)?.used();
        let again = used.as_ref().map(|used| Use::of(used.prepared().clone()));
        if out.is_empty() {
            return Ok((again, None));
        }
        let request = (Expect::sync().parse().describe_statement(), used);
        let token = self.pipeline_push(now, id, request, &out, limits)?;
        Ok((again, Some(token)))
    }

    fn take_member(&mut self, now: Time, token: Token) -> Taken {
        let taken = self.replies.take(token);
        if let Some(member) = taken.member {
            self.pipeline_taken(now, member, taken.blocks.len());
        }
        taken
    }
}
