//! The statements of a pipeline: sent without waiting, and answered at its end.

use std::collections::VecDeque;

use onetrip::{Pipeline, Reply, Session, unprepared};

use super::failure::Failure;
use super::forms::Statement;
use super::machine::{Machine, Outcome, Place};
use super::parse::{Action, NO_RESULTS, Step};
use super::send::with_parameters;

/// Replies that were not awaited yet, oldest first.
pub(super) type Replies = VecDeque<Sent>;

/// What was sent, with the line of a statement.
#[derive(Debug)]
pub(super) enum Sent {
    Statement(usize, Reply<u64>),
    SyncPoint(Reply<()>),
}

impl Sent {
    /// Waits for the reply; an error comes with its line. That of a sync point is the pipeline's.
    async fn reply(self) -> Result<(), (usize, onetrip::Error)> {
        match self {
            Sent::Statement(line, reply) => reply.await.map(drop).map_err(|error| (line, error)),
            Sent::SyncPoint(reply) => {
                reply.await.ok();
                Ok(())
            }
        }
    }
}

/// Beyond so many, the oldest replies are awaited before more is sent: a pipeline of any length
/// needs the memory of these.
pub(super) const REPLIES_MAX: usize = 1024;

/// A pipeline that was begun.
pub(super) enum Pipe {
    /// Its statements share sync points.
    Shared { pipeline: Box<Pipeline>, since_sync: bool },
    /// Each has its own, since some of them begin or end transactions.
    Ahead { failure: Option<Failure> },
}

impl Pipe {
    /// Begins a pipeline that is going to send these.
    pub(super) fn begin(session: &Session, steps: &[Step<Statement>]) -> Pipe {
        let alone = |step: &Step<Statement>| matches!(&step.action, Action::Statement(statement) if statement.alone);
        match steps.iter().any(alone) {
            true => Pipe::Ahead { failure: None },
            false => Pipe::Shared { pipeline: Box::new(session.pipeline()), since_sync: false },
        }
    }

    /// A sync point behind what was sent so far.
    pub(super) fn sync(&mut self, replies: &mut Replies) {
        if let Pipe::Shared { pipeline, since_sync } = self
            && std::mem::take(since_sync)
        {
            replies.push_back(Sent::SyncPoint(pipeline.sync()));
        }
    }

    /// Ends it and waits for all replies. The first failure is that of the pipeline.
    pub(super) async fn end(self, replies: &mut Replies, place: Place<'_>) -> Outcome {
        let mut failure = match self {
            Pipe::Shared { pipeline, .. } => {
                let ended = pipeline.finish().await;
                replies.clear();
                return ended.map_err(|error| place.failed(&error));
            }
            Pipe::Ahead { failure } => failure,
        };
        while let Some(sent) = replies.pop_front() {
            if let Err((line, error)) = sent.reply().await {
                failure.get_or_insert_with(|| Place { line, ..place }.failed(&error));
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

impl Machine {
    /// Sends a statement of a pipeline, or has it leave with those behind it.
    pub(super) async fn add_to_pipe(
        &mut self,
        session: &Session,
        pipe: &mut Pipe,
        statement: &Statement,
        place: Place<'_>,
    ) -> Outcome {
        if statement.store.is_some() {
            return Err(place.fatal(NO_RESULTS));
        }
        if statement.several {
            return Err(
                place.fatal("several statements as one (\\;) are not possible in a pipeline")
            );
        }
        let prepared = self.statements.get(statement);
        let reply =
            with_parameters(statement, &self.variables, |values| match (&mut *pipe, prepared) {
                (Pipe::Shared { pipeline, since_sync }, prepared) => {
                    *since_sync = true;
                    match prepared {
                        Some(prepared) => pipeline.execute(prepared, values),
                        None => pipeline.execute(&unprepared(&statement.text), values),
                    }
                }
                (Pipe::Ahead { .. }, Some(prepared)) => session.execute(prepared, values),
                (Pipe::Ahead { .. }, None) => session.execute(&unprepared(&statement.text), values),
            });
        self.replies.push_back(Sent::Statement(place.line, reply));
        if self.replies.len() >= REPLIES_MAX {
            self.await_oldest(pipe, place).await;
        }
        Ok(())
    }

    /// Makes room. What failed is told at the end, as if all had been sent.
    async fn await_oldest(&mut self, pipe: &mut Pipe, place: Place<'_>) {
        for _ in 0..REPLIES_MAX / 2 {
            let Some(sent) = self.replies.pop_front() else { return };
            if let (Err((line, error)), Pipe::Ahead { failure }) = (sent.reply().await, &mut *pipe)
            {
                failure.get_or_insert_with(|| Place { line, ..place }.failed(&error));
            }
        }
    }
}
