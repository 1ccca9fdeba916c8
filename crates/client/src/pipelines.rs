//! The pipelines of one connection: what they have not handed to the engine yet, and how their
//! segments ended.
//!
//! A pipeline keeps its statements until it is finished, flushed or longer than a chunk. Then it
//! asks for the floor, and from its turn on hands over what the window takes, until its last sync
//! point is out. While it holds the floor nothing else is sent on the connection: the statements
//! between two sync points are one transaction.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use onetrip_engine::{Group, Outcome, Request, SyncPoint, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::message::{Execute, SYNC, TransactionStatus};

use crate::core::Core;
use crate::error::ABORTED;
use crate::executor::plain_statement;
use crate::first_use::FirstUse;
use crate::lead::{Lead, Note};
use crate::replies::{Member, Role, Taken};
use crate::statements::{Scope, Use};
use crate::{Error, Kind};

/// Which pipeline of its connection. What was sent of one that nobody refers to any more may still be
/// answered, and must not be taken for another's that has its place by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PipelineId {
    place: u32,
    /// Tells it from every other pipeline of the connection.
    serial: u64,
}

/// All pipelines of a connection that someone refers to.
#[derive(Debug, Default)]
pub(crate) struct Pipelines {
    list: Vec<Option<State>>,
    /// The pipeline that holds the floor.
    floor: Option<PipelineId>,
    /// Whether any of them has a timeout.
    timed: bool,
    /// Pipelines so far.
    serials: u64,
}

/// One pipeline.
#[derive(Debug, Default)]
struct State {
    id: PipelineId,
    /// Not handed to the engine yet, with their bytes in order.
    requests: VecDeque<Pending>,
    bytes: BytesMut,
    group: Option<Group>,
    /// The same, also when all has been handed over.
    last_group: Option<Group>,
    /// Whether it waits to ask for the floor, behind others who wait for room in the queue.
    in_line: bool,
    granted: bool,
    /// Its statements are those of a batch, whose errors name rows.
    is_batch: bool,
    /// The open transaction of a session that is around it, or the savepoint.
    lead: Option<Arc<Lead>>,
    /// How long each of its requests may take.
    timeout: Option<Duration>,
    /// Whether a Flush is to follow what was handed over.
    flush: bool,
    finished: bool,
    /// Statements so far, and how many of them have a sync point or a Flush behind them.
    statements: u64,
    covered: u64,
    segments: VecDeque<Segment>,
    /// The number of the first of `segments`.
    segment_first: u64,
    /// Whether what was handed over last leaves its segment open.
    mid_segment: bool,
    /// The first failure of any statement or sync point.
    failure: Option<Error>,
    /// Whether any statement may have run.
    touched: bool,
    /// It was longer than the queue allows: nothing is added any more.
    overrun: bool,
    /// Whether a reply was awaited or given up while the pipeline is open.
    is_read: bool,
    ready: Option<Waker>,
    /// How many statements and bytes it may keep before `ready` makes it wait.
    kept_max: (usize, usize),
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
    /// The same, and an answer has to be asked for behind them.
    Question(usize),
    /// Not encoded yet: the server was asked for the types of its parameters.
    Asked(Box<FirstUse>),
    /// Encoded after the answer.
    Own(BytesMut),
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
        let state = self.list.get_mut(id.place as usize)?.as_mut();
        state.filter(|state| state.id == id)
    }

    fn forget(&mut self, id: PipelineId) {
        if self.get(id).is_some() {
            self.list[id.place as usize] = None;
        }
    }

    /// Whether a pipeline is being put together, or has something to send.
    pub(crate) fn any_work(&self) -> bool {
        self.list.iter().flatten().any(|state| !state.finished || !state.requests.is_empty())
    }

    /// Whether one of them has a timeout, so that the time of a call matters.
    pub(crate) fn is_timed(&self) -> bool {
        self.timed
    }

    /// What a pipeline was sent as, if anything of it was; `None` if it is gone.
    pub(crate) fn group(&mut self, id: PipelineId) -> Option<Option<Group>> {
        self.get(id).map(|state| state.last_group)
    }

    /// Whether a pipeline holds the floor.
    pub(crate) fn is_open(&self) -> bool {
        self.floor.is_some()
    }

    /// When the first request that was not handed over is late.
    pub(crate) fn next_deadline(&self) -> Time {
        if !self.timed {
            return Time::NEVER;
        }
        let first = |state: &State| state.requests.front().map(|pending| pending.request.deadline);
        self.list.iter().flatten().filter_map(first).min().unwrap_or(Time::NEVER)
    }
}

impl State {
    fn deadline(&self, now: Time) -> Time {
        self.timeout.map_or(Time::NEVER, |timeout| now.after(timeout))
    }

    /// Whether it may keep one more statement.
    fn has_room(&self) -> bool {
        self.requests.len() < self.kept_max.0 && self.bytes.len() < self.kept_max.1
    }

    fn segment(&mut self, number: u64) -> Option<&mut Segment> {
        let index = number.checked_sub(self.segment_first)?;
        self.segments.get_mut(usize::try_from(index).ok()?)
    }

    fn current(&self) -> u64 {
        self.segment_first + self.segments.len() as u64 - 1
    }

    fn add(&mut self, request: Request<Expect>, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let bytes = Source::Buffer(bytes.len());
        self.requests.push_back(Pending { request, bytes });
    }

    fn add_sync(&mut self, now: Time, token: Token) {
        let request = Request {
            sync: SyncPoint::Only,
            deadline: self.deadline(now),
            ..Request::isolated(token, Expect::sync())
        };
        self.add(request, &SYNC);
        self.covered = self.statements;
        self.segments.push_back(Segment::default());
    }

    /// A statement of the pipeline.
    fn member(&self, now: Time, token: Token, expect: Expect) -> Request<Expect> {
        let (sync, deadline) = (SyncPoint::Member, self.deadline(now));
        Request { sync, deadline, ..Request::isolated(token, expect) }
    }

    /// Whether nothing is in front of the question of the statement that was just counted: neither another
    /// statement of its segment nor the guard of a transaction, which have to share its sync point.
    fn begins_with_question(&self) -> bool {
        self.lead.is_none() && self.segments.back().is_some_and(|segment| segment.statements == 1)
    }

    /// Whether what comes next waits for the server's answer to a question.
    fn waits_for_answer(&self) -> bool {
        matches!(self.requests.front(), Some(Pending { bytes: Source::Asked(_), .. }))
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

/// What pipelines and calls ask for.
impl Core {
    pub(crate) fn open_pipeline(
        &mut self,
        lead: Option<Arc<Lead>>,
        timeout: Option<Duration>,
    ) -> PipelineId {
        // It needs the connection as a caller does.
        self.handles += 1;
        self.add_pipeline(lead, timeout)
    }

    fn add_pipeline(&mut self, lead: Option<Arc<Lead>>, timeout: Option<Duration>) -> PipelineId {
        let free = self.pipelines.list.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.pipelines.list.push(None);
            self.pipelines.list.len() - 1
        });
        self.pipelines.serials += 1;
        let id = PipelineId { place: place as u32, serial: self.pipelines.serials };
        let mut state = State {
            id,
            references: 1,
            lead,
            timeout,
            kept_max: (usize::MAX, CHUNK_BYTES),
            ..State::default()
        };
        state.segments.push_back(Segment::default());
        self.pipelines.timed |= timeout.is_some();
        self.pipelines.list[place] = Some(state);
        id
    }

    /// Submits a statement with the question for its types in front, as a pipeline of its own, so
    /// that nothing comes between.
    pub(crate) fn submit_asking(
        &mut self,
        now: Time,
        first_use: Box<FirstUse>,
        lead: Option<Arc<Lead>>,
    ) -> Result<Token, Error> {
        let timeout = (first_use.deadline != Time::NEVER).then(|| first_use.deadline.since(now));
        let id = self.add_pipeline(lead, timeout);
        let token = self.pipeline_push_asking(now, id, first_use, (usize::MAX, usize::MAX));
        self.pipeline_finish(now, id);
        self.pipeline_release(now, id);
        token
    }

    /// Adds a statement and says under which token its reply comes.
    pub(crate) fn pipeline_push(
        &mut self,
        now: Time,
        id: PipelineId,
        (expect, statement): (Expect, Option<Use>),
        bytes: &[u8],
        limits: (usize, usize),
    ) -> Result<Token, Error> {
        let token = self.add_statement(id, limits)?;
        if let Some(entry) = self.replies.entry(token) {
            entry.statement = statement;
        }
        let Some(state) = self.pipelines.get(id) else { return Err(finished()) };
        let request = state.member(now, token, expect);
        state.add(request, bytes);
        if state.group.is_none() && state.bytes.len() >= CHUNK_BYTES {
            self.ask_for_floor(now, id);
        }
        Ok(token)
    }

    /// Its statements are those of a batch.
    pub(crate) fn pipeline_is_batch(&mut self, id: PipelineId) {
        if let Some(state) = self.pipelines.get(id) {
            state.is_batch = true;
        }
    }

    /// Where the next statement of a pipeline is, for the prepared statement that it names.
    pub(crate) fn pipeline_scope(&mut self, id: PipelineId) -> Scope {
        self.pipelines.get(id).map_or(Scope::Fixed, |state| Scope::Segment {
            segment: (id.serial, state.current()),
            timed: state.timeout.is_some(),
        })
    }

    /// Whether another statement of so many bytes would only be kept for now.
    pub(crate) fn pipeline_keeps(&mut self, id: PipelineId, bytes: usize) -> bool {
        let untimed = !self.pipelines.timed;
        self.pipelines.get(id).is_some_and(|state| {
            untimed && state.group.is_none() && state.bytes.len() + bytes < CHUNK_BYTES
        })
    }

    /// Whether a pipeline has the engine's ear: taking its replies lets it go on.
    pub(crate) fn pipeline_has_group(&mut self, id: PipelineId) -> bool {
        self.pipelines.get(id).is_some_and(|state| state.group.is_some())
    }

    /// Adds a statement whose parameters' types the server is asked for first. It costs a trip, and
    /// what is added behind it waits for the answer.
    pub(crate) fn pipeline_push_asking(
        &mut self,
        now: Time,
        id: PipelineId,
        first_use: Box<FirstUse>,
        limits: (usize, usize),
    ) -> Result<Token, Error> {
        let question = first_use.question()?;
        let token = self.add_statement(id, limits)?;
        let asking = self.replies.add();
        let Some(state) = self.pipelines.get(id) else { return Err(finished()) };
        let role = Role::Question(token);
        if let Some(entry) = self.replies.entry(asking) {
            entry.member = Some(Member { pipeline: id, segment: state.current(), role });
        }
        let mut ask = state.member(now, asking, Expect::sync().parse().describe_statement());
        state.bytes.extend_from_slice(&question);
        let mut len = question.len();
        if state.begins_with_question() {
            // Then it is a segment of its own. With a Flush in its place the server would be held between
            // question and statement, and PgBouncer before 1.21 gives the server to others as soon as a
            // segment in front is answered: what was flushed behind it is never answered.
            ask.sync = SyncPoint::Own;
            state.bytes.extend_from_slice(&SYNC);
            len += SYNC.len();
        }
        let bytes = Source::Question(len);
        state.requests.push_back(Pending { request: ask, bytes });
        let request = state.member(now, token, first_use.expect);
        let bytes = Source::Asked(first_use);
        state.requests.push_back(Pending { request, bytes });
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
            return Err(state.failure.clone().unwrap_or_else(finished));
        }
        if state.overrun || state.requests.len() >= limits.0 || state.bytes.len() >= limits.1 {
            state.overrun = true;
            return Err(state.failure.get_or_insert_with(overrun).clone());
        }
        let begins = state.segments.back().is_none_or(|segment| segment.statements == 0);
        let lead = state.lead.clone();
        if let (true, Some(lead)) = (begins, &lead) {
            self.add_guard(id, lead)?;
        }
        let token = self.replies.add();
        let Some(state) = self.pipelines.get(id) else { return Err(finished()) };
        state.statements += 1;
        state.references += 1;
        let role = Role::Statement(state.statements);
        let member = Member { pipeline: id, segment: state.current(), role };
        if let Some(entry) = self.replies.entry(token) {
            entry.member = Some(member);
            entry.note = lead.map(Note::Within);
        }
        if let Some(segment) = state.segments.back_mut() {
            segment.statements += 1;
            segment.replies += 1;
        }
        Ok(token)
    }

    /// Has a segment begin with what fails where its transaction isn't open (any more): whoever keeps
    /// a pipeline for longer must not find it committed by itself.
    fn add_guard(&mut self, id: PipelineId, lead: &Arc<Lead>) -> Result<(), Error> {
        let (expect, bytes) = lead.guard()?;
        let token = self.replies.add();
        let now = self.clock();
        let Some(state) = self.pipelines.get(id) else { return Err(finished()) };
        let member = Member { pipeline: id, segment: state.current(), role: Role::Guard };
        if let Some(entry) = self.replies.entry(token) {
            entry.member = Some(member);
        }
        state.add(state.member(now, token, expect), &bytes);
        self.replies.abandon(token);
        Ok(())
    }

    /// Adds a sync point; `None` when there is nothing in front of it.
    pub(crate) fn pipeline_sync(&mut self, now: Time, id: PipelineId) -> Option<Token> {
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
        state.add_sync(now, token);
        Some(token)
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
        state.is_read = true;
        match member.role {
            Role::Statement(number) if state.covered < number => {
                self.pipeline_flush(now, member.pipeline);
            }
            _ => self.ask_for_floor(now, member.pipeline),
        }
    }

    /// No more statements come: everything goes out, and then the floor is given back.
    pub(crate) fn pipeline_finish(&mut self, now: Time, id: PipelineId) -> Option<Token> {
        let token = self.pipeline_sync(now, id);
        let state = self.pipelines.get(id)?;
        state.finished = true;
        if let Some(group) = state.group {
            // Its replies may all be taken after this.
            self.engine.stop_counting(now, group);
        }
        self.ask_for_floor(now, id);
        token
    }

    /// Has a pipeline that is long enough leave, though it is not finished.
    pub(crate) fn pipeline_press(&mut self, now: Time, id: PipelineId, limits: (usize, usize)) {
        let Some(state) = self.pipelines.get(id) else { return };
        state.kept_max = ((limits.0 / 2).max(1), CHUNK_BYTES.min(limits.1 / 2).max(1));
        if !state.has_room() {
            self.ask_for_floor(now, id);
        }
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
        let stuck = self.is_stuck();
        let Some(state) = self.pipelines.get(id) else { return Poll::Ready(Err(finished())) };
        if state.overrun || state.finished {
            return Poll::Ready(Err(state.failure.clone().unwrap_or_else(overrun)));
        }
        if state.has_room() {
            return Poll::Ready(Ok(()));
        }
        // Whoever has taken replies will take more. Without one this would never end.
        if state.granted && stuck && !state.is_read {
            return Poll::Ready(Err(Error::misuse(
                "unread_replies",
                "the window is full of replies that nobody has taken: await replies of the pipeline \
                 before adding statements to it",
            )));
        }
        state.ready = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether the pipeline that holds the floor can go on only when its replies are taken.
    fn is_stuck(&self) -> bool {
        self.engine.in_flight() == 0
            && self.engine.group_queued() == 0
            && self.engine.undelivered_bytes() > 0
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

    /// The first failure of any of its statements or sync points. The pipeline as a whole was not
    /// sent only if nothing of it may have run.
    pub(crate) fn pipeline_failure(&mut self, id: PipelineId) -> Option<Error> {
        let state = self.pipelines.get(id)?;
        let failure = state.failure.clone()?;
        Some(match failure.outcome() {
            Outcome::NotSent if state.touched => failure.with_outcome(Outcome::Unknown),
            _ => failure,
        })
    }

    /// Ends a pipeline before its end. What was not handed over is not sent. A segment that was left
    /// open on the wire is undone: in a transaction of its own by ROLLBACK; in one that is open around
    /// it by making the server fail, so that its owner learns of it at the latest at the commit.
    pub(crate) fn pipeline_give_up(&mut self, now: Time, id: PipelineId, why: &Error) {
        let outside = self.status() != TransactionStatus::Idle;
        let Some(state) = self.pipelines.get(id) else { return };
        if state.finished {
            return;
        }
        state.finished = true;
        state.failure.get_or_insert_with(|| why.clone());
        let requests = std::mem::take(&mut state.requests);
        state.bytes.clear();
        // Where its caller did not want that, a transaction must not be committed without it.
        let in_transaction = state.lead.is_some();
        let unwanted = why.kind() == Kind::Timeout && in_transaction && !requests.is_empty();
        let abort = (state.mid_segment || unwanted).then(|| match in_transaction || outside {
            true => failing(),
            false => plain_statement("ROLLBACK").unwrap_or_else(|_| failing()),
        });
        for Pending { request, .. } in requests {
            let error = self.note_member(request.token, Some(why.clone()));
            let waker = error.and_then(|error| self.replies.fail(request.token, error));
            self.wakers.extend(waker);
        }
        let Some(state) = self.pipelines.get(id) else { return };
        if let Some(abort) = abort {
            let expect = Expect::sync().parse().bind().execute();
            let expect = if abort[0] == b'E' { Expect::sync().execute() } else { expect };
            let request = state.member(now, Token::DISCARD, expect);
            state.add(request, &abort);
            // Whoever takes a reply from now on learns that it does not stand.
            let segment = state.segments.iter_mut().rev().find(|it| it.statements > 0);
            if let Some(segment) = segment {
                segment.result.get_or_insert_with(|| Err(why.clone()));
            }
            state.add_sync(now, Token::DISCARD);
        }
        let ready = state.ready.take();
        self.wakers.extend(ready);
        if let Some(group) = self.pipelines.get(id).and_then(|state| state.group) {
            self.engine.stop_counting(now, group);
        }
        self.ask_for_floor(now, id);
    }

    /// Gives up a pipeline that can't be sent, finished or not.
    fn pipeline_give_up_whole(&mut self, now: Time, id: PipelineId, why: &Error) {
        if let Some(state) = self.pipelines.get(id) {
            state.finished = false;
        }
        self.pipeline_give_up(now, id, why);
    }

    /// Gives up the pipelines whose first request that was not handed over is late.
    pub(crate) fn expire_pipelines(&mut self, now: Time) {
        for index in 0..self.pipelines.list.len() {
            let Some(State { id, requests, .. }) = &self.pipelines.list[index] else { continue };
            let late = requests.front().is_some_and(|pending| pending.request.deadline <= now);
            if !late {
                continue;
            }
            let id = *id;
            if let Some(state) = self.pipelines.get(id) {
                // Also one that was finished did not get to its end.
                state.finished = false;
                state.timeout = None;
            }
            let why = Error::new(
                Kind::Timeout,
                Outcome::NotSent,
                "timeout",
                "the deadline passed before the statement was sent",
            );
            self.pipeline_give_up(now, id, &why);
        }
    }

    pub(crate) fn pipeline_release(&mut self, now: Time, id: PipelineId) {
        let holds_floor = self.pipelines.floor == Some(id);
        let Some(state) = self.pipelines.get(id) else { return };
        state.references -= 1;
        if state.references > 0 || holds_floor || !state.requests.is_empty() {
            return;
        }
        if let Some(group) = state.group {
            self.engine.close_group(now, group);
        }
        self.pipelines.forget(id);
    }

    /// Bytes of a reply to this request need no more memory.
    pub(crate) fn consumed(&mut self, now: Time, token: Token, bytes: usize) {
        let member = self.replies.entry(token).and_then(|entry| entry.member);
        if let Some(member) = member
            && let Some(State { group: Some(group), .. }) = self.pipelines.get(member.pipeline)
        {
            self.engine.handle_consumed(now, *group, bytes);
        }
    }

    /// A reply was taken or given up, with so many bytes. Says how its segment ended.
    pub(crate) fn pipeline_taken(
        &mut self,
        now: Time,
        member: Member,
        bytes: usize,
    ) -> Option<Result<(), Error>> {
        let state = self.pipelines.get(member.pipeline)?;
        state.is_read = true;
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
        self.pipeline_release(now, member.pipeline);
        result
    }

    fn ask_for_floor(&mut self, now: Time, id: PipelineId) {
        if self.engine.is_closed() {
            return self.fail_pipelines();
        }
        let state = self.pipelines.get(id);
        if state.is_none_or(|it| it.group.is_some() || it.in_line || it.requests.is_empty()) {
            return;
        }
        let token = self.replies.add();
        if let Some(entry) = self.replies.entry(token) {
            entry.member = Some(Member { pipeline: id, segment: 0, role: Role::Floor });
        }
        if self.engine.waiting() == 0 {
            return self.open_floor(now, id, token);
        }
        // Its place is behind those who wait for room in the queue already.
        let waits = self.engine.wait(token, Time::NEVER).is_some();
        if let Some(state) = self.pipelines.get(id) {
            state.in_line = waits;
        }
        if !waits {
            self.replies.remove(token);
            let full = self.queue_full();
            self.pipeline_give_up_whole(now, id, &full);
        }
    }

    /// The turn of a pipeline came that waited behind others.
    pub(crate) fn floor_turn(&mut self, now: Time, token: Token) {
        let member = self.replies.entry(token).and_then(|entry| entry.member);
        let Some(Member { pipeline, role: Role::Floor, .. }) = member else { return };
        let Some(state) = self.pipelines.get(pipeline) else { return self.replies.remove(token) };
        state.in_line = false;
        match state.requests.is_empty() {
            true => self.replies.remove(token),
            false => self.open_floor(now, pipeline, token),
        }
    }

    fn open_floor(&mut self, now: Time, id: PipelineId, token: Token) {
        let Some(state) = self.pipelines.get(id) else { return };
        match self.engine.open_group(now, token) {
            Some(group) => (state.group, state.last_group) = (Some(group), Some(group)),
            None => {
                self.replies.remove(token);
                self.fail_pipelines();
            }
        }
    }
}

/// What the engine's outputs bring about.
impl Core {
    pub(crate) fn granted(&mut self, now: Time, token: Token) {
        let member = self.replies.entry(token).and_then(|entry| entry.member);
        self.replies.remove(token);
        if let Some(Member { pipeline, .. }) = member
            && let Some(state) = self.pipelines.get(pipeline)
            && let Some(group) = state.group
        {
            state.granted = true;
            let finished = state.finished;
            self.pipelines.floor = Some(pipeline);
            self.take_look_ups_back(now);
            if finished {
                self.engine.stop_counting(now, group);
            }
        }
    }

    /// Lets the pipeline that holds the floor hand over what the window takes. Returns whether it
    /// changed anything.
    pub(crate) fn advance_floor(&mut self, now: Time) -> bool {
        let Some(id) = self.pipelines.floor else { return false };
        let was_idle = self.engine.in_flight() == 0 && self.engine.transmit().is_empty();
        let mut moved = false;
        while self.hand_over(now, id) {
            moved = true;
        }
        self.flush_if_closed(now, id);
        let stuck = self.is_stuck();
        let Some(state) = self.pipelines.get(id) else { return moved };
        let Some(group) = state.group else { return moved };
        if state.flush && (state.requests.is_empty() || state.waits_for_answer()) {
            state.flush = false;
            self.engine.flush(now, group);
            moved = true;
        }
        let Some(state) = self.pipelines.get(id) else { return moved };
        if state.has_room() || stuck && !state.is_read {
            let ready = state.ready.take();
            self.wakers.extend(ready);
        }
        let Some(state) = self.pipelines.get(id) else { return moved };
        if state.finished && state.requests.is_empty() {
            state.group = None;
            if state.references == 0 {
                self.pipelines.forget(id);
            }
            self.pipelines.floor = None;
            self.engine.close_group(now, group);
            moved = true;
        }
        if moved {
            self.wrote(now, was_idle);
        }
        moved
    }

    /// Whether a pipeline holds the floor whose owner has not finished it.
    pub(crate) fn floor_is_open(&mut self) -> bool {
        let Some(id) = self.pipelines.floor else { return false };
        self.pipelines.get(id).is_some_and(|state| !state.finished)
    }

    /// The group that holds the floor, and whether its segment is open on the wire.
    pub(crate) fn floor_group(&mut self) -> Option<(Group, bool)> {
        let state = self.pipelines.floor.and_then(|id| self.pipelines.get(id))?;
        Some((state.group?, state.mid_segment))
    }

    /// Asks for the replies so far where unread ones have closed the window: nothing else will, and
    /// without the rest of them it can't be seen that only their reader can open it again.
    fn flush_if_closed(&mut self, now: Time, id: PipelineId) {
        let closed = self.engine.undelivered_bytes() > 0 && !self.engine.group_has_room();
        let Some(State { requests, group: Some(group), .. }) = self.pipelines.get(id) else {
            return;
        };
        if closed && !requests.is_empty() {
            let group = *group;
            self.engine.flush(now, group);
            if !self.engine.transmit().is_empty() {
                self.notify();
            }
        }
    }

    /// Hands the first request to the engine, if it takes one.
    fn hand_over(&mut self, now: Time, id: PipelineId) -> bool {
        let has_room = self.engine.group_has_room();
        let Some(state) = self.pipelines.get(id) else { return false };
        // A finished pipeline waits for nobody any more, so the engine may queue the rest.
        if !state.finished && !has_room {
            return false;
        }
        let Some(pending) = state.requests.front() else { return false };
        let bytes = match &pending.bytes {
            Source::Buffer(len) | Source::Question(len) => &state.bytes[..*len],
            Source::Own(bytes) => bytes,
            Source::Asked(_) => return false,
        };
        // The engine may refuse it, so it gets a copy.
        let Request { token, expect, sync, deadline, .. } = pending.request;
        let pinned = state.lead.is_some();
        let group = state.group;
        let request = Request { sync, deadline, pinned, group, ..Request::isolated(token, expect) };
        let submitted = self.engine.submit(now, request, |out| {
            out.extend_from_slice(bytes);
            Ok::<(), std::convert::Infallible>(())
        });
        if submitted.is_err() {
            return false;
        }
        match pending.bytes {
            Source::Buffer(len) => state.bytes.advance(len),
            Source::Question(len) => {
                state.bytes.advance(len);
                state.flush = sync == SyncPoint::Member;
            }
            Source::Own(_) | Source::Asked(_) => {}
        }
        state.mid_segment = sync == SyncPoint::Member;
        state.requests.pop_front();
        true
    }

    /// The server answered which types a statement has, or refused it: it can be encoded now.
    pub(crate) fn pipeline_answered(
        &mut self,
        now: Time,
        asking: Token,
        error: Option<Error>,
    ) -> Option<Waker> {
        let Taken { blocks, member, .. } = self.replies.take(asking);
        let Some(Member { pipeline, role: Role::Question(token), .. }) = member else {
            return None;
        };
        let state = self.pipelines.get(pipeline)?;
        if let Some(group) = state.group {
            self.engine.handle_consumed(now, group, blocks.len());
        }
        let place = state.requests.iter().position(|pending| pending.request.token == token)?;
        let pending = state.requests.get_mut(place)?;
        let Source::Asked(first_use) = &pending.bytes else { return None };
        let answer = match error {
            None => first_use.answered(&blocks, &self.types),
            Some(error) => Err(error),
        };
        match answer {
            Ok((shape, bytes)) => {
                self.shapes.remember(shape);
                pending.bytes = Source::Own(bytes);
                None
            }
            Err(error) => {
                // What follows in the segment must not run without it.
                pending.bytes = Source::Own(failing());
                pending.request = Request {
                    sync: SyncPoint::Member,
                    ..Request::isolated(Token::DISCARD, Expect::sync().execute())
                };
                let error = self.note_member(token, Some(error))?;
                self.replies.fail(token, error)
            }
        }
    }

    /// A request ended: keeps account of its pipeline, and makes an error say which statement.
    pub(crate) fn note_member(&mut self, token: Token, error: Option<Error>) -> Option<Error> {
        let member = self.replies.entry(token).and_then(|entry| entry.member);
        let Some(member) = member else { return error };
        let Some(state) = self.pipelines.get(member.pipeline) else { return error };
        match member.role {
            Role::Question(_) => error,
            Role::Guard => {
                let error = error?;
                if error.server().is_none() {
                    return Some(error);
                }
                let refusal = state.lead.as_ref().and_then(|lead| lead.refusal());
                let error = refusal.unwrap_or_else(|| {
                    error.about("the transaction of the pipeline is not open any more")
                });
                state.failure.get_or_insert_with(|| error.clone());
                if let Some(segment) = state.segment(member.segment) {
                    segment.failed.get_or_insert_with(|| error.clone());
                }
                Some(error)
            }
            Role::Floor => {
                self.replies.remove(token);
                None
            }
            Role::Statement(number) => {
                state.touched |= error.as_ref().is_none_or(|it| it.outcome() == Outcome::Unknown);
                let error = error?;
                if error.code() == ABORTED {
                    return Some(error);
                }
                // A statement that makes up the whole of a pipeline is not called its first.
                let error = match state.statements {
                    1 => error,
                    _ if state.is_batch => error,
                    _ => error.about(format_args!("statement {number} of the pipeline")),
                };
                state.failure.get_or_insert_with(|| error.clone());
                if let Some(segment) = state.segment(member.segment) {
                    segment.failed.get_or_insert_with(|| error.clone());
                }
                Some(error)
            }
            Role::Sync => {
                let waker = state.settled.take();
                self.wakers.extend(waker);
                let segment = state.segment(member.segment);
                let failed = segment.as_ref().and_then(|segment| segment.failed.clone());
                let error = match (error, failed) {
                    (Some(error), Some(failed)) if error.code() == ABORTED => Some(failed),
                    (error, _) => error,
                };
                if let Some(segment) = segment {
                    segment.result = Some(error.clone().map_or(Ok(()), Err));
                }
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
            state.group = None;
            let wakers = [state.ready.take(), state.settled.take()];
            self.wakers.extend(wakers.into_iter().flatten());
            let requests = std::mem::take(&mut state.requests);
            state.bytes.clear();
            if !requests.is_empty() {
                state.failure.get_or_insert_with(|| error.clone());
            }
            for Pending { request, .. } in requests {
                let noted = self.note_member(request.token, Some(error.clone()));
                let waker = noted.and_then(|error| self.replies.fail(request.token, error));
                self.wakers.extend(waker);
            }
            let Some(state) = &self.pipelines.list[index] else { continue };
            if state.references == 0 {
                self.pipelines.list[index] = None;
            }
        }
    }
}

/// What makes the server fail at this point: the execution of a portal that does not exist.
pub(crate) fn failing() -> BytesMut {
    let mut out = BytesMut::new();
    let execute = Execute { portal: "onetrip: a pipeline was given up", rows_max: 0 };
    // Its name holds no NUL and is short.
    let _ = execute.encode(&mut out);
    out
}

fn finished() -> Error {
    Error::misuse("pipeline_finished", "the pipeline is finished: begin another")
}

pub(crate) fn overrun() -> Error {
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
