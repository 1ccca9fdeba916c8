//! The calls on the pipelines of a connection.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use onetrip_engine::{Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::pipeline::{Io, Limits, Member, PipelineId, Role, Why};

use super::Core;
use crate::Error;
use crate::first_use::FirstUse;
use crate::lead::Lead;
use crate::pipelines::{Face, Pipelines};
use crate::replies::{Replies, Taken};
use crate::statements::Use;

impl Core {
    /// Calls the pipelines, with the connection's parts that they need.
    pub(crate) fn pipelined<T>(
        &mut self,
        now: Time,
        run: impl FnOnce(&mut Pipelines, &mut Io<'_, Face, Replies>) -> T,
    ) -> T {
        let ended = self.refusal();
        let Core { engine, replies, pipelines, .. } = self;
        run(pipelines, &mut Io { engine, replies, now, ended })
    }

    pub(crate) fn open_pipeline(
        &mut self,
        lead: Option<Arc<Lead>>,
        timeout: Option<Duration>,
    ) -> PipelineId {
        // The pipeline keeps the connection alive, as a caller does.
        self.handles += 1;
        self.pipelines.open(lead, timeout)
    }

    /// Refuses what the only user of the connection sends behind its own open pipeline, stream or
    /// COPY: it would wait for itself.
    pub(crate) fn check_not_behind_itself(&self) -> Result<(), Error> {
        self.pipelines.refusal_behind().map_or(Ok(()), |refusal| Err(Error::refused(refusal)))
    }

    /// Submits a statement that the server must describe first, as a pipeline of its own, so that
    /// nothing comes in between.
    pub(crate) fn submit_asking(
        &mut self,
        now: Time,
        first_use: Box<FirstUse>,
        lead: Option<Arc<Lead>>,
    ) -> Result<Token, Error> {
        const WITHOUT: Limits = Limits { requests: usize::MAX, bytes: usize::MAX };
        let timeout = (first_use.deadline != Time::NEVER).then(|| first_use.deadline.since(now));
        let id = self.pipelines.open(lead, timeout);
        let token = self.pipeline_push_asking(now, id, first_use, WITHOUT);
        self.pipelined(now, |pipelines, io| {
            pipelines.finish(io, id);
            pipelines.release(io, id);
        });
        token
    }

    /// Adds a statement. Returns the token of its reply.
    pub(crate) fn pipeline_push(
        &mut self,
        now: Time,
        id: PipelineId,
        (expect, statement): (Expect, Option<Use>),
        bytes: &[u8],
        limits: Limits,
    ) -> Result<Token, Error> {
        self.pipelined(now, |pipelines, io| {
            let token = pipelines.push(io, id, expect, bytes, limits)?;
            if let Some(entry) = io.replies.entry(token) {
                entry.statement = statement;
            }
            Ok(token)
        })
    }

    /// Adds a statement, for the types of whose parameters the server is asked first.
    pub(crate) fn pipeline_push_asking(
        &mut self,
        now: Time,
        id: PipelineId,
        first_use: Box<FirstUse>,
        limits: Limits,
    ) -> Result<Token, Error> {
        let (describe, expect) = (first_use.describe()?, first_use.expect);
        self.pipelined(now, |pipelines, io| {
            pipelines.push_undescribed(io, id, (&describe, expect), first_use, limits)
        })
    }

    /// Whether another statement would be sent without waiting in memory. If it would, unwritten
    /// statements leave first where necessary.
    pub(crate) fn pipeline_ready(
        &mut self,
        now: Time,
        id: PipelineId,
        limits: Limits,
        cx: &Context<'_>,
    ) -> Poll<Result<(), Error>> {
        self.pipelined(now, |pipelines, io| pipelines.press(io, id, limits));
        self.settle(now);
        self.pipelined(now, |pipelines, io| pipelines.poll_ready(io, id, || cx.waker().clone()))
    }

    /// A reply of this many bytes was taken or given up. Returns how its segment ended.
    pub(crate) fn pipeline_taken(
        &mut self,
        now: Time,
        member: Member,
        bytes: usize,
    ) -> Option<Result<(), Error>> {
        self.pipelined(now, |pipelines, io| pipelines.taken(io, member, bytes))
    }

    /// Bytes of the reply to this request need no more memory.
    pub(crate) fn consumed(&mut self, now: Time, token: Token, bytes: usize) {
        self.pipelined(now, |pipelines, io| pipelines.consumed(io, token, bytes));
    }

    /// The engine grants a pipeline the exclusive right to send.
    pub(crate) fn granted(&mut self, now: Time, token: Token) {
        if self.pipelined(now, |pipelines, io| pipelines.granted(io, token)) {
            self.take_look_ups_back(now);
        }
    }

    /// Lets the pipeline that has the exclusive right to send go on. Returns whether anything
    /// changed.
    pub(crate) fn advance_pipeline(&mut self, now: Time) -> bool {
        if !self.pipelines.is_exclusive() {
            return false;
        }
        let advanced = self.pipelined(now, |pipelines, io| pipelines.advance(io));
        if advanced.unwritten {
            self.notify();
        }
        if advanced.moved {
            self.wrote(now, advanced.was_idle);
        }
        advanced.moved
    }

    /// The server described a statement, or refused it: now it can be encoded.
    pub(crate) fn pipeline_described(&mut self, now: Time, asking: Token, refused: Option<Error>) {
        let Taken { blocks, member: Some(member), .. } = self.replies.take(asking) else { return };
        if !matches!(member.role, Role::Describe(_)) {
            return;
        }
        let (types, metadata_cache) = (self.types.clone(), self.metadata_cache.clone());
        self.pipelined(now, |pipelines, io| {
            pipelines.described(io, member, blocks.len(), |first_use| {
                let (metadata, bytes) = match refused {
                    None => first_use.answered(&blocks, &types)?,
                    Some(error) => return Err(error),
                };
                metadata_cache.remember(metadata);
                Ok(bytes)
            });
        });
    }
}
