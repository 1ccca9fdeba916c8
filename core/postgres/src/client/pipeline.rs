//! The pipelines of one connection: what they have not handed to the engine yet, and how their segments
//! ended.
//!
//! A pipeline keeps its statements until it is finished, flushed or longer than a chunk. Then it asks for
//! the exclusive right to send, and from its turn on hands over what the window takes, until its last sync
//! point is out. Nothing else is sent on the connection meanwhile: the statements between two sync points
//! are one transaction.
//!
//! The replies are the face's, which keeps beside each what it is to its pipeline ([`Member`]).

mod compose;
mod end;
mod send;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::{Connection, Group, Outcome, Request, SyncPoint, Time, Token};

use crate::client::transaction::verdict::Failure;
use crate::message::{EncodeError, Execute, SYNC};
use crate::session::{Expect, Postgres};

/// What a face has, as far as its pipelines are concerned.
pub trait Face: Sized {
    /// Why something failed, as its callers are told.
    type Why: Why;
    /// The transaction that a pipeline is in.
    type Around: Around<Self::Why>;
    /// A statement that can't be encoded before the server has described it.
    type Undescribed;
    /// Who waits until a pipeline has room or has ended.
    type Waker;
}

/// Why something failed.
pub trait Why: Failure {
    /// Why this side refuses it.
    fn refused(refusal: Refusal) -> Self;
    /// Whether it was too late.
    fn is_late(&self) -> bool;
    /// The same, with the number of the statement in front of its text.
    #[must_use]
    fn of_statement(self, number: u64) -> Self;
}

/// The transaction that a pipeline is in.
pub trait Around<W>: Clone {
    /// What fails where the transaction is not open (any more), and what it is answered by.
    ///
    /// # Errors
    /// It can't be written.
    fn write_guard(&self, out: &mut BytesMut) -> Result<Expect, EncodeError>;
    /// Why it did not begin.
    fn refusal(&self) -> Option<W>;
}

/// The replies of a connection, by token.
pub trait Replies<F: Face> {
    /// A reply that is to come. Where it is of a statement in a transaction, that hears of its end.
    fn add(&mut self, member: Member, around: Option<&F::Around>) -> Token;
    /// What it is to its pipeline.
    fn member(&mut self, token: Token) -> Option<Member>;
    /// Nobody waits for it.
    fn abandon(&mut self, token: Token);
    /// It will not come.
    fn remove(&mut self, token: Token);
    /// It failed.
    fn fail(&mut self, token: Token, why: F::Why);
    /// Someone who waited is to go on.
    fn wake(&mut self, waker: F::Waker);
}

/// The connection that pipelines are of, for the time of one call.
pub struct Io<'a, F: Face, R> {
    /// Its engine.
    pub engine: &'a mut Connection<Postgres>,
    /// Its replies.
    pub replies: &'a mut R,
    /// The time.
    pub now: Time,
    /// Why nothing is taken any more; none while the connection is open.
    pub ended: Option<F::Why>,
}

/// Why this side refuses a pipeline or a statement of it. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is finished.
    Finished,
    /// It is longer than the queue allows.
    TooLong,
    /// It waits for its own reader.
    UnreadReplies,
    /// Its turn did not come in time.
    Late,
    /// The queue has no place for it.
    QueueFull,
    /// The guard of its transaction can't be written.
    Unencodable,
}

impl Refusal {
    /// A stable name, for programs.
    pub fn code(self) -> &'static str {
        match self {
            Refusal::Finished => "pipeline_finished",
            Refusal::TooLong => "pipeline_too_long",
            Refusal::UnreadReplies => "unread_replies",
            Refusal::Late => "timeout",
            Refusal::QueueFull => "queue_full",
            Refusal::Unencodable => "unencodable_parameter",
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
            Refusal::Late => "the deadline passed before the statement was sent",
            Refusal::QueueFull => {
                "the queue of the connection is full: wait for replies before sending more, or raise \
                 queue_max"
            }
            Refusal::Unencodable => "the guard of the transaction can't be written",
        }
    }
}

/// How a statement is told that was completed, but whose segment failed with this.
pub fn outcome_behind(cause: Outcome) -> Outcome {
    match cause {
        Outcome::Rejected | Outcome::NotSent => Outcome::Rejected,
        Outcome::Applied | Outcome::Unknown => Outcome::Unknown,
    }
}

/// Which pipeline of its connection. What was sent of one that nobody refers to any more may still be
/// answered, and must not be taken for another's that has its place by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineId {
    place: u32,
    /// Tells it from every other pipeline of the connection.
    serial: u64,
}

/// Which part of which pipeline a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which pipeline.
    pub pipeline: PipelineId,
    segment: u64,
    /// What it is there.
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
    /// What fails where the transaction around it is not open.
    Guard,
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

/// How much a pipeline may keep.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests.
    pub requests: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// A pipeline hands over what it has once that many bytes were written into it, so that the server can
/// begin and memory stays bounded. A loopback socket takes about as much in one write.
const CHUNK_BYTES: usize = 32 << 10;

/// All pipelines of a connection that someone refers to.
pub struct Pipelines<F: Face> {
    list: Vec<Option<Pipeline<F>>>,
    /// The pipeline that alone may send.
    sender: Option<PipelineId>,
    /// Whether any of them has a timeout.
    timed: bool,
    /// Pipelines so far.
    serials: u64,
}

/// One pipeline.
struct Pipeline<F: Face> {
    id: PipelineId,
    /// Not handed to the engine yet, with their bytes in order.
    requests: VecDeque<Unsent<F::Undescribed>>,
    bytes: BytesMut,
    group: Option<Group>,
    /// The same, also when all has been handed over.
    last_group: Option<Group>,
    /// Whether it waits to ask for the right to send, behind others who wait for room in the queue.
    waits_for_room: bool,
    granted: bool,
    /// Its statements are those of a batch, whose errors name rows.
    is_batch: bool,
    around: Option<F::Around>,
    /// How long each of its requests may take.
    timeout: Option<Duration>,
    /// Whether a Flush is to follow what was handed over.
    flush: bool,
    finished: bool,
    /// Statements so far, and how many of them have a sync point or a Flush behind them.
    statements: u64,
    covered: u64,
    segments: VecDeque<Segment<F::Why>>,
    /// The number of the first of `segments`.
    segment_first: u64,
    /// Whether what was handed over last leaves its segment open.
    mid_segment: bool,
    /// The first failure of any statement or sync point.
    failure: Option<F::Why>,
    /// Whether any statement may have run.
    touched: bool,
    /// It was longer than the queue allows: nothing is added any more.
    overrun: bool,
    /// Whether a reply was awaited or given up while the pipeline is open.
    is_read: bool,
    ready: Option<F::Waker>,
    /// How many statements and bytes it may keep before `ready` makes it wait.
    kept_max: Limits,
    settled: Option<F::Waker>,
    /// The pipeline itself, and the replies that were not taken yet.
    references: usize,
}

/// A request that was not handed over.
struct Unsent<U> {
    request: Request<Expect>,
    bytes: Source<U>,
}

/// Where the bytes of a request are.
enum Source<U> {
    /// So many at the front of the pipeline's buffer.
    Buffer(usize),
    /// The same, and an answer has to be asked for behind them.
    Describe(usize),
    /// Not encoded yet: the server was asked to describe it.
    Undescribed(Box<U>),
    /// Encoded after the answer.
    Own(BytesMut),
}

/// What lies between two sync points.
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
        Pipelines { list: Vec::new(), sender: None, timed: false, serials: 0 }
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

    /// Whether a pipeline is being put together, or has something to send.
    pub fn any_work(&self) -> bool {
        self.list.iter().flatten().any(|it| !it.finished || !it.requests.is_empty())
    }

    /// Whether one of them has a timeout, so that the time of a call matters.
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// What a pipeline was sent as, if anything of it was; `None` if it is gone.
    pub fn group(&mut self, id: PipelineId) -> Option<Option<Group>> {
        self.get(id).map(|it| it.last_group)
    }

    /// Whether a pipeline has asked for the right to send, or has it: taking its replies lets it go on.
    pub fn has_group(&mut self, id: PipelineId) -> bool {
        self.get(id).is_some_and(|it| it.group.is_some())
    }

    /// Whether a pipeline alone may send.
    pub fn is_exclusive(&self) -> bool {
        self.sender.is_some()
    }

    /// Whether that one's owner has not finished it.
    pub fn is_sender_open(&mut self) -> bool {
        let Some(id) = self.sender else { return false };
        self.get(id).is_some_and(|it| !it.finished)
    }

    /// The group that alone may send, and whether its segment is open on the wire.
    pub fn sender_group(&mut self) -> Option<(Group, bool)> {
        let pipeline = self.sender.and_then(|id| self.get(id))?;
        Some((pipeline.group?, pipeline.mid_segment))
    }

    /// When the first request that was not handed over is late.
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

    /// Whether nothing is in front of the Describe of the statement that was just counted: neither another
    /// statement of its segment nor the guard of a transaction, which have to share its sync point.
    fn begins_with_describe(&self) -> bool {
        self.around.is_none() && self.segments.back().is_some_and(|it| it.statements == 1)
    }

    /// Whether what comes next waits until the server has described it.
    fn waits_for_answer(&self) -> bool {
        matches!(self.requests.front(), Some(Unsent { bytes: Source::Undescribed(_), .. }))
    }

    /// Takes note of a failure of its segment.
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

/// What makes the server fail at this point: the execution of a portal that does not exist.
pub fn failing() -> BytesMut {
    let mut out = BytesMut::new();
    let execute = Execute { portal: "onetrip: a pipeline was given up", rows_max: 0 };
    // Its name holds no NUL and is short.
    let _ = execute.encode(&mut out);
    out
}
