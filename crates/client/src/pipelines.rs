//! The pipelines of one connection: what they have not handed to the engine yet, and how their
//! segments ended.
//!
//! A pipeline keeps its statements until it is finished, flushed or longer than a chunk. Then it
//! asks for the floor, and from its turn on hands over what the window takes, until its last sync
//! point is out. While it holds the floor nothing else is sent on the connection: the statements
//! between two sync points are one transaction.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use onetrip_engine::{Group, Outcome, Request, SyncPoint, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::message::Execute;

use crate::core::Core;
use crate::error::ABORTED;
use crate::first_use::FirstUse;
use crate::replies::{Member, Role};
use crate::{Error, Kind};

/// The number of a pipeline on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PipelineId(u32);

/// All pipelines of a connection that someone refers to.
#[derive(Debug, Default)]
pub(crate) struct Pipelines {
    list: Vec<Option<State>>,
    /// The pipeline that holds the floor.
    floor: Option<PipelineId>,
}

/// One pipeline.
#[derive(Debug, Default)]
struct State {
    /// Not handed to the engine yet, with their bytes in order.
    requests: VecDeque<Pending>,
    bytes: BytesMut,
    group: Option<Group>,
    granted: bool,
    flush: bool,
    finished: bool,
    /// Statements so far, and how many of them have a sync point or a Flush behind them.
    statements: u64,
    covered: u64,
    segments: VecDeque<Segment>,
    /// The number of the first of `segments`.
    segment_first: u64,
    /// The first failure of any statement or sync point.
    failure: Option<Error>,
    /// It was longer than the queue allows: nothing is added any more.
    overrun: bool,
    /// Whether what was handed over last leaves its segment open.
    mid_segment: bool,
    ready: Option<Waker>,
    settled: Option<Waker>,
    /// The pipeline itself, and the replies that were not taken yet.
    references: usize,
}

/// A request that was not handed over.
#[derive(Debug)]
struct Pending {
    request: Request<Expect>,
    bytes: Source,
}

/// Where the bytes of a request are.
#[derive(Debug)]
enum Source {
    /// So many at the front of the pipeline's buffer.
    Buffer(usize),
    /// Not encoded yet: the server was asked for the types of its parameters.
    Asked(Box<FirstUse>),
    /// Encoded after the answer.
    Own(BytesMut),
}

impl Pending {
    fn is_asked(&self) -> bool {
        matches!(self.bytes, Source::Asked(_))
    }
}

/// What lies between two sync points.
#[derive(Debug, Default)]
struct Segment {
    statements: u64,
    failed: Option<Error>,
    result: Option<Result<(), Error>>,
    replies: usize,
}

/// How far a pipeline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineStatus {
    /// Statements are taken, and run.
    On,
    /// A statement failed: the rest is skipped, up to the next sync point.
    Aborted,
    /// It is finished, or its connection is gone.
    Off,
}

/// A pipeline hands over what it has once that many bytes were written into it, so that the server
/// can begin and memory stays bounded. A loopback socket takes about as much in one write.
const CHUNK_BYTES: usize = 32 << 10;

impl Pipelines {
    fn get(&mut self, id: PipelineId) -> Option<&mut State> {
        self.list.get_mut(id.0 as usize)?.as_mut()
    }

    /// Whether a pipeline holds the floor.
    pub(crate) fn is_open(&self) -> bool {
        self.floor.is_some()
    }

    fn release(&mut self, id: PipelineId) {
        if let Some(state) = self.get(id) {
            state.references -= 1;
            if state.references == 0 && self.floor != Some(id) {
                self.list[id.0 as usize] = None;
            }
        }
    }
}

impl State {
    fn segment(&mut self, number: u64) -> Option<&mut Segment> {
        let index = number.checked_sub(self.segment_first)?;
        self.segments.get_mut(usize::try_from(index).ok()?)
    }

    fn current(&self) -> u64 {
        self.segment_first + self.segments.len() as u64 - 1
    }

    fn add(&mut self, request: Request<Expect>, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.requests.push_back(Pending { request, bytes: Source::Buffer(bytes.len()) });
    }

    fn add_sync(&mut self, token: Token) {
        let sync = onetrip_postgres::message::SYNC;
        let request = Request::isolated(token, Expect::sync());
        self.add(Request { sync: SyncPoint::Only, ..request }, &sync);
        self.covered = self.statements;
        self.segments.push_back(Segment::default());
    }

    /// Forgets segments that are over and whose replies were all taken.
    fn trim(&mut self) {
        while self.segments.len() > 1
            && self.segments[0].replies == 0
            && self.segments[0].result.is_some()
        {
            self.segments.pop_front();
            self.segment_first += 1;
        }
    }
}

impl Core {
    pub(crate) fn open_pipeline(&mut self) -> PipelineId {
        // It needs the connection as a caller does.
        self.handles += 1;
        let mut state = State { references: 1, ..State::default() };
        state.segments.push_back(Segment::default());
        let free = self.pipelines.list.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.pipelines.list.push(None);
            self.pipelines.list.len() - 1
        });
        self.pipelines.list[index] = Some(state);
        PipelineId(index as u32)
    }

    /// Adds a statement and says under which token its reply comes.
    pub(crate) fn pipeline_push(
        &mut self,
        now: Time,
        id: PipelineId,
        request: Request<Expect>,
        bytes: &[u8],
        limits: (usize, usize),
    ) -> Result<Token, Error> {
        let token = self.add_statement(id, limits)?;
        let Some(state) = self.pipelines.get(id) else { return Err(finished()) };
        state.add(Request { token, ..request }, bytes);
        if state.group.is_none() && state.bytes.len() >= CHUNK_BYTES {
            self.ask_for_floor(now, id);
        }
        Ok(token)
    }

    /// Adds a statement whose parameters' types the server is asked for first. It costs a trip, and
    /// what is added behind it waits for the answer.
    pub(crate) fn pipeline_push_asking(
        &mut self,
        now: Time,
        id: PipelineId,
        request: Request<Expect>,
        first_use: Box<FirstUse>,
        question: &[u8],
        limits: (usize, usize),
    ) -> Result<Token, Error> {
        let token = self.add_statement(id, limits)?;
        let asking = self.replies.add();
        let Some(state) = self.pipelines.get(id) else { return Err(finished()) };
        let role = Role::Question(token);
        if let Some(entry) = self.replies.entry(asking) {
            entry.member = Some(Member { pipeline: id, segment: state.current(), role });
        }
        let expect = Expect::sync().parse().describe_statement();
        let ask = Request::isolated(asking, expect);
        state.add(Request { sync: SyncPoint::Member, ..ask }, question);
        let request = Request { token, ..request };
        state.requests.push_back(Pending { request, bytes: Source::Asked(first_use) });
        state.flush = true;
        self.ask_for_floor(now, id);
        Ok(token)
    }

    /// Takes account of another statement, unless there may be none.
    fn add_statement(&mut self, id: PipelineId, limits: (usize, usize)) -> Result<Token, Error> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        let Some(state) = self.pipelines.get(id) else { return Err(finished()) };
        if state.finished {
            return Err(finished());
        }
        if state.overrun || state.requests.len() >= limits.0 || state.bytes.len() >= limits.1 {
            state.overrun = true;
            return Err(state.failure.get_or_insert_with(overrun).clone());
        }
        let token = self.replies.add();
        state.statements += 1;
        state.references += 1;
        let role = Role::Statement(state.statements);
        let member = Member { pipeline: id, segment: state.current(), role };
        if let Some(entry) = self.replies.entry(token) {
            entry.member = Some(member);
        }
        if let Some(segment) = state.segments.back_mut() {
            segment.statements += 1;
            segment.replies += 1;
        }
        Ok(token)
    }

    /// The server answered which types a statement has, or refused it: it can be encoded now.
    pub(crate) fn pipeline_answered(
        &mut self,
        asking: Token,
        error: Option<Error>,
    ) -> Option<Waker> {
        let (blocks, _, member) = self.replies.take(asking);
        let Some(Member { pipeline, role: Role::Question(token), .. }) = member else {
            return None;
        };
        let state = self.pipelines.get(pipeline)?;
        let place = state.requests.iter().position(|pending| pending.request.token == token)?;
        let pending = state.requests.get_mut(place)?;
        let Source::Asked(first_use) = &pending.bytes else { return None };
        let answer = match error {
            None => first_use.answered(&blocks),
            Some(error) => Err(error),
        };
        match answer {
            Ok((shape, bytes)) => {
                self.shapes.remember(first_use.sql(), shape);
                pending.bytes = Source::Own(bytes);
                None
            }
            Err(error) => {
                // What follows in the segment must not run without it: the server is made to fail
                // here, by the execution of a portal that does not exist.
                pending.bytes = Source::Own(failing());
                pending.request = Request {
                    sync: SyncPoint::Member,
                    ..Request::isolated(Token::DISCARD, Expect::sync().execute())
                };
                let error = self.note_member(token, Some(error)).unwrap_or_else(finished);
                self.replies.fail(token, error)
            }
        }
    }

    /// Adds a sync point; `None` when there is nothing in front of it.
    pub(crate) fn pipeline_sync(&mut self, id: PipelineId) -> Option<Token> {
        let state = self.pipelines.get(id)?;
        if state.finished || state.segments.back()?.statements == 0 {
            return None;
        }
        let token = self.replies.add();
        let member = Member { pipeline: id, segment: state.current(), role: Role::Sync };
        if let Some(entry) = self.replies.entry(token) {
            entry.member = Some(member);
        }
        state.references += 1;
        state.add_sync(token);
        Some(token)
    }

    /// Adds a ROLLBACK, where the pipeline has a transaction of its own, and a sync point, and
    /// nothing more: nobody waits for them.
    pub(crate) fn pipeline_abort(&mut self, now: Time, id: PipelineId, rollback: &[u8]) {
        let Some(state) = self.pipelines.get(id) else { return };
        if !rollback.is_empty() {
            let expect = Expect::sync().parse().bind().execute();
            let request = Request::isolated(Token::DISCARD, expect);
            let request = Request { sync: SyncPoint::Member, ..request };
            state.add(request, rollback);
        }
        state.add_sync(Token::DISCARD);
        state.finished = true;
        self.ask_for_floor(now, id);
    }

    /// Whether every segment has ended.
    pub(crate) fn pipeline_settled(&mut self, id: PipelineId, cx: &Context<'_>) -> Poll<()> {
        let Some(state) = self.pipelines.get(id) else { return Poll::Ready(()) };
        let open = |segment: &Segment| segment.statements > 0 && segment.result.is_none();
        if !state.segments.iter().any(open) {
            return Poll::Ready(());
        }
        state.settled = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Asks for the replies so far.
    pub(crate) fn pipeline_flush(&mut self, now: Time, id: PipelineId) {
        let Some(state) = self.pipelines.get(id) else { return };
        if state.covered < state.statements {
            state.covered = state.statements;
            state.flush = true;
        }
        self.ask_for_floor(now, id);
    }

    /// A caller awaits the reply to a statement: it must not be kept back.
    pub(crate) fn pipeline_awaited(&mut self, now: Time, member: Member) {
        let Some(state) = self.pipelines.get(member.pipeline) else { return };
        match member.role {
            Role::Statement(number) if state.covered < number => {
                self.pipeline_flush(now, member.pipeline);
            }
            _ => self.ask_for_floor(now, member.pipeline),
        }
    }

    /// No more statements come: everything goes out, and then the floor is given back.
    pub(crate) fn pipeline_finish(&mut self, now: Time, id: PipelineId) -> Option<Token> {
        let token = self.pipeline_sync(id);
        let state = self.pipelines.get(id)?;
        state.finished = true;
        if !state.requests.is_empty() || state.group.is_some() {
            self.ask_for_floor(now, id);
        }
        token
    }

    /// Whether another statement would be sent without waiting in memory.
    pub(crate) fn pipeline_ready(
        &mut self,
        id: PipelineId,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        if let Some(refusal) = self.refusal() {
            return Poll::Ready(Err(refusal));
        }
        let (in_flight, queued) = (self.engine.in_flight(), self.engine.queued());
        let unread = self.engine.undelivered_bytes();
        let Some(state) = self.pipelines.get(id) else { return Poll::Ready(Err(finished())) };
        if state.overrun {
            return Poll::Ready(Err(state.failure.clone().unwrap_or_else(overrun)));
        }
        if state.bytes.len() < CHUNK_BYTES {
            return Poll::Ready(Ok(()));
        }
        if state.granted && in_flight == 0 && queued == 0 && unread > 0 {
            return Poll::Ready(Err(Error::misuse(
                "unread_replies",
                "the window is full of replies that nobody has taken: await replies of the pipeline \
                 before adding statements to it",
            )));
        }
        state.ready = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn pipeline_status(&mut self, id: PipelineId) -> PipelineStatus {
        let closed = self.engine.is_closed();
        match self.pipelines.get(id) {
            Some(state) if !closed && !state.finished => match state.segments.back() {
                Some(segment) if segment.failed.is_some() => PipelineStatus::Aborted,
                _ => PipelineStatus::On,
            },
            _ => PipelineStatus::Off,
        }
    }

    /// The first failure of any of its statements or sync points.
    pub(crate) fn pipeline_failure(&mut self, id: PipelineId) -> Option<Error> {
        self.pipelines.get(id)?.failure.clone()
    }

    /// Takes back what was not handed over. Returns whether a segment was left open on the wire.
    pub(crate) fn pipeline_withdraw(&mut self, now: Time, id: PipelineId) -> bool {
        let Some(state) = self.pipelines.get(id) else { return false };
        let requests = std::mem::take(&mut state.requests);
        state.bytes.clear();
        state.finished = !state.mid_segment;
        let open = state.mid_segment;
        if let Some(group) = state.group
            && !state.granted
        {
            state.group = None;
            self.engine.close_group(now, group);
        }
        for Pending { request, .. } in requests {
            let error = Error::new(
                Kind::Cancelled,
                Outcome::NotSent,
                "cancelled",
                "the pipeline was given up before this statement was sent",
            );
            let error = self.note_member(request.token, Some(error.clone())).unwrap_or(error);
            let waker = self.replies.fail(request.token, error);
            self.wakers.extend(waker);
        }
        open
    }

    pub(crate) fn pipeline_release(&mut self, id: PipelineId) {
        self.pipelines.release(id);
    }

    /// A reply was taken or given up, with so many bytes. Says how its segment ended.
    pub(crate) fn pipeline_taken(
        &mut self,
        now: Time,
        member: Member,
        bytes: usize,
    ) -> Option<Result<(), Error>> {
        let state = self.pipelines.get(member.pipeline)?;
        let segment = state.segment(member.segment);
        let result = segment.as_ref().and_then(|segment| segment.result.clone());
        if let (Role::Statement(_), Some(segment)) = (member.role, segment) {
            segment.replies -= 1;
        }
        state.trim();
        if let Some(group) = state.group
            && bytes > 0
        {
            self.engine.handle_consumed(now, group, bytes);
        }
        self.pipelines.release(member.pipeline);
        result
    }

    fn ask_for_floor(&mut self, now: Time, id: PipelineId) {
        let Some(state) = self.pipelines.get(id) else { return };
        if state.group.is_some() {
            return;
        }
        let token = self.replies.add();
        if let Some(entry) = self.replies.entry(token) {
            entry.member = Some(Member { pipeline: id, segment: 0, role: Role::Floor });
        }
        match self.engine.open_group(now, token) {
            Some(group) => state.group = Some(group),
            None => {
                self.replies.remove(token);
                self.fail_pipelines();
            }
        }
    }

    pub(crate) fn granted(&mut self, _now: Time, token: Token) {
        let member = self.replies.entry(token).and_then(|entry| entry.member);
        self.replies.remove(token);
        if let Some(Member { pipeline, .. }) = member
            && let Some(state) = self.pipelines.get(pipeline)
            && state.group.is_some()
        {
            state.granted = true;
            self.pipelines.floor = Some(pipeline);
        }
    }

    /// Lets the pipeline that holds the floor hand over what the window takes. Returns whether it
    /// changed anything.
    pub(crate) fn advance_floor(&mut self, now: Time) -> bool {
        let Some(id) = self.pipelines.floor else { return false };
        let was_idle = self.engine.in_flight() == 0 && self.engine.transmit().is_empty();
        let mut moved = false;
        let Some(state) = self.pipelines.list.get_mut(id.0 as usize).and_then(Option::as_mut)
        else {
            return false;
        };
        let Some(group) = state.group else { return false };
        // A finished pipeline waits for nobody any more, so the engine may queue the rest.
        while state.finished || self.engine.group_has_room() {
            let Some(pending) = state.requests.front() else { break };
            let request = Request { group: Some(group), ..copy_of(&pending.request) };
            let bytes = match &pending.bytes {
                Source::Buffer(len) => &state.bytes[..*len],
                Source::Own(bytes) => bytes,
                Source::Asked(_) => break,
            };
            let submitted = self.engine.submit(now, request, |out| {
                out.extend_from_slice(bytes);
                Ok::<(), std::convert::Infallible>(())
            });
            if submitted.is_err() {
                break;
            }
            if let Source::Buffer(len) = pending.bytes {
                state.bytes.advance(len);
            }
            state.mid_segment = pending.request.sync == SyncPoint::Member;
            state.requests.pop_front();
            moved = true;
        }
        if state.requests.front().is_none_or(Pending::is_asked) {
            if state.flush {
                state.flush = false;
                self.engine.flush(now, group);
                moved = true;
            }
        }
        if state.requests.is_empty() {
            if state.finished {
                self.engine.close_group(now, group);
                state.group = None;
                self.pipelines.floor = None;
                if state.references == 0 {
                    self.pipelines.list[id.0 as usize] = None;
                }
                moved = true;
            }
        }
        if let Some(state) = self.pipelines.get(id)
            && state.bytes.len() < CHUNK_BYTES
        {
            let ready = state.ready.take();
            self.wakers.extend(ready);
        }
        if moved {
            self.wrote(now, was_idle);
        }
        moved
    }

    /// A request ended: keeps account of its pipeline, and makes an error say which statement.
    pub(crate) fn note_member(&mut self, token: Token, error: Option<Error>) -> Option<Error> {
        let member = self.replies.entry(token).and_then(|entry| entry.member);
        let Some(member) = member else { return error };
        let Some(state) = self.pipelines.get(member.pipeline) else { return error };
        match member.role {
            Role::Floor => {
                self.replies.remove(token);
                None
            }
            Role::Question(_) => error,
            Role::Statement(number) => {
                let error = error?;
                if error.code() == ABORTED {
                    return Some(error);
                }
                let error = error.about(format_args!("statement {number} of the pipeline"));
                state.failure.get_or_insert_with(|| error.clone());
                if let Some(segment) = state.segment(member.segment) {
                    segment.failed.get_or_insert_with(|| error.clone());
                }
                Some(error)
            }
            Role::Sync => {
                let waker = state.settled.take();
                self.wakers.extend(waker);
                let Some(segment) = state.segment(member.segment) else { return error };
                let error = match (error, &segment.failed) {
                    (Some(error), Some(failed)) if error.code() == ABORTED => Some(failed.clone()),
                    (error, _) => error,
                };
                segment.result = Some(error.clone().map_or(Ok(()), Err));
                if let Some(error) = &error {
                    state.failure.get_or_insert_with(|| error.clone());
                }
                state.trim();
                error
            }
        }
    }

    /// The connection ended: what pipelines still keep was not sent.
    pub(crate) fn fail_pipelines(&mut self) {
        let Some(error) = self.refusal() else { return };
        self.pipelines.floor = None;
        for index in 0..self.pipelines.list.len() {
            let Some(state) = &mut self.pipelines.list[index] else { continue };
            state.failure.get_or_insert_with(|| error.clone());
            let ready = state.ready.take();
            self.wakers.extend(ready);
            let requests = std::mem::take(&mut state.requests);
            state.bytes.clear();
            for Pending { request, .. } in requests {
                let noted = self.note_member(request.token, Some(error.clone()));
                let error = noted.unwrap_or_else(|| error.clone());
                let waker = self.replies.fail(request.token, error);
                self.wakers.extend(waker);
            }
        }
    }
}

/// The same request once more: what is handed to the engine may be refused.
fn copy_of(request: &Request<Expect>) -> Request<Expect> {
    Request {
        sync: request.sync,
        deadline: request.deadline,
        ..Request::isolated(request.token, request.expect)
    }
}

fn failing() -> BytesMut {
    let mut out = BytesMut::new();
    let execute = Execute { portal: "onetrip: a statement could not be encoded", rows_max: 0 };
    // Its name holds no NUL and is short.
    let _ = execute.encode(&mut out);
    out
}

fn finished() -> Error {
    Error::misuse("pipeline_finished", "the pipeline is finished: begin another")
}

fn overrun() -> Error {
    Error::misuse(
        "pipeline_too_long",
        "the pipeline keeps more statements than queue_max or queue_bytes_max allow: await ready() \
         between statements, so that they leave as they are made",
    )
}

/// How a reply of a pipeline reads whose statement was completed, but whose segment failed.
pub(crate) fn rolled_back(cause: &Error) -> Error {
    Error::new(
        Kind::Server,
        match cause.outcome() {
            Outcome::Rejected | Outcome::NotSent => Outcome::Rejected,
            Outcome::Applied | Outcome::Unknown => Outcome::Unknown,
        },
        "rolled_back",
        format!("its pipeline failed behind it, so it does not stand: {cause}"),
    )
}
