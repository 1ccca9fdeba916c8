//! The pipelines of one connection: the requests that they have not handed to the engine yet, and
//! how their segments ended.
//!
//! A pipeline keeps its statements until it is finished, flushed or longer than a chunk. Then it
//! asks for the exclusive right to send. From its turn until its last sync point is out, it hands
//! over what the window takes, and nothing else is sent on the connection: the statements between
//! two sync points are one transaction.
//!
//! The face has the replies, and keeps with each its [`Member`], which says what it is to its
//! pipeline.

mod compose;
mod end;
mod send;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::{Connection, Group, Outcome, Request, SyncPoint, Time, Token};

use crate::client::said;
use crate::client::transaction::verdict::Failure;
pub use crate::message::execute::failing;
use crate::message::{EncodeError, SYNC};
use crate::session::{Expect, Postgres};

/// The types of a face that pipelines need.
pub trait Face: Sized {
    /// An error, as callers get it.
    type Why: Why;
    /// The transaction around a pipeline.
    type Around: Around<Self::Why>;
    /// A statement that can't be encoded before the server has described it.
    type Undescribed;
    /// Wakes a caller that waits until a pipeline has room or has ended.
    type Waker;
}

/// An error, as callers get it.
pub trait Why: Failure {
    /// The error for a refusal on this side.
    fn refused(refusal: Refusal) -> Self;
    /// Whether a deadline passed.
    fn is_late(&self) -> bool;
    /// The same error, with the number of the statement in front of its text.
    #[must_use]
    fn of_statement(self, number: u64) -> Self;
}

/// The transaction around a pipeline.
pub trait Around<W>: Clone {
    /// Writes a request that fails unless the transaction is open, and returns what answers it.
    ///
    /// # Errors
    /// The guard can't be encoded.
    fn write_guard(&self, out: &mut BytesMut) -> Result<Expect, EncodeError>;
    /// Why the transaction did not begin, if it was refused.
    fn refusal(&self) -> Option<W>;
}

/// The replies of a connection, by token.
pub trait Replies<F: Face> {
    /// Adds an expected reply. If it belongs to a statement in a transaction, `around` is told of
    /// its end.
    fn add(&mut self, member: Member, around: Option<&F::Around>) -> Token;
    /// What a reply is to its pipeline.
    fn member(&mut self, token: Token) -> Option<Member>;
    /// No caller waits for the reply any more.
    fn abandon(&mut self, token: Token);
    /// The reply will not come.
    fn remove(&mut self, token: Token);
    /// The request failed.
    fn fail(&mut self, token: Token, why: F::Why);
    /// Wakes a caller that waited.
    fn wake(&mut self, waker: F::Waker);
}

/// The connection of the pipelines, for the time of one call.
pub struct Io<'a, F: Face, R> {
    /// Its engine.
    pub engine: &'a mut Connection<Postgres>,
    /// Its replies.
    pub replies: &'a mut R,
    /// The time.
    pub now: Time,
    /// Why no more requests are taken; `None` while the connection is open.
    pub ended: Option<F::Why>,
}

/// Why this side refuses a pipeline or a statement of it. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The pipeline is finished.
    Finished,
    /// It is longer than the queue allows.
    TooLong,
    /// It waits for its own replies to be read.
    UnreadReplies,
    /// Its turn did not come in time.
    Late,
    /// The queue is full.
    QueueFull,
    /// The guard of its transaction can't be written.
    Unencodable,
    /// Another pipeline of the same owner holds the connection, and is not finished.
    Open,
    /// A stream or COPY of the same owner is open.
    Stream,
}

impl Refusal {
    /// A stable name, for programs.
    pub fn code(self) -> &'static str {
        match self {
            Refusal::Finished => "pipeline_finished",
            Refusal::TooLong => "pipeline_too_long",
            Refusal::UnreadReplies => "unread_replies",
            Refusal::Late => said::LATE_UNSENT.code,
            Refusal::QueueFull => said::QUEUE_FULL.code,
            Refusal::Unencodable => "unencodable_parameter",
            Refusal::Open => "pipeline_open",
            Refusal::Stream => "stream_open",
        }
    }

    /// What is wrong, and what to do.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::Finished => "the pipeline is finished: begin another",
            Refusal::TooLong => {
                "the pipeline keeps more statements than queue_max or queue_bytes_max allow: await \
                 ready() between statements, so that they leave as they are made"
            }
            Refusal::UnreadReplies => {
                "the window is full of replies that nobody has taken: await replies of the pipeline \
                 before adding statements to it"
            }
            Refusal::Late => said::LATE_UNSENT.text,
            Refusal::QueueFull => said::QUEUE_FULL.text,
            Refusal::Unencodable => "the guard of the transaction can't be written",
            Refusal::Open => {
                "a pipeline of this session or transaction has begun to send, and what comes behind \
                 it would wait until it is finished: finish or drop that pipeline first"
            }
            Refusal::Stream => {
                "a stream of rows or a COPY of this session or transaction is open, and what comes \
                 behind it would wait for its end: read or finish it, or drop it first"
            }
        }
    }
}

/// The outcome of a statement that was completed, in a segment that failed with `cause`.
pub fn outcome_behind(cause: Outcome) -> Outcome {
    match cause {
        Outcome::Rejected | Outcome::NotSent => Outcome::Rejected,
        Outcome::Applied | Outcome::Unknown => Outcome::Unknown,
    }
}

/// Names a pipeline of a connection. A reply may still come for a pipeline that is gone; the name
/// keeps it from being taken for a reply to the next one in that place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineId {
    place: u32,
    /// Distinguishes it from every other pipeline of the connection.
    serial: u64,
}

/// Which request of which pipeline this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The pipeline.
    pub pipeline: PipelineId,
    segment: u64,
    /// What the request is to the pipeline.
    pub role: Role,
}

/// What a request is to its pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A statement, by its number from 1.
    Statement(u64),
    /// The sync point of a segment.
    Sync,
    /// Asks for the exclusive right to send. It is never sent itself.
    SendRight,
    /// Has the server describe the statement with this token.
    Describe(Token),
    /// A request that fails unless the transaction around the pipeline is open.
    Guard,
}

/// The state of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineStatus {
    /// Statements are taken, and run.
    On,
    /// A statement failed. The rest is skipped up to the next sync point.
    Aborted,
    /// It is finished, or its connection is gone.
    Off,
}

/// The most that a pipeline may keep.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests.
    pub requests: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// When a pipeline holds this many bytes, it hands them over, so that the server can begin and
/// memory stays bounded. A loopback socket takes about as much in one write.
const CHUNK_BYTES: usize = 32 << 10;

/// All pipelines of a connection that are still referred to.
pub struct Pipelines<F: Face> {
    list: Vec<Option<Pipeline<F>>>,
    /// The pipeline with the exclusive right to send.
    sender: Option<PipelineId>,
    /// Whether any pipeline had a timeout so far.
    timed: bool,
    /// How many pipelines there were so far.
    serials: u64,
    /// How many streams and COPYs of the connection's only owner have begun, and wait for it.
    streams: usize,
}

/// One pipeline.
struct Pipeline<F: Face> {
    id: PipelineId,
    /// Requests not handed to the engine yet, and their bytes in order.
    requests: VecDeque<Unsent<F::Undescribed>>,
    bytes: BytesMut,
    group: Option<Group>,
    /// The last group, kept when everything has been handed over.
    last_group: Option<Group>,
    /// Whether it waits to ask for the right to send, behind callers that wait for room in the
    /// queue.
    waits_for_room: bool,
    granted: bool,
    /// Whether its statements are those of a batch, whose errors name rows.
    is_batch: bool,
    around: Option<F::Around>,
    /// How long each of its requests may take.
    timeout: Option<Duration>,
    /// Whether a Flush must follow what was handed over.
    flush: bool,
    finished: bool,
    /// Statements so far, and how many of them have a sync point or a Flush behind them.
    statements: u64,
    covered: u64,
    segments: VecDeque<Segment<F::Why>>,
    /// The number of the first of `segments`.
    segment_first: u64,
    /// Whether the last request that was handed over leaves its segment open.
    mid_segment: bool,
    /// The first failure of any statement or sync point.
    failure: Option<F::Why>,
    /// Whether any statement may have run.
    touched: bool,
    /// Whether it was longer than the queue allows, so that it takes no more.
    overrun: bool,
    /// Whether a reply was awaited or given up while the pipeline is open.
    is_read: bool,
    ready: Option<F::Waker>,
    /// How many requests and bytes it may keep before `poll_ready` makes callers wait.
    kept_max: Limits,
    settled: Option<F::Waker>,
    /// One for the pipeline itself, and one for each reply that was not taken yet.
    references: usize,
}

/// A request that was not handed to the engine yet.
struct Unsent<U> {
    request: Request<Expect>,
    bytes: Source<U>,
}

/// Where the bytes of a request are.
enum Source<U> {
    /// This many bytes at the front of the pipeline's buffer.
    Buffer(usize),
    /// The same for a Describe, whose answer must be asked for.
    Describe(usize),
    /// Not encoded yet; the server is asked to describe it first.
    Undescribed(Box<U>),
    /// Encoded after the description came.
    Own(BytesMut),
}

/// The requests between two sync points.
struct Segment<W> {
    statements: u64,
    failed: Option<W>,
    result: Option<Result<(), W>>,
    replies: usize,
}

impl<W> Default for Segment<W> {
    fn default() -> Self {
        Segment { statements: 0, failed: None, result: None, replies: 0 }
    }
}

impl<F: Face> Default for Pipelines<F> {
    fn default() -> Self {
        Pipelines { list: Vec::new(), sender: None, timed: false, serials: 0, streams: 0 }
    }
}

impl<F: Face> Pipelines<F> {
    fn get(&mut self, id: PipelineId) -> Option<&mut Pipeline<F>> {
        let pipeline = self.list.get_mut(id.place as usize)?.as_mut();
        pipeline.filter(|it| it.id == id)
    }

    fn forget(&mut self, id: PipelineId) {
        if self.get(id).is_some() {
            self.list[id.place as usize] = None;
        }
    }

    /// Whether a pipeline is not finished, or has something to send.
    pub fn any_work(&self) -> bool {
        self.list.iter().flatten().any(|it| !it.finished || !it.requests.is_empty())
    }

    /// Whether any of them had a timeout, so that the time of a call matters.
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// The engine's group of a pipeline, if it ever asked for one. The outer `None` means that the
    /// pipeline is gone.
    pub fn group(&mut self, id: PipelineId) -> Option<Option<Group>> {
        self.get(id).map(|it| it.last_group)
    }

    /// Whether a pipeline has the right to send, or has asked for it. Taking its replies then lets
    /// it go on.
    pub fn has_group(&mut self, id: PipelineId) -> bool {
        self.get(id).is_some_and(|it| it.group.is_some())
    }

    /// Whether a pipeline has the exclusive right to send.
    pub fn is_exclusive(&self) -> bool {
        self.sender.is_some()
    }

    /// A stream or COPY begins, whose end its owner decides about.
    pub fn stream_opened(&mut self) {
        self.streams += 1;
    }

    /// It has ended, or its owner gave it up.
    pub fn stream_closed(&mut self) {
        self.streams -= 1;
    }

    /// Why the only owner of the connection can't send anything else now: it would wait for itself.
    /// A pipeline of its own has begun to send, or a stream or COPY is open, and only the owner
    /// goes on with it. (A batch ends by itself.)
    pub fn refusal_behind(&self) -> Option<Refusal> {
        self.refusal_of(None)
    }

    /// The same for this pipeline of the owner.
    fn refusal_of(&self, itself: Option<PipelineId>) -> Option<Refusal> {
        match self.streams > 0 {
            true => Some(Refusal::Stream),
            false => self.is_held_beside(itself).then_some(Refusal::Open),
        }
    }

    /// Whether a pipeline has begun to send, and only its owner goes on with it. What else is put
    /// on the connection may have to wait for any time.
    pub fn is_held(&self) -> bool {
        self.is_held_beside(None)
    }

    fn is_held_beside(&self, itself: Option<PipelineId>) -> bool {
        let waits = |it: &Pipeline<F>| it.group.is_some() || it.waits_for_room;
        let others = self.list.iter().flatten().filter(|it| Some(it.id) != itself);
        others.filter(|it| !it.finished && !it.is_batch).any(waits)
    }

    /// Whether the owner of that pipeline has not finished it.
    pub fn is_sender_open(&mut self) -> bool {
        let Some(id) = self.sender else { return false };
        self.get(id).is_some_and(|it| !it.finished)
    }

    /// The group with the exclusive right to send, and whether its segment is open on the wire.
    pub fn sender_group(&mut self) -> Option<(Group, bool)> {
        let pipeline = self.sender.and_then(|id| self.get(id))?;
        Some((pipeline.group?, pipeline.mid_segment))
    }

    /// The earliest deadline of a request that was not handed over.
    pub fn next_deadline(&self) -> Time {
        if !self.timed {
            return Time::NEVER;
        }
        let first = |it: &Pipeline<F>| it.requests.front().map(|unsent| unsent.request.deadline);
        self.list.iter().flatten().filter_map(first).min().unwrap_or(Time::NEVER)
    }
}

impl<F: Face> Pipeline<F> {
    fn new(id: PipelineId, around: Option<F::Around>, timeout: Option<Duration>) -> Self {
        Pipeline {
            id,
            requests: VecDeque::new(),
            bytes: BytesMut::new(),
            group: None,
            last_group: None,
            waits_for_room: false,
            granted: false,
            is_batch: false,
            around,
            timeout,
            flush: false,
            finished: false,
            statements: 0,
            covered: 0,
            segments: VecDeque::from([Segment::default()]),
            segment_first: 0,
            mid_segment: false,
            failure: None,
            touched: false,
            overrun: false,
            is_read: false,
            ready: None,
            kept_max: Limits { requests: usize::MAX, bytes: CHUNK_BYTES },
            settled: None,
            references: 1,
        }
    }

    fn deadline(&self, now: Time) -> Time {
        self.timeout.map_or(Time::NEVER, |timeout| now.after(timeout))
    }

    /// Whether it may keep one more statement.
    fn has_room(&self) -> bool {
        self.requests.len() < self.kept_max.requests && self.bytes.len() < self.kept_max.bytes
    }

    fn segment(&mut self, number: u64) -> Option<&mut Segment<F::Why>> {
        let index = number.checked_sub(self.segment_first)?;
        self.segments.get_mut(usize::try_from(index).ok()?)
    }

    fn current(&self) -> u64 {
        self.segment_first + self.segments.len() as u64 - 1
    }

    fn member(&self, role: Role) -> Member {
        Member { pipeline: self.id, segment: self.current(), role }
    }

    fn add(&mut self, request: Request<Expect>, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let bytes = Source::Buffer(bytes.len());
        self.requests.push_back(Unsent { request, bytes });
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
    fn request(&self, now: Time, token: Token, expect: Expect) -> Request<Expect> {
        let (sync, deadline) = (SyncPoint::Member, self.deadline(now));
        Request { sync, deadline, ..Request::isolated(token, expect) }
    }

    /// Whether nothing is in front of the Describe of the statement that was just counted. Another
    /// statement of its segment, or the guard of a transaction, would have to share its sync point.
    fn begins_with_describe(&self) -> bool {
        self.around.is_none() && self.segments.back().is_some_and(|it| it.statements == 1)
    }

    /// Whether the next request waits until the server has described it.
    fn waits_for_answer(&self) -> bool {
        matches!(self.requests.front(), Some(Unsent { bytes: Source::Undescribed(_), .. }))
    }

    /// Notes that a segment failed.
    fn failed(&mut self, segment: u64, why: &F::Why) {
        self.failure.get_or_insert_with(|| why.clone());
        if let Some(segment) = self.segment(segment) {
            segment.failed.get_or_insert_with(|| why.clone());
        }
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
