//! Isolated batches: each row is a transaction of its own, with a Sync behind it.
//!
//! A run of rows is one request to the engine, in the queue like any other, so a batch shares its
//! connection with other callers. It stays on one connection for as long as that takes shared
//! statements: on several the rows would have no order. While no request of the batch is in flight
//! the pool may give that connection to a session. So each submission checks that under the same
//! lock; and a batch to which it happened takes a connection of its own, since another shared one
//! could go the same way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use onetrip_engine::pool::TextKey;
use onetrip_engine::{Outcome, Request, Time, Token};
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{SYNC, bind};
use onetrip_postgres::sql::Place;
use onetrip_postgres::{Expect, Names};

use super::ParameterSet;
use super::atomic::plan;
use super::encoder::{ChunkMax, Encoder, Pause, Rows};
use super::plan::Plan;
use super::result::{BatchError, BatchReport, count_of, error_of};
use crate::core::{Connection, Core, Duty};
use crate::executor::{Executor, Target};
use crate::pool::Work;
use crate::replies::Taken;
use crate::reply::result_too_large;
use crate::rows::Blocks;
use crate::session::Session;
use crate::statement::Source;
use crate::statements::{Scope, Use};
use crate::{Error, Kind};

/// How much of the rows goes into one request. Others on the connection wait for at most this many
/// transactions before their own statement runs.
const CHUNK_MAX: ChunkMax = ChunkMax { rows: 64, bytes: 16 << 10 };

/// How many requests are in flight at most, so that the server always has work. At this number, the
/// next is sent once half are left.
const CHUNKS_MAX: usize = 8;

pub(super) async fn run<I>(executor: Executor, source: Source<'_>, rows: I) -> BatchReport
where
    I: Iterator,
    I::Item: ParameterSet,
{
    let Some(mut rows) = Rows::of(rows) else { return BatchReport::default() };
    let mut report = BatchReport::default();
    if executor.place == (Place::Session { in_transaction: true }) {
        report.stopped = Some(in_transaction());
        return report;
    }
    let plan = match plan(&executor, source, &rows).await {
        Ok(plan) => plan,
        Err(error) => {
            report.stopped = Some(error);
            return report;
        }
    };
    let mut lane =
        Lane { executor: &executor, plan: &plan, on: None, sent: VecDeque::new(), report };
    lane.send_all(&mut rows).await;
    let report = std::mem::take(&mut lane.report);
    drop(lane);
    if report.stopped.is_none() {
        plan.learn(&executor, report.errors.first());
    }
    report
}

/// The connection of the rows, and their results.
struct Lane<'a> {
    executor: &'a Executor,
    plan: &'a Plan,
    on: Option<On>,
    sent: VecDeque<Sent>,
    report: BatchReport,
}

/// The connection, and the statement there.
struct On {
    connection: Arc<Connection>,
    /// `None` if each row carries the text.
    statement: Option<Use>,
    /// What was known of names when that was chosen.
    names: Names,
    encoder: Encoder,
    /// Set if the connection belongs to this batch alone.
    own: Option<Session>,
}

/// A request in flight; one without rows prepares the statement.
struct Sent {
    connection: Arc<Connection>,
    token: Token,
    rows: u32,
    /// Whether each row carries its text.
    by_text: bool,
}

impl Lane<'_> {
    async fn send_all<I>(&mut self, rows: &mut Rows<I>)
    where
        I: Iterator,
        I::Item: ParameterSet,
    {
        let mut out = BytesMut::new();
        let mut exhausted = false;
        while !exhausted && self.report.stopped.is_none() {
            if let Err(error) = self.open().await {
                self.report.stopped = Some(error);
                break;
            }
            out.clear();
            let Some(On { encoder, .. }) = &mut self.on else { break };
            let (count, pause) = encoder.fill(rows, CHUNK_MAX, &mut out);
            self.push(count, &out).await;
            match pause {
                Pause::Full => {}
                Pause::Refused(index, error) => self.refused(index, error).await,
                Pause::Exhausted => exhausted = true,
            }
            if self.sent.len() >= CHUNKS_MAX {
                self.wait_until(CHUNKS_MAX / 2).await;
            }
        }
        self.wait_until(0).await;
    }

    /// Makes sure that there is a connection that takes rows. If the old one takes no more, its
    /// replies are awaited first, so that rows stay in order.
    async fn open(&mut self) -> Result<(), Error> {
        if self.on.as_ref().is_some_and(|on| on.takes_rows(self.executor)) {
            return Ok(());
        }
        self.on = None;
        self.wait_until(0).await;
        if let Some(stopped) = &self.report.stopped {
            return Err(stopped.clone());
        }
        let connection = connection(self.executor).await?;
        match self.open_on(connection, None) {
            Some(opened) => opened,
            None => self.open_own().await,
        }
    }

    /// Takes a connection that no session can get.
    async fn open_own(&mut self) -> Result<(), Error> {
        let Target::Any(pool) = &self.executor.target else { return Ok(()) };
        let connection = pool.checkout(self.executor.deadline_now()).await?;
        let own = Session::new(connection.clone());
        self.open_on(connection, Some(own)).unwrap_or(Ok(()))
    }

    /// Prepares the statement on a connection; `None` if the pool has given the connection away.
    fn open_on(
        &mut self,
        connection: Arc<Connection>,
        own: Option<Session>,
    ) -> Option<Result<(), Error>> {
        let is_own = own.is_some();
        let prepared = connection.with(|core, now| {
            let given_away = !is_own && is_given_away(core, self.executor);
            let names = core.engine.protocol_mut().names();
            (!given_away).then(|| self.prepare_on(core, now).map(|prepared| (names, prepared)))
        })?;
        Some(prepared.and_then(|(names, (statement, token))| {
            if let Some(token) = token {
                let connection = connection.clone();
                self.sent.push_back(Sent { connection, token, rows: 0, by_text: false });
            }
            let name = statement.as_ref().map(|used| used.prepared().name());
            let encoder = Encoder::isolated(self.plan.metadata(), name)?;
            self.on = Some(On { connection, statement, names, encoder, own });
            Ok(())
        }))
    }

    /// Submits what prepares the statement, if the connection does not have it and a name can be
    /// used.
    fn prepare_on(
        &self,
        core: &mut Core,
        now: Time,
    ) -> Result<(Option<Use>, Option<Token>), Error> {
        let mut out = BytesMut::new();
        let bound = &self.plan.bound;
        let way = core.prepare_ahead(bound, Scope::Fixed, self.plan.shared, &mut out)?;
        let Some(used) = way.used() else { return Ok((None, None)) };
        let again = Some(Use::of(used.prepared().clone()));
        if !used.parses() {
            return Ok((again, None));
        }
        out.extend_from_slice(&SYNC);
        let expect = Expect::sync().parse().describe_statement();
        Ok((again, Some(self.submit(core, now, expect, Some(used), &out)?)))
    }

    fn submit(
        &self,
        core: &mut Core,
        now: Time,
        expect: Expect,
        used: Option<Use>,
        bytes: &[u8],
    ) -> Result<Token, Error> {
        if let Target::One(_) = &self.executor.target {
            core.check_not_behind_itself()?;
        }
        let token = core.replies.add();
        if let Some(entry) = core.replies.entry(token) {
            entry.statement = used;
            entry.skim();
        }
        let deadline = self.executor.deadline(now);
        let request = Request { deadline, ..Request::isolated(token, expect) };
        let refuse = self.executor.context.options.refuse_when_full;
        let submitted = core.submit_one(now, request, bytes, refuse);
        submitted.inspect_err(|_| core.replies.remove(token))?;
        Ok(token)
    }

    async fn push(&mut self, rows: u32, bytes: &[u8]) {
        if rows == 0 {
            return;
        }
        let submitted = match self.push_on(rows, bytes) {
            Some(submitted) => submitted,
            None => self.push_elsewhere(rows, bytes).await,
        };
        if let Err(error) = submitted {
            // The results of earlier rows are reported first.
            self.wait_until(0).await;
            (0..rows).for_each(|_| self.row(Err(error.clone())));
            self.report.stopped.get_or_insert(error);
        }
    }

    /// Submits rows; `None` if the connection was given away since they were written.
    fn push_on(&mut self, rows: u32, bytes: &[u8]) -> Option<Result<(), Error>> {
        let On { connection, statement, encoder, own, .. } = self.on.as_ref()?;
        let (connection, is_own) = (connection.clone(), own.is_some());
        let metadata = self.plan.metadata();
        let takes = |used: &&Use| {
            if !metadata.oids.contains(&0) {
                return true;
            }
            let is_utc = connection.with(|core, _| core.is_utc());
            let each = |values| used.prepared().takes(&metadata.exactness(values, is_utc));
            bind::binds(bytes).all(each)
        };
        let named = statement.as_ref().filter(takes);
        let used = named.map(|used| Use::of(used.prepared().clone()));
        let by_text = used.is_none();
        // Values that could mean something else by now are sent with the text.
        let texts = (by_text && statement.is_some())
            .then(|| Ok(Encoder::isolated(metadata, None)?.rewrite(bytes, encoder)));
        let bytes = match &texts {
            None => bytes,
            Some(Ok(texts)) => texts,
            Some(Err::<_, Error>(error)) => return Some(Err(error.clone())),
        };
        let expect = match by_text {
            true => Expect::isolated_run_of_texts(rows),
            false => Expect::isolated_run(rows),
        };
        let submitted = connection.with(|core, now| {
            let given_away = !is_own && is_given_away(core, self.executor);
            (!given_away).then(|| self.submit(core, now, expect, used, bytes))
        })?;
        Some(submitted.map(|token| self.sent.push_back(Sent { connection, token, rows, by_text })))
    }

    /// The rows were taken from their iterator already, so their bytes are rewritten for another
    /// connection.
    async fn push_elsewhere(&mut self, rows: u32, bytes: &[u8]) -> Result<(), Error> {
        let before = self.on.take();
        self.wait_until(0).await;
        if let Some(stopped) = &self.report.stopped {
            return Err(stopped.clone().with_outcome(Outcome::NotSent));
        }
        self.open_own().await?;
        let (Some(before), Some(on)) = (before, &self.on) else { return Ok(()) };
        let rewritten = on.encoder.rewrite(bytes, &before.encoder);
        self.push_on(rows, &rewritten).unwrap_or(Ok(()))
    }

    /// A row can't be written: its error is reported in the order of the rows.
    async fn refused(&mut self, index: u64, error: Error) {
        self.wait_until(0).await;
        if self.report.affected.len() == index {
            self.row(Err(error));
        }
    }

    /// Takes replies until at most `sent_max` requests are in flight.
    async fn wait_until(&mut self, sent_max: usize) {
        while self.sent.len() > sent_max {
            let Some(Sent { connection, token, .. }) = self.sent.front() else { return };
            let (connection, token) = (connection.clone(), *token);
            let taken = std::future::poll_fn(|cx| poll_reply(&connection, token, cx)).await;
            let Some(Sent { rows, by_text, .. }) = self.sent.pop_front() else { return };
            self.take(rows, by_text, taken);
        }
    }

    /// Reads the results of the rows of one request.
    fn take(&mut self, rows: u32, by_text: bool, Taken { blocks, result, too_large, .. }: Taken) {
        let before = self.report.affected.len();
        self.read(&blocks, by_text);
        let read = self.report.affected.len() - before;
        let uncounted = || result_too_large(&self.executor.context.options);
        let error = match result {
            Err(error) => error,
            // Which of the rows failed is not known either.
            Ok(_) if too_large => uncounted().with_outcome(Outcome::Unknown),
            Ok(_) => return,
        };
        // The reply says nothing of the other rows.
        (read..u64::from(rows)).for_each(|_| self.row(Err(error.clone())));
        self.report.stopped.get_or_insert(error);
    }

    fn read(&mut self, blocks: &Blocks, by_text: bool) {
        let partial = self.plan.metadata().traits.partial_effects();
        let refused = if partial { Outcome::Unknown } else { Outcome::Rejected };
        let mut row = Ok(0);
        let (mut any, mut parsed) = (false, !by_text);
        for (tag, body) in blocks.messages() {
            match tag {
                backend::COMMAND_COMPLETE => row = Ok(count_of(body)),
                backend::PARSE_COMPLETE => parsed = true,
                backend::ERROR_RESPONSE => {
                    let error = error_of(body, refused);
                    if !parsed {
                        // It is not the fault of a row.
                        self.report.stopped.get_or_insert_with(|| error.clone());
                    }
                    row = Err(error);
                }
                backend::BIND_COMPLETE => {}
                backend::READY_FOR_QUERY if any => {
                    self.row(std::mem::replace(&mut row, Ok(0)));
                    parsed = !by_text;
                }
                _ => {}
            }
            any |= matches!(tag, backend::BIND_COMPLETE | backend::ERROR_RESPONSE);
        }
    }

    /// Adds the result of the next row.
    fn row(&mut self, result: Result<u64, Error>) {
        let index = self.report.affected.len();
        // If the statement could not be prepared, each row fails with 26000; the reason is reported
        // instead.
        let result = result.map_err(|error| match &self.report.stopped {
            Some(why) if error.sqlstate() == Some("26000") => why.clone(),
            _ => error,
        });
        self.report.affected.push(*result.as_ref().unwrap_or(&0));
        self.report.errors.extend(result.err().map(|error| BatchError::at(index, error)));
    }
}

impl On {
    /// Whether the connection takes more rows, and would still use the statement in the same way.
    fn takes_rows(&self, executor: &Executor) -> bool {
        let any = matches!(executor.target, Target::Any(_)) && self.own.is_none();
        let is_over = |used: &Use| used.prepared().is_over();
        !self.statement.as_ref().is_some_and(is_over)
            && self.connection.with_local(|core| {
                core.engine.is_open()
                    && (!any || core.duty == Duty::Shared)
                    && core.engine.protocol_mut().names() == self.names
            })
    }
}

/// Whether the pool has given the connection to one caller since it was chosen. If a caller only
/// waits for it, it still takes what comes now.
fn is_given_away(core: &Core, executor: &Executor) -> bool {
    matches!(executor.target, Target::Any(_))
        && core.engine.is_open()
        && !matches!(core.duty, Duty::Shared | Duty::Draining)
}

/// A connection that takes shared statements, or that of the session.
async fn connection(executor: &Executor) -> Result<Arc<Connection>, Error> {
    let pool = match &executor.target {
        Target::One(connection) => return Ok(connection.clone()),
        Target::Any(pool) => pool,
    };
    if let Some((connection, ())) = pool.try_run(TextKey::UNTOLD, |_, _| ()) {
        return Ok(connection);
    }
    let work = Work::new(|_, _, _| Ok(Token::DISCARD));
    let queue_entry = pool.run_later(TextKey::UNTOLD, work, executor.deadline_now());
    let waits = Waits(queue_entry);
    let (connection, _) = std::future::poll_fn(|cx| waits.0.poll(cx)).await?;
    Ok(connection)
}

/// A place in line, which is left when this is dropped.
struct Waits(Arc<crate::pool::QueueEntry>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

fn poll_reply(connection: &Connection, token: Token, cx: &mut Context<'_>) -> Poll<Taken> {
    connection.with(|core, now| {
        core.settle(now);
        core.write_on_await(now);
        match core.replies.poll_ended(token, cx) {
            true => Poll::Ready(core.replies.take(token)),
            false => Poll::Pending,
        }
    })
}

fn in_transaction() -> Error {
    Error::new(
        Kind::Misuse,
        Outcome::NotSent,
        "isolated_in_transaction",
        "the rows of a batch can't be isolated inside a transaction, which fails as a whole: use \
         atomic(), or a session without a transaction",
    )
}

impl Drop for Lane<'_> {
    /// Requests that were not sent are taken back; replies to the others are dropped as they come.
    fn drop(&mut self) {
        for Sent { connection, token, .. } in self.sent.drain(..) {
            connection.with(|core, now| core.drop_reply(now, token));
        }
    }
}
