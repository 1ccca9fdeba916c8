//! Pipelines: statements that share sync points.

use std::sync::Arc;

use onetrip_engine::pool::TextKey;
use onetrip_postgres::client::pipeline::{self, PipelineId, PipelineStatus, Why};
use onetrip_postgres::sql::{Place, Refusal, Traits};

use crate::canceller::Canceller;
use crate::core::{Connection, Core};
use crate::executor::{Encoded, Executor, Unready, with_scratch};
use crate::home::{Home, Statement};
use crate::params::Params;
use crate::reply::{FromReply, Reply};
use crate::rows::{Row, Rows};
use crate::statement::{Source, ToStatement};
use crate::trace::Span;
use crate::{Error, Kind, Outcome};

/// Statements that share one trip, and one transaction from sync point to sync point.
///
/// Adding a statement returns its [`Reply`] at once. The statements leave in one go, with the sync
/// point that [`finish`](Pipeline::finish) puts behind them. They leave earlier if the pipeline
/// grows beyond 32 KiB, at [`flush`](Pipeline::flush), or when a reply is awaited. From then on the
/// pipeline holds the connection until it is finished. What else the client sends goes to other
/// connections, or waits in line for one, up to `wait_timeout`: don't keep a pipeline open while
/// waiting for something else. On a session or in a transaction there
/// are no other callers: until the pipeline is finished or dropped, its other statements, streams
/// and pipelines, and COMMIT, are refused (`pipeline_open`, `NotSent`), since they would wait for
/// their own caller.
///
/// - **Errors.** If a statement fails, those behind it are skipped up to the next sync point, and
///   those in front of it, back to the last sync point, are rolled back. `finish` returns the first
///   error.
/// - **Provisional replies.** A reply that is awaited before its sync point was answered is the
///   server's answer to the statement; whether it stands is decided at the sync point. A reply that
///   is awaited after `finish` is final.
/// - **Long pipelines.** Await [`ready`](Pipeline::ready) between statements and take replies as
///   you go: then any number of statements needs the memory of a window. Replies that nobody has
///   taken count against the window.
/// - **Dropped** without `finish`: statements that were not sent are never sent, and those that
///   were sent since the last sync point are rolled back. Inside an open transaction, the
///   transaction fails as a whole.
/// - **Unread replies.** Once `finish` was called, replies no longer count against the window: all
///   of them may be taken after it has resolved, and need memory until then.
///
/// # Example
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let mut pipeline = client.pipeline();
/// let debit = pipeline
///     .execute("update account set balance = balance - $1 where id = $2", &[&5, &1]);
/// let credit = pipeline
///     .execute("update account set balance = balance + $1 where id = $2", &[&5, &2]);
/// pipeline.finish().await?; // One trip; both stand, or neither.
/// assert_eq!((debit.await?, credit.await?), (1, 1));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Pipeline {
    executor: Executor,
    home: Home,
    /// Statements since the last sync point, and whether the last has to stand alone.
    since_sync: u64,
    alone: bool,
    finished: bool,
    /// A statement could not be added: nothing more is sent.
    spoilt: Option<Error>,
    /// A parameter is being encoded, or its code has panicked, which spoils the pipeline as well.
    encodes: bool,
}

impl Pipeline {
    pub(crate) fn new(executor: &Executor) -> Pipeline {
        Pipeline {
            executor: executor.clone(),
            home: Home::of(executor),
            since_sync: 0,
            alone: false,
            finished: false,
            spoilt: None,
            encodes: false,
        }
    }

    /// Adds a statement. The reply has its rows.
    pub fn query(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Rows> {
        self.push(statement, params)
    }

    /// Adds a statement that returns exactly one row. The reply has that row.
    pub fn query_one(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Row> {
        self.push(statement, params)
    }

    /// Adds a statement that returns at most one row. The reply has the row, if there is one.
    pub fn query_opt(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Option<Row>> {
        self.push(statement, params)
    }

    /// Adds a statement. The reply has the number of rows that it inserted, updated, deleted or
    /// returned.
    pub fn execute(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<u64> {
        self.push(statement, params)
    }

    /// Adds a sync point: the statements before it are a transaction of their own, and those behind
    /// it run whether or not that succeeded. The reply resolves when the server has answered the
    /// sync point, or with the error of the statement that failed. Without statements in front of
    /// it, this is an error.
    pub fn sync(&mut self) -> Reply<()> {
        if let Some(error) = self.spoilt() {
            return Reply::refused(error);
        }
        if self.since_sync == 0 {
            return Reply::refused(Error::misuse(
                "empty_segment",
                "there is no statement in front of the sync point",
            ));
        }
        self.since_sync = 0;
        self.alone = false;
        let sync = |core: &mut Core, now, id| {
            let token = core.pipelined(now, |pipelines, io| pipelines.sync(io, id));
            token.ok_or_else(|| core.pipelines.failure(id).unwrap_or_else(over))
        };
        self.home.submit(TextKey::UNTOLD, None, sync).map_or_else(Reply::refused, Reply::of)
    }

    /// Asks the server for the replies so far, without a sync point: added statements leave now,
    /// and the server answers them without waiting for more.
    pub fn flush(&mut self) {
        self.home.run(|core, now, id| core.pipelined(now, |pipelines, io| pipelines.flush(io, id)));
    }

    /// Resolves when another statement would leave without waiting in memory.
    ///
    /// # Errors
    /// The connection is gone; the pipeline could not take a statement; or the window is full of
    /// replies and none was awaited so far, so that waiting would never end. Once replies are
    /// taken, a reader that stops makes this wait.
    ///
    /// Cancel safe.
    pub async fn ready(&mut self) -> Result<(), Error> {
        if let Some(error) = self.spoilt() {
            return Err(error);
        }
        let limits = self.executor.limits();
        let Some((connection, id)) = self.home.attached().await? else { return Ok(()) };
        std::future::poll_fn(|cx| {
            connection.with(|core, now| core.pipeline_ready(now, id, limits, cx))
        })
        .await
    }

    /// Returns a handle that cancels, from any task, what the server runs of this pipeline, also
    /// after `finish`: the segment fails as a whole, from sync point to sync point, and later ones
    /// go on. Not possible while the pipeline waits for a connection, nor before the segment's sync
    /// point was sent.
    pub fn canceller(&mut self) -> Canceller {
        Canceller::of_pipeline(self.home.here())
    }

    /// The status of the pipeline, as far as replies have told.
    pub fn status(&self) -> PipelineStatus {
        self.home.status()
    }

    /// Sends the remaining statements with a sync point, and resolves when the server has answered
    /// that. Then all statements stand, or the error is that of the first one that failed.
    ///
    /// # Errors
    /// The first error of any statement or sync point. If there are several sync points, the
    /// replies say what stands and what doesn't.
    ///
    /// Dropping the future takes nothing back.
    pub fn finish(mut self) -> impl Future<Output = Result<(), Error>> + use<> {
        let mut last: Option<Reply<()>> = None;
        if self.spoilt().is_none() {
            self.finished = true;
            let is_last = self.since_sync > 0;
            if is_last {
                let finish = |core: &mut Core, now, id| {
                    let token = core.pipelined(now, |pipelines, io| pipelines.finish(io, id));
                    token.ok_or_else(|| core.pipelines.failure(id).unwrap_or_else(over))
                };
                let sent = self.home.submit(TextKey::UNTOLD, None, finish);
                last = Some(sent.map_or_else(Reply::refused, Reply::of));
            } else {
                self.home.run(|core, now, id| {
                    core.pipelined(now, |pipelines, io| pipelines.finish(io, id));
                });
            }
        }
        async move {
            let mut pipeline = self;
            if let Some(error) = pipeline.spoilt() {
                return Err(error);
            }
            let result = match last {
                Some(last) => last.await,
                None => Ok(()),
            };
            let (connection, id) = match pipeline.home.attached().await {
                Ok(Some(home)) => home,
                Ok(None) => return result,
                Err(error) => return result.and(Err(error)),
            };
            if result.is_ok() {
                // The last sync point may have been added earlier.
                drained(&connection, id).await;
            }
            match connection.with(|core, _| core.pipelines.failure(id)) {
                Some(error) => Err(error),
                None => result,
            }
        }
    }

    fn push<T: FromReply>(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<T> {
        let source = statement.to_statement();
        let span = Span::of(&self.executor.context, source);
        let pushed = self.try_push(source, statement.is_alone(), params);
        let reply = pushed.unwrap_or_else(|error| {
            // The caller did not ask for a pipeline without one of its statements.
            self.spoilt.get_or_insert_with(|| error.clone());
            Reply::refused(error)
        });
        reply.traced(span)
    }

    fn try_push<T: FromReply>(
        &mut self,
        source: Source<'_>,
        alone: bool,
        params: Params<'_>,
    ) -> Result<Reply<T>, Error> {
        if let Some(error) = self.spoilt() {
            return Err(error);
        }
        // The code of a parameter may panic, and its caller may go on.
        self.encodes = true;
        let result = self.encode_and_add(source, alone, params);
        self.encodes = false;
        result
    }

    /// Why nothing more is sent, if so.
    fn spoilt(&self) -> Option<Error> {
        self.spoilt.clone().or_else(|| self.encodes.then(panicked))
    }

    fn encode_and_add<T: FromReply>(
        &mut self,
        source: Source<'_>,
        alone: bool,
        params: Params<'_>,
    ) -> Result<Reply<T>, Error> {
        self.executor.place = self.place();
        self.executor.lead_now()?;
        with_scratch(|out| {
            let limits = self.executor.limits();
            let reply = match self.executor.encode(source, params, out) {
                Ok(Encoded { expect, traits, bound, text, key }) => {
                    self.check_neighbours(traits)?;
                    let key = if alone { TextKey::ALONE } else { key };
                    let statement = Statement { expect, key, bound };
                    let sent = self.home.push(statement, out, limits)?;
                    Reply::of(sent.until(self.executor.deadline_now()))
                        .reading(text, traits.commit())
                }
                Err(Unready::Ask(first_use)) => {
                    self.check_neighbours(Traits::default())?;
                    let key = if alone { TextKey::ALONE } else { first_use.key() };
                    let mut first_use = Some(first_use);
                    let ask = move |core: &mut Core, now, id| match first_use.take() {
                        Some(first_use) => {
                            let token = core.pipeline_push_asking(now, id, first_use, limits)?;
                            core.begin_task(now, token, key);
                            Ok(token)
                        }
                        None => Err(over()),
                    };
                    let sent = self.home.submit(key, Some(out.len()), ask)?;
                    Reply::of(sent.until(self.executor.deadline_now()))
                }
                Err(Unready::Error(error)) => return Err(error),
            };
            self.since_sync += 1;
            Ok(reply)
        })
    }

    /// A statement that commits by itself would divide what is meant to be one transaction, so a
    /// sync point has to be on both of its sides. (Inside a transaction the server itself refuses
    /// it.)
    fn check_neighbours(&mut self, traits: Traits) -> Result<(), Error> {
        if self.executor.place == (Place::Session { in_transaction: true }) {
            return Ok(());
        }
        if traits.transaction_control() {
            return Err(Error::misuse(
                "transaction_control",
                "a pipeline is a transaction of its own, from sync point to sync point: begin and \
                 end transactions outside of it, or use begin() and a pipeline of the transaction",
            ));
        }
        let alone = traits.stand_alone() || traits.call();
        if self.alone || alone && self.since_sync > 0 {
            let refusal = if traits.call() { Refusal::Call } else { Refusal::StandAlone };
            return Err(match self.alone {
                true => Error::misuse(
                    "stand_alone",
                    "the statement before this one commits by itself (CALL, VACUUM, CREATE DATABASE \
                     and the like): put a sync point between them, with sync()",
                ),
                false => Error::misuse(refusal.code(), refusal.to_string()),
            });
        }
        self.alone = alone;
        Ok(())
    }

    fn place(&self) -> Place {
        match self.executor.place {
            Place::Session { in_transaction } => Place::Session { in_transaction },
            _ => Place::Pipeline { alone: self.since_sync == 0 },
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        let why = self.spoilt().unwrap_or_else(given_up).with_outcome(Outcome::NotSent);
        self.home.leave((!self.finished).then_some(why));
    }
}

/// Waits until every segment has ended.
async fn drained(connection: &Arc<Connection>, id: PipelineId) {
    std::future::poll_fn(|cx| {
        connection.with(|core, _| core.pipelines.poll_settled(id, || cx.waker().clone()))
    })
    .await;
}

fn over() -> Error {
    Error::refused(pipeline::Refusal::Finished)
}

fn panicked() -> Error {
    Error::misuse("panicked", "a statement was not added, since encoding its parameters panicked")
}

pub(crate) fn given_up() -> Error {
    Error::new(
        Kind::Cancelled,
        Outcome::NotSent,
        "cancelled",
        "the pipeline was dropped before it was finished",
    )
}
