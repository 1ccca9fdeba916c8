//! Pipelines, as [`onetrip_postgres::client::pipeline`] has them, on a connection of this crate.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::{Outcome, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::pipeline::{
    self, Around, Io, Limits, Member, PipelineId, Refusal, Role, Why, outcome_behind,
};
use onetrip_postgres::message::EncodeError;

use crate::core::Core;
use crate::first_use::FirstUse;
use crate::lead::{Lead, Note};
use crate::replies::{Replies, Taken};
use crate::statements::Use;
use crate::{Error, Kind};

/// This crate, for pipelines.
pub(crate) enum Face {}

/// The pipelines of a connection.
pub(crate) type Pipelines = pipeline::Pipelines<Face>;

impl pipeline::Face for Face {
    type Why = Error;
    type Around = Arc<Lead>;
    type Undescribed = FirstUse;
    type Waker = Waker;
}

impl Why for Error {
    fn refused(refusal: Refusal) -> Error {
        let kind = match refusal {
            Refusal::Late => Kind::Timeout,
            Refusal::Unencodable => Kind::Conversion,
            _ => Kind::Misuse,
        };
        Error::new(kind, Outcome::NotSent, refusal.code(), refusal.text())
    }

    fn is_late(&self) -> bool {
        self.kind() == Kind::Timeout
    }

    fn of_statement(self, number: u64) -> Error {
        self.about(format_args!("statement {number} of the pipeline"))
    }
}

impl Around<Error> for Arc<Lead> {
    fn write_guard(&self, out: &mut BytesMut) -> Result<Expect, EncodeError> {
        Lead::write_guard(self, out)
    }

    fn refusal(&self) -> Option<Error> {
        Lead::refusal(self)
    }
}

impl pipeline::Replies<Face> for Replies {
    fn add(&mut self, member: Member, around: Option<&Arc<Lead>>) -> Token {
        let token = Replies::add(self);
        if let Some(entry) = self.entry(token) {
            entry.member = Some(member);
            entry.note = around.cloned().map(Note::within);
        }
        token
    }

    fn member(&mut self, token: Token) -> Option<Member> {
        self.entry(token)?.member
    }

    fn abandon(&mut self, token: Token) {
        Replies::abandon(self, token);
    }

    fn remove(&mut self, token: Token) {
        Replies::remove(self, token);
    }

    fn fail(&mut self, token: Token, why: Error) {
        let waker = Replies::fail(self, token, why);
        self.wakers.extend(waker);
    }

    fn wake(&mut self, waker: Waker) {
        self.wakers.push(waker);
    }
}

impl Core {
    /// Does something with the pipelines.
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
        // It needs the connection as a caller does.
        self.handles += 1;
        self.pipelines.open(lead, timeout)
    }

    /// Submits a statement that the server is asked to describe, as a pipeline of its own, so that
    /// nothing comes between.
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

    /// Adds a statement and says under which token its reply comes.
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

    /// Adds a statement whose parameters' types the server is asked for first.
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

    /// Whether another statement would be sent without waiting in memory; it leaves before, if it
    /// has to.
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

    /// A reply was taken or given up, with so many bytes. Says how its segment ended.
    pub(crate) fn pipeline_taken(
        &mut self,
        now: Time,
        member: Member,
        bytes: usize,
    ) -> Option<Result<(), Error>> {
        self.pipelined(now, |pipelines, io| pipelines.taken(io, member, bytes))
    }

    /// Bytes of a reply to this request need no more memory.
    pub(crate) fn consumed(&mut self, now: Time, token: Token, bytes: usize) {
        self.pipelined(now, |pipelines, io| pipelines.consumed(io, token, bytes));
    }

    /// The engine lets a pipeline send.
    pub(crate) fn granted(&mut self, now: Time, token: Token) {
        if self.pipelined(now, |pipelines, io| pipelines.granted(io, token)) {
            self.take_look_ups_back(now);
        }
    }

    /// Lets the pipeline that alone may send go on. Returns whether it changed anything.
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

    /// The server described a statement, or refused it: it can be encoded now.
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

/// How a reply of a pipeline reads whose statement was completed, but whose segment failed.
pub(crate) fn rolled_back(cause: &Error) -> Error {
    Error::new(
        Kind::Server,
        outcome_behind(cause.outcome()),
        "rolled_back",
        format!("its pipeline failed behind it, so it does not stand: {cause}"),
    )
}
