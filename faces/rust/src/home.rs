//! Where a pipeline is: on a connection, or in line for one, with the statements added so far.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::Bytes;
use onetrip_engine::pool::TextKey;
use onetrip_engine::{Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::pipeline::{Limits, PipelineId, PipelineStatus, Refusal, Why};

use crate::Error;
use crate::core::{Connection, Core};
use crate::executor::{Executor, Sent, Target};
use crate::pipeline::given_up;
use crate::pool::{Pool, QueueEntry, Work};
use crate::statements::Bound;

/// Where a pipeline is.
#[derive(Debug)]
pub(crate) enum Home {
    /// Without a statement: the first one says which connection would do.
    Empty(Executor),
    At(Arc<Connection>, PipelineId),
    /// In line: no connection could take it at once.
    Later(Arc<Line>),
}

/// A pipeline in line for a connection.
#[derive(Debug)]
pub(crate) struct Line {
    pool: Arc<Pool>,
    /// Its place in line; the entry's token is the number of the pipeline.
    queue_entry: Mutex<Option<Arc<QueueEntry>>>,
    state: Mutex<State>,
}

enum State {
    Waiting { steps: Vec<Step>, bytes: usize },
    Attached(Arc<Connection>, PipelineId),
    Over(Error),
}

/// A call on a pipeline that had no connection yet.
struct Step {
    run: Box<Run>,
    reply: Option<Arc<QueueEntry>>,
}

type Run = dyn FnOnce(&mut Core, Time, PipelineId) -> Result<Token, Error> + Send;

/// A statement that is to be added; its bytes are passed beside it.
pub(crate) struct Statement {
    pub(crate) expect: Expect,
    /// The key of the statement's text in the pool.
    pub(crate) key: TextKey,
    pub(crate) bound: Option<Bound>,
}

impl Home {
    pub(crate) fn of(executor: &Executor) -> Home {
        match &executor.target {
            Target::One(connection) => {
                let open = opening(executor);
                Home::At(connection.clone(), connection.with(|core, _| open(core)))
            }
            Target::Any(_) => Home::Empty(executor.clone()),
        }
    }

    /// Finds a place for the pipeline, if it has none: its first statement has this key.
    fn place(&mut self, key: TextKey) {
        let key = key.staying(true);
        let Home::Empty(executor) = self else { return };
        let Target::Any(pool) = &executor.target else { return };
        let open = opening(executor);
        *self = match pool.try_run(key, |core, _| open(core)) {
            Some((connection, id)) => Home::At(connection, id),
            None => Home::Later(Line::join(pool, key, executor.deadline(pool.now()), open)),
        };
    }

    /// Finds a connection for a pipeline without a statement, and waits for it.
    pub(crate) async fn found(&mut self) -> Result<(Arc<Connection>, PipelineId), Error> {
        self.place(TextKey::UNTOLD);
        self.attached().await?.ok_or_else(given_up)
    }

    /// Waits for the connection. Returns it, and the number of the pipeline there; `None` if there is
    /// no statement that needs one yet.
    pub(crate) async fn attached(
        &mut self,
    ) -> Result<Option<(Arc<Connection>, PipelineId)>, Error> {
        if let Home::Later(line) = self {
            let line = line.clone();
            std::future::poll_fn(|cx| {
                let queue_entry = line.queue_entry.lock().unwrap_or_else(PoisonError::into_inner);
                queue_entry.as_ref().map_or(Poll::Ready(()), |it| it.poll_settled(cx))
            })
            .await;
        }
        self.settle();
        match self {
            Home::At(connection, id) => Ok(Some((connection.clone(), *id))),
            Home::Later(line) => match &*line.lock() {
                State::Over(error) => Err(error.clone()),
                _ => Err(given_up()),
            },
            Home::Empty(_) => Ok(None),
        }
    }

    /// The connection and the number, if it has one already.
    pub(crate) fn here(&mut self) -> Option<(&Arc<Connection>, PipelineId)> {
        self.settle();
        match self {
            Home::At(connection, id) => Some((connection, *id)),
            Home::Later(_) | Home::Empty(_) => None,
        }
    }

    /// Moves from the line to the connection, if one has come.
    fn settle(&mut self) {
        let Home::Later(line) = self else { return };
        let attached = match &*line.lock() {
            State::Attached(connection, id) => Some((connection.clone(), *id)),
            _ => None,
        };
        if let Some((connection, id)) = attached {
            *self = Home::At(connection, id);
        }
    }

    /// Adds a statement.
    pub(crate) fn push(
        &mut self,
        statement: Statement,
        bytes: &[u8],
        limits: Limits,
    ) -> Result<Sent, Error> {
        self.place(statement.key);
        self.settle();
        if let Home::At(connection, id) = self {
            let (connection, id) = (&*connection, *id);
            let add = |core: &mut Core, now: Time| add(core, now, id, &statement, bytes, limits);
            let kept = connection.with_local(|core| {
                let now = core.clock();
                core.pipelines.keeps(id, bytes.len()).then(|| add(core, now))
            });
            let token = kept.unwrap_or_else(|| connection.with(add))?;
            return Ok(Sent::here(connection, token));
        }
        let kept = Bytes::copy_from_slice(bytes);
        self.submit(statement.key, Some(bytes.len()), move |core, now, id| {
            add(core, now, id, &statement, &kept, limits)
        })
    }

    /// Does something that has a reply: now, or when there is a connection. While it waits, a
    /// statement takes room for `bytes`; a sync point (`None`) takes none, since it can't be left
    /// out.
    pub(crate) fn submit(
        &mut self,
        key: TextKey,
        bytes: Option<usize>,
        run: impl FnOnce(&mut Core, Time, PipelineId) -> Result<Token, Error> + Send + 'static,
    ) -> Result<Sent, Error> {
        self.place(key);
        self.settle();
        match self {
            Home::At(connection, id) => {
                let token = connection.with(|core, now| run(core, now, *id))?;
                Ok(Sent::here(connection, token))
            }
            Home::Later(line) => line.add(bytes, run),
            Home::Empty(_) => Err(given_up()),
        }
    }

    /// Does something that has no reply.
    pub(crate) fn run(&mut self, run: impl FnOnce(&mut Core, Time, PipelineId) + Send + 'static) {
        self.settle();
        match self {
            Home::Empty(_) => {}
            Home::At(connection, id) => connection.with(|core, now| run(core, now, *id)),
            Home::Later(line) => {
                let mut state = line.lock();
                let attached = match &mut *state {
                    State::Waiting { steps, .. } => {
                        let run = Box::new(move |core: &mut Core, now, id| {
                            run(core, now, id);
                            Ok(Token::DISCARD)
                        });
                        return steps.push(Step { run, reply: None });
                    }
                    // The connection came just now.
                    State::Attached(connection, id) => Some((connection.clone(), *id)),
                    State::Over(_) => None,
                };
                drop(state);
                if let Some((connection, id)) = attached {
                    connection.with(|core, now| run(core, now, id));
                }
            }
        }
    }

    pub(crate) fn status(&self) -> PipelineStatus {
        match self {
            Home::Empty(_) => PipelineStatus::On,
            Home::At(connection, id) => {
                connection.with(|core, _| core.pipelines.status(core.engine.is_closed(), *id))
            }
            Home::Later(line) => match &*line.lock() {
                State::Waiting { .. } => PipelineStatus::On,
                State::Attached(connection, id) => {
                    connection.with(|core, _| core.pipelines.status(core.engine.is_closed(), *id))
                }
                State::Over(_) => PipelineStatus::Off,
            },
        }
    }

    /// The owner of a batch drops it before it has ended.
    pub(crate) fn abandon(&mut self) {
        self.run(|core, now, id| {
            let (why, group) = (given_up(), core.pipelines.group(id).flatten());
            let is_given_up = core.pipelined(now, |pipelines, io| pipelines.abandon(io, id, &why));
            if let (true, true, Some(group)) = (is_given_up, core.cancels_dropped, group) {
                core.engine.want_cancel_group(now, group);
                core.engine.handle_group_gone(group);
                core.engine.handle_given_up(now);
            }
        });
        self.leave(Some(given_up()));
    }

    /// The pipeline is dropped. If it was not finished, the error says why it is given up.
    pub(crate) fn leave(&mut self, unfinished: Option<Error>) {
        if let (Home::Later(line), Some(why)) = (&*self, &unfinished) {
            line.give_up(why);
        }
        self.run(move |core, now, id| {
            if let Some(why) = unfinished {
                core.pipelined(now, |pipelines, io| pipelines.give_up(io, id, &why));
            }
            core.pipelined(now, |pipelines, io| pipelines.release(io, id));
            core.release();
        });
    }
}

/// How the pipeline begins on its connection.
fn opening(executor: &Executor) -> impl Fn(&mut Core) -> PipelineId + Send + 'static {
    let (lead, timeout) = (executor.lead.clone(), executor.timeout());
    move |core| core.open_pipeline(lead.clone(), timeout)
}

fn add(
    core: &mut Core,
    now: Time,
    id: PipelineId,
    statement: &Statement,
    bytes: &[u8],
    limits: Limits,
) -> Result<Token, Error> {
    let token = match &statement.bound {
        None => {
            core.sent(&statement.expect);
            core.pipeline_push(now, id, (statement.expect, None), bytes, limits)?
        }
        Some(bound) => core.with_scratch(|core, out| {
            let scope = core.pipelines.scope(id);
            let request = core.assemble(statement.expect, bound, bytes, scope, out)?;
            core.pipeline_push(now, id, request, out, limits)
        })?,
    };
    core.begin_task(now, token, statement.key);
    Ok(token)
}

impl Line {
    fn join(
        pool: &Arc<Pool>,
        key: TextKey,
        deadline: Time,
        open: impl Fn(&mut Core) -> PipelineId + Send + 'static,
    ) -> Arc<Line> {
        let state = Mutex::new(State::Waiting { steps: Vec::new(), bytes: 0 });
        let line = Arc::new(Line { pool: pool.clone(), queue_entry: Mutex::default(), state });
        let here = line.clone();
        let joined = line.clone();
        let run = move |connection: &Arc<Connection>, core: &mut Core, now: Time| {
            let id = open(core);
            here.attach(connection, core, now, id);
            Ok(Token::DISCARD)
        };
        let fail = move |error: &Error| joined.fail(error.clone());
        let queue_entry = pool.run_later(key, Work::new(run).or(fail), deadline);
        *line.queue_entry.lock().unwrap_or_else(PoisonError::into_inner) = Some(queue_entry);
        line
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(
        &self,
        more: Option<usize>,
        run: impl FnOnce(&mut Core, Time, PipelineId) -> Result<Token, Error> + Send + 'static,
    ) -> Result<Sent, Error> {
        let options = &self.pool.context.options;
        let mut state = self.lock();
        let (connection, id) = match &mut *state {
            State::Waiting { steps, bytes } => {
                let full = steps.len() >= options.queue_max || *bytes >= options.queue_bytes_max;
                if more.is_some() && full {
                    return Err(Error::refused(Refusal::TooLong));
                }
                *bytes += more.unwrap_or(0);
                let reply = QueueEntry::new(self.pool.clone());
                steps.push(Step { run: Box::new(run), reply: Some(reply.clone()) });
                return Ok(Sent::later(reply));
            }
            // The connection came just now.
            State::Attached(connection, id) => (connection.clone(), *id),
            State::Over(error) => return Err(error.clone()),
        };
        drop(state);
        let token = connection.with(|core, now| run(core, now, id))?;
        Ok(Sent::here(&connection, token))
    }

    /// A connection has come: does the steps that were kept.
    fn attach(&self, connection: &Arc<Connection>, core: &mut Core, now: Time, id: PipelineId) {
        let attached = State::Attached(connection.clone(), id);
        let waiting = std::mem::replace(&mut *self.lock(), attached);
        let State::Waiting { steps, .. } = waiting else { return };
        for Step { run, reply } in steps {
            let token = run(core, now, id);
            if let Err(why) = &token {
                // Nothing of it has been sent yet. If one of its statements fails here, the whole
                // is given up.
                core.pipelined(now, |pipelines, io| pipelines.give_up(io, id, why));
            }
            match reply {
                Some(reply) if reply.is_given_up() => {
                    token.into_iter().for_each(|token| core.drop_reply(now, token));
                }
                Some(reply) => {
                    let waker = reply.settle(connection, token);
                    core.wakers.extend(waker);
                }
                None => {}
            }
        }
    }

    /// No connection came. Returns whom to wake.
    fn fail(&self, error: Error) -> Vec<Waker> {
        let waiting = std::mem::replace(&mut *self.lock(), State::Over(error.clone()));
        let State::Waiting { steps, .. } = waiting else { return Vec::new() };
        let replies = steps.into_iter().filter_map(|step| step.reply);
        replies.filter_map(|reply| reply.fail(error.clone())).collect()
    }

    fn give_up(&self, why: &Error) {
        let queue_entry = self.queue_entry.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(queue_entry) = queue_entry
            && queue_entry.leave()
        {
            self.fail(why.clone()).into_iter().for_each(Waker::wake);
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            State::Waiting { .. } => "Waiting",
            State::Attached(..) => "Attached",
            State::Over(_) => "Over",
        })
    }
}
