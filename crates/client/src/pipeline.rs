//! Pipelines: statements that share sync points.

use std::sync::Arc;

use onetrip_engine::{Request, SyncPoint, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::sql::Place;

use crate::Error;
use crate::core::Shared;
use crate::executor::{Encoded, Executor, Unready, plain_statement, with_scratch};
use crate::params::Params;
use crate::pipelines::{PipelineId, PipelineStatus};
use crate::reply::{FromReply, Reply};
use crate::rows::{Row, Rows};
use crate::statement::{Source, ToStatement};

/// Statements that travel together: one trip for all of them, one transaction from sync point to
/// sync point.
///
/// A statement added here returns its [`Reply`] at once. Statements leave in one go, with the sync
/// point that [`finish`](Pipeline::finish) puts behind them; earlier when the pipeline grows beyond
/// 32 KiB, at [`flush`](Pipeline::flush), or when a reply is awaited. From then on the pipeline
/// holds the connection, and others that share it wait, until it is finished: don't keep one open
/// while waiting for something else.
///
/// * **Errors.** When a statement fails, those behind it are skipped up to the next sync point, and
///   what came before it since the last one is rolled back. `finish` says which was the first.
/// * **Provisional replies.** A reply awaited before its sync point was answered is what the server
///   said of the statement; whether it stands is decided at the sync point. A reply awaited after
///   `finish` is final.
/// * **Long pipelines.** Await [`ready`](Pipeline::ready) between statements and take replies as
///   you go: then any number of statements needs the memory of a window. Replies that nobody has
///   taken count against it.
/// * **Dropped** without `finish`: what was not sent is not sent; what was sent since the last sync
///   point is rolled back.
///
/// # Example
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let mut pipeline = client.pipeline();
/// let debit = pipeline.execute("update account set balance = balance - $1 where id = $2", &[&5, &1]);
/// let credit = pipeline.execute("update account set balance = balance + $1 where id = $2", &[&5, &2]);
/// pipeline.finish().await?; // One trip; both stand, or neither.
/// assert_eq!((debit.await?, credit.await?), (1, 1));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Pipeline {
    executor: Executor,
    shared: Arc<Shared>,
    id: PipelineId,
    /// Statements since the last sync point, and whether the last has to stand alone.
    since_sync: u64,
    alone: bool,
    finished: bool,
    /// A statement could not be added: nothing more is sent.
    spoilt: Option<Error>,
}

impl Pipeline {
    pub(crate) fn new(executor: &Executor) -> Pipeline {
        let shared = executor.shared.clone();
        let id = shared.with(|core, _| core.open_pipeline());
        Pipeline {
            executor: executor.clone(),
            shared,
            id,
            since_sync: 0,
            alone: false,
            finished: false,
            spoilt: None,
        }
    }

    /// Adds a statement and returns its rows.
    pub fn query(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Rows> {
        self.push(statement.to_statement(), params)
    }

    /// Adds a statement and returns its only row.
    pub fn query_one(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Row> {
        self.push(statement.to_statement(), params)
    }

    /// Adds a statement and returns its row, if there is one.
    pub fn query_opt(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Option<Row>> {
        self.push(statement.to_statement(), params)
    }

    /// Adds a statement and returns how many rows it changed.
    pub fn execute(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<u64> {
        self.push(statement.to_statement(), params)
    }

    /// Adds a sync point: what came before it is a transaction of its own, and what follows runs
    /// whether that succeeded or not. The reply resolves when it was answered, or with the error of
    /// the statement that failed. Without statements in front of it there is none to add.
    pub fn sync(&mut self) -> Reply<()> {
        self.since_sync = 0;
        self.alone = false;
        let token = self.shared.with(|core, _| core.pipeline_sync(self.id));
        match (token, &self.spoilt) {
            (_, Some(error)) => Reply::refused(&self.shared, error.clone()),
            (Some(token), None) => Reply::waiting(&self.shared, token, None),
            (None, None) => Reply::refused(
                &self.shared,
                Error::misuse("empty_segment", "there is no statement in front of the sync point"),
            ),
        }
    }

    /// Asks for the replies so far without a sync point: what was added leaves now, and the server
    /// answers it without waiting for more.
    pub fn flush(&mut self) {
        self.shared.with(|core, now| core.pipeline_flush(now, self.id));
    }

    /// Resolves when another statement would leave without waiting in memory.
    ///
    /// # Errors
    /// The connection is gone, the pipeline failed to take a statement, or the window is full of
    /// replies that nobody has taken, so that waiting would never end.
    ///
    /// Cancel safe.
    pub async fn ready(&mut self) -> Result<(), Error> {
        std::future::poll_fn(|cx| {
            self.shared.with(|core, now| {
                core.settle(now);
                core.pipeline_ready(self.id, cx)
            })
        })
        .await
    }

    /// How far the pipeline is, as far as replies have told.
    pub fn status(&self) -> PipelineStatus {
        self.shared.with(|core, _| core.pipeline_status(self.id))
    }

    /// Sends what is left with a sync point behind it, and resolves when that was answered. All
    /// statements then stand, or the error says which failed first.
    ///
    /// # Errors
    /// The first failure of any statement or sync point. With sync points in between, what stands
    /// and what doesn't is said by the replies.
    ///
    /// Dropping the future does not take anything back.
    pub async fn finish(mut self) -> Result<(), Error> {
        if let Some(error) = self.spoilt.clone() {
            return Err(error);
        }
        self.finished = true;
        let token = self.shared.with(|core, now| {
            let token = core.pipeline_finish(now, self.id);
            core.settle(now);
            token
        });
        if let Some(token) = token {
            let sync: Reply<()> = Reply::waiting(&self.shared, token, None);
            sync.await?;
        } else {
            self.drained().await;
        }
        match self.shared.with(|core, _| core.pipeline_failure(self.id)) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Waits for the last sync point, which has been added before.
    async fn drained(&self) {
        std::future::poll_fn(|cx| self.shared.with(|core, _| core.pipeline_settled(self.id, cx)))
            .await;
    }

    fn push<T: FromReply>(&mut self, source: Source<'_>, params: Params<'_>) -> Reply<T> {
        match self.try_push(source, params) {
            Ok(reply) => reply,
            Err(error) => {
                // A pipeline without one of its statements is not what was asked for.
                self.spoilt.get_or_insert_with(|| error.clone());
                Reply::refused(&self.shared, error)
            }
        }
    }

    fn try_push<T: FromReply>(
        &mut self,
        source: Source<'_>,
        params: Params<'_>,
    ) -> Result<Reply<T>, Error> {
        if let Some(error) = &self.spoilt {
            return Err(error.clone());
        }
        let executor = self.executor.at(self.place());
        executor.lead_now()?;
        with_scratch(|out| {
            let options = &self.shared.options;
            let limits = (options.queue_max, options.queue_bytes_max);
            let member = |expect, now| Request {
                sync: SyncPoint::Member,
                deadline: self.shared.deadline(now),
                ..Request::isolated(Token::DISCARD, expect)
            };
            let (token, columns, first_use) = match executor.encode(source, params, out) {
                Ok(Encoded { expect, columns, first_use, .. }) => {
                    let token = self.shared.with(|core, now| {
                        core.pipeline_push(now, self.id, member(expect, now), out, limits)
                    })?;
                    (token, columns, first_use)
                }
                Err(Unready::Ask(first_use)) => {
                    let question = first_use.question()?;
                    let expect = Expect::sync().parse().bind().describe_portal().execute();
                    let token = self.shared.with(|core, now| {
                        let request = member(expect, now);
                        core.pipeline_push_asking(
                            now, self.id, request, first_use, &question, limits,
                        )
                    })?;
                    (token, None, None)
                }
                Err(Unready::Error(error)) => return Err(error),
            };
            self.since_sync += 1;
            Ok(Reply::waiting(&self.shared, token, columns).first_use(first_use))
        })
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
        let finished = self.finished;
        let in_transaction = self.executor.place == Place::Session { in_transaction: true };
        self.shared.with(|core, now| {
            if !finished && core.pipeline_withdraw(now, self.id) {
                // In a transaction of its own that is what a rollback is for.
                let rollback = if in_transaction { None } else { plain_statement("ROLLBACK").ok() };
                core.pipeline_abort(now, self.id, &rollback.unwrap_or_default());
            }
            core.pipeline_release(self.id);
        });
        self.shared.release_handle();
    }
}
