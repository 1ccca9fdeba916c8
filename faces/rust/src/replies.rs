//! The replies of a connection: one entry for each request whose caller may still take its reply.

mod skimming;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::{Bytes, BytesMut};
use onetrip_engine::pool::Task;
use onetrip_engine::{End, Request, Ticket, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::pipeline::Member;
use onetrip_postgres::client::replicas::Guarded;

use crate::cancelled::{Answer, Cancelled};
use crate::guard::Guard;
use crate::lead::Note;
use crate::rows::{Blocks, Columns};
use crate::statements::{self, Use};
use crate::{Error, kept};

/// The replies of one connection, by token. A token names an entry, and which use of the entry.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// How many bytes of one reply are kept.
    bytes_max: usize,
    entries: Vec<Entry>,
    free: Vec<u32>,
    awaiting_bytes: usize,
    /// How often the connection has changed hands.
    owner_epoch: u32,
    /// Callers whose cancel has got its result.
    pub(crate) wakers: Vec<Waker>,
    /// Guards that have ended.
    pub(crate) guards: Vec<(Guard, Guarded)>,
}

#[derive(Debug, Default)]
pub(crate) struct Entry {
    generation: u32,
    /// The owner epoch in which its request was submitted.
    owner_epoch: u32,
    state: State,
    blocks: Blocks,
    /// The length of the blocks.
    bytes: usize,
    long: Long,
    /// Whether its rows may be dropped.
    skims: bool,
    waker: Option<Waker>,
    /// With which its request can be taken back.
    pub(crate) ticket: Option<Ticket>,
    /// The requests that wait for room in the queue, with their bytes.
    awaiting: Option<Box<AwaitingRoom>>,
    /// The pipeline, and the segment of it, that it belongs to.
    pub(crate) member: Option<Member>,
    /// The prepared statement that it uses. It must not be closed before this request has ended.
    pub(crate) statement: Option<Use>,
    /// Its part in the workload of a shared connection.
    pub(crate) task: Option<Task>,
    /// What its end says about its transaction.
    pub(crate) note: Option<Note>,
    /// Whether it ends a transaction. If so, it is not cancelled when nobody waits for it any more.
    pub(crate) ends: bool,
    /// If it is a guard in front of a read, what is told of its end.
    pub(crate) guard: Option<Guard>,
    /// What was submitted, if its connection ended before any byte of it was sent.
    pub(crate) unsent: Option<Box<kept::Kept>>,
    /// Who waits for the result of a cancel.
    answers: Vec<Arc<Answer>>,
    /// The columns of the prepared statement as of this reply.
    columns: Option<Columns>,
}

/// How the length of a reply is special.
#[derive(Debug, Default)]
enum Long {
    /// It isn't.
    #[default]
    No,
    /// A long message is being put together.
    Gathering(Box<BytesMut>),
    /// The pieces of a row are dropped.
    Skipping,
    /// It is too long to be kept.
    TooLarge,
    /// It is taken as it comes.
    Flow(Box<Untaken>),
}

/// The unread part of a reply that is taken as it comes. Boxed, so that other entries stay small.
#[derive(Debug, Default)]
struct Untaken {
    blocks: VecDeque<Bytes>,
}

/// A part of a reply.
#[derive(Debug)]
pub(crate) enum Part {
    /// Whole messages.
    Whole(Bytes),
    /// A piece of a message, and how many bytes of the message are still to come.
    Piece(Bytes, usize),
}

impl Part {
    fn len(&self) -> usize {
        match self {
            Part::Whole(bytes) | Part::Piece(bytes, _) => bytes.len(),
        }
    }
}

/// What became of a part.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// How many bytes nobody will take, of this part and of earlier ones.
    pub(crate) dropped: usize,
    /// Who waits for the part.
    pub(crate) waker: Option<Waker>,
}

/// Requests that wait, outside of the queue, for room in it.
#[derive(Debug)]
pub(crate) struct AwaitingRoom {
    pub(crate) requests: Vec<(Request<Expect>, usize)>,
    pub(crate) bytes: Bytes,
    /// Whether its place in line has a token of its own.
    pub(crate) has_place: bool,
}

/// A reply as its caller takes it.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) blocks: Blocks,
    /// The columns of a prepared statement.
    pub(crate) columns: Option<Columns>,
    pub(crate) result: Result<Finished, Error>,
    /// The reply was too long to be kept; the blocks are only a part of it.
    pub(crate) too_large: bool,
    pub(crate) member: Option<Member>,
    /// Whether the connection still has the owner that it had when the request was submitted.
    pub(crate) same_owner: bool,
    /// The owner epoch in which the request was submitted.
    pub(crate) owner_epoch: u32,
    /// What was submitted, if it can be sent on another connection.
    pub(crate) unsent: Option<Box<kept::Kept>>,
}

impl Entry {
    /// Whether the request was submitted in this owner epoch.
    pub(crate) fn is_of(&self, owner_epoch: u32) -> bool {
        self.owner_epoch == owner_epoch
    }

    fn is_watched(&self) -> bool {
        !self.answers.is_empty()
    }
}

/// How many bytes of an abandoned reply are kept, for the description at its beginning.
const DESCRIPTION_LEN: usize = 256 << 10;

#[derive(Debug, Default)]
enum State {
    #[default]
    Free,
    /// It has not ended.
    Waiting,
    /// Nobody will take the reply.
    Abandoned,
    Ended(Result<Finished, Error>),
}

/// How a request ended successfully.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// It stands.
    Settled,
    /// It stands if its segment does.
    Provisional,
}

impl Entry {
    /// Keeps a part for the reader of the reply.
    fn keep(&mut self, part: Part, bytes_max: usize) -> Kept {
        let len = part.len();
        let block = match (&mut self.long, part) {
            (Long::Flow(flow), Part::Whole(block) | Part::Piece(block, _)) => {
                flow.blocks.push_back(block);
                return Kept { dropped: 0, waker: self.waker.take() };
            }
            (Long::TooLarge, _) => return Kept { dropped: len, waker: None },
            (Long::Skipping, Part::Piece(_, left)) => {
                if left == 0 {
                    self.long = Long::No;
                }
                return Kept { dropped: len, waker: None };
            }
            (_, Part::Whole(block)) => block,
            (_, Part::Piece(block, left)) => {
                if self.bytes.saturating_add(len).saturating_add(left) > bytes_max {
                    return self.skip_row(&block, left).unwrap_or_else(|| self.give_up(len));
                }
                match self.gather(block, left) {
                    Some(block) => block,
                    None => {
                        self.bytes += len;
                        return Kept::default();
                    }
                }
            }
        };
        self.bytes += len;
        if self.bytes <= bytes_max {
            self.blocks.push(block);
            return Kept::default();
        }
        if self.skims {
            self.blocks.push(block);
            let dropped = self.drop_rows();
            if self.bytes <= bytes_max {
                return Kept { dropped, waker: None };
            }
            let Kept { dropped: more, waker } = self.give_up(0);
            return Kept { dropped: dropped + more, waker };
        }
        self.bytes -= len;
        self.give_up(len)
    }

    /// Puts the pieces of a message together. The memory grows with the bytes that arrive, not with
    /// the length that the message claims.
    fn gather(&mut self, piece: Bytes, left: usize) -> Option<Bytes> {
        if let Long::No = self.long {
            self.long = Long::Gathering(Box::default());
        }
        let Long::Gathering(gathered) = &mut self.long else { return None };
        gathered.extend_from_slice(&piece);
        if left > 0 {
            return None;
        }
        let whole = std::mem::take(&mut **gathered).freeze();
        self.long = Long::No;
        Some(whole)
    }

    /// The reply is too long: drops what was kept of it, except a description that later replies
    /// may depend on.
    fn give_up(&mut self, len: usize) -> Kept {
        let described = self.statement.is_some() && self.blocks.is_described();
        let kept = std::mem::take(&mut self.blocks).into_first().filter(|_| described);
        let kept_len = kept.as_ref().map_or(0, Bytes::len);
        let dropped = len + self.bytes - kept_len;
        self.long = Long::TooLarge;
        self.bytes = kept_len;
        self.blocks.push(kept.unwrap_or_default());
        Kept { dropped, waker: None }
    }
}

impl Replies {
    /// From now on the connection belongs to another owner.
    pub(crate) fn next_owner(&mut self) {
        self.owner_epoch = self.owner_epoch.wrapping_add(1);
    }

    /// The current owner epoch.
    pub(crate) fn owner_epoch(&self) -> u32 {
        self.owner_epoch
    }

    pub(crate) fn new(bytes_max: usize) -> Replies {
        Replies { bytes_max, ..Replies::default() }
    }

    /// Adds an entry whose reply is taken as it comes.
    pub(crate) fn add_flow(&mut self) -> Token {
        let token = self.add();
        if let Some(entry) = self.entry(token) {
            entry.long = Long::Flow(Box::default());
        }
        token
    }

    /// Whether a reply is taken as it comes, or was until its caller gave it up.
    pub(crate) fn is_flow(&mut self, token: Token) -> bool {
        self.entry(token).is_some_and(|entry| matches!(entry.long, Long::Flow(_)))
    }

    /// Takes the next block of such a reply; `None` if none has come.
    pub(crate) fn next_block(&mut self, token: Token) -> Option<Bytes> {
        match &mut self.entry(token)?.long {
            Long::Flow(flow) => flow.blocks.pop_front(),
            _ => None,
        }
    }

    /// Drops the unread part of such a reply. Returns its length.
    pub(crate) fn clear_flow(&mut self, token: Token) -> usize {
        match self.entry(token).map(|entry| &mut entry.long) {
            Some(Long::Flow(flow)) => flow.blocks.drain(..).map(|block| block.len()).sum(),
            _ => 0,
        }
    }

    /// Takes the waker of this entry.
    pub(crate) fn take_waker(&mut self, token: Token) -> Option<Waker> {
        self.entry(token)?.waker.take()
    }

    pub(crate) fn add(&mut self) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[index as usize];
        entry.state = State::Waiting;
        entry.owner_epoch = self.owner_epoch;
        entry.ends = false;
        Token(u64::from(entry.generation) << 32 | u64::from(index))
    }

    pub(crate) fn entry(&mut self, token: Token) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(token.0 as u32 as usize)?;
        (entry.generation == (token.0 >> 32) as u32).then_some(entry)
    }

    /// Whether somebody will take the reply.
    pub(crate) fn is_wanted(&mut self, token: Token) -> bool {
        self.entry(token).is_some_and(|entry| matches!(entry.state, State::Waiting))
    }

    /// Adds a part of a reply.
    pub(crate) fn data(&mut self, token: Token, part: Part) -> Kept {
        let (bytes_max, len) = (self.bytes_max, part.len());
        match (self.entry(token), part) {
            (Some(entry @ Entry { state: State::Waiting, .. }), part) => {
                return entry.keep(part, bytes_max);
            }
            (Some(Entry { statement: Some(_), blocks, .. }), Part::Whole(block))
                if blocks.is_described() && blocks.len() < DESCRIPTION_LEN
                    || Blocks::of(&block).is_described() =>
            {
                // It says which columns later replies have.
                blocks.push(block);
            }
            _ => {}
        }
        Kept { dropped: len, waker: None }
    }

    /// Drops what came of a reply, because the request is sent again.
    pub(crate) fn restart(&mut self, token: Token) {
        if let Some(entry) = self.entry(token) {
            entry.blocks = Blocks::default();
            (entry.bytes, entry.long) = (0, Long::No);
        }
    }

    /// Whether a request has not ended; true also if nobody will take its reply.
    pub(crate) fn is_open(&mut self, token: Token) -> bool {
        let state = self.entry(token).map(|entry| &entry.state);
        matches!(state, Some(State::Waiting | State::Abandoned))
    }

    /// Registers a caller that wants the result of a cancel of this request.
    pub(crate) fn tell(&mut self, token: Token, answer: &Arc<Answer>) {
        match self.entry(token) {
            Some(entry) => entry.answers.push(answer.clone()),
            // Nobody sees how it ends, but the server will be asked.
            None => drop(answer.give(Cancelled::Yes)),
        }
    }

    pub(crate) fn not_cancelled(&mut self, token: Token) {
        self.answer(token, Cancelled::NotPossible);
    }

    fn answer(&mut self, token: Token, cancelled: Cancelled) {
        let Some(entry) = self.entry(token) else { return };
        let answers = std::mem::take(&mut entry.answers);
        self.wakers.extend(answers.iter().filter_map(|answer| answer.give(cancelled)));
    }

    /// A reply ended successfully. Returns whom to wake.
    pub(crate) fn end(&mut self, token: Token, block: Bytes, end: End) -> Option<Waker> {
        let finished = match end {
            End::Provisional => Finished::Provisional,
            _ => Finished::Settled,
        };
        self.finish(token, block, Ok(finished))
    }

    /// A request failed. Returns whom to wake.
    pub(crate) fn fail(&mut self, token: Token, error: Error) -> Option<Waker> {
        self.finish(token, Bytes::new(), Err(error))
    }

    fn finish(
        &mut self,
        token: Token,
        block: Bytes,
        result: Result<Finished, Error>,
    ) -> Option<Waker> {
        if self.entry(token)?.is_watched() {
            self.answer(token, Cancelled::of(result.as_ref().err()));
        }
        let entry = self.entry(token)?;
        match &mut entry.long {
            Long::Flow(flow) if !block.is_empty() => flow.blocks.push_back(block),
            // Kept even if nobody takes the reply: later replies' columns may depend on it.
            _ => entry.blocks.push(block),
        }
        if let Some(statement) = entry.statement.take() {
            entry.columns = statements::ended(&statement, &entry.blocks, result.as_ref().err());
        }
        if let Some(note) = entry.note.take() {
            note.ended(result.as_ref().err());
        }
        if let Some(guard) = entry.guard.take() {
            let guarded = guard.judge(&entry.blocks, result.as_ref().err());
            self.guards.push((guard, guarded));
            self.remove(token);
            return None;
        }
        match entry.state {
            State::Abandoned => {
                let awaiting = entry.awaiting.take();
                self.remove(token);
                self.remove_awaiting(token, awaiting);
                None
            }
            State::Waiting => {
                entry.ticket = None;
                entry.state = State::Ended(result);
                let (waker, awaiting) = (entry.waker.take(), entry.awaiting.take());
                self.remove_awaiting(token, awaiting);
                waker
            }
            State::Free | State::Ended(_) => None,
        }
    }

    /// How many bytes wait for room in the queue.
    pub(crate) fn awaiting_bytes(&self) -> usize {
        self.awaiting_bytes
    }

    /// Keeps a request that waits for room in the queue.
    pub(crate) fn await_room(&mut self, token: Token, awaiting: AwaitingRoom) {
        let bytes = awaiting.bytes.len();
        if let Some(entry) = self.entry(token) {
            entry.awaiting = Some(Box::new(awaiting));
            self.awaiting_bytes += bytes;
        }
    }

    /// The last of the requests that wait at this place in line.
    pub(crate) fn awaiting_last(&mut self, place: Token) -> Option<&mut Request<Expect>> {
        let awaiting =
            self.entry(place)?.awaiting.as_mut().filter(|awaiting| awaiting.has_place)?;
        awaiting.requests.last_mut().map(|(request, _)| request)
    }

    /// Takes the requests at this place, because there is room for them.
    pub(crate) fn take_awaiting(&mut self, token: Token) -> Option<Box<AwaitingRoom>> {
        let awaiting = self.entry(token)?.awaiting.take()?;
        self.awaiting_bytes -= awaiting.bytes.len();
        Some(awaiting)
    }

    /// Removes requests that were to be sent together with one that was not sent.
    fn remove_awaiting(&mut self, token: Token, awaiting: Option<Box<AwaitingRoom>>) {
        self.awaiting_bytes -= awaiting.as_ref().map_or(0, |awaiting| awaiting.bytes.len());
        for (request, _) in awaiting.into_iter().flat_map(|awaiting| awaiting.requests) {
            if request.token != token {
                self.remove(request.token);
            }
        }
    }

    /// Whether a request has ended whose reply was not taken.
    pub(crate) fn is_ended(&mut self, token: Token) -> bool {
        self.entry(token).is_some_and(|entry| matches!(entry.state, State::Ended(_)))
    }

    /// Whether a request has ended; otherwise registers the task to be woken.
    pub(crate) fn poll_ended(&mut self, token: Token, cx: &Context<'_>) -> bool {
        let Some(entry) = self.entry(token) else { return true };
        if let State::Ended(_) = entry.state {
            return true;
        }
        match &mut entry.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        false
    }

    /// Takes the reply to a request that has ended.
    pub(crate) fn take(&mut self, token: Token) -> Taken {
        let Some(entry) = self.entry(token) else {
            unreachable!("a reply is taken once, by the one who holds its token")
        };
        let State::Ended(result) = std::mem::take(&mut entry.state) else {
            unreachable!("a reply is taken after it has ended")
        };
        let blocks = std::mem::take(&mut entry.blocks);
        let (member, columns, owner_epoch) =
            (entry.member, entry.columns.take(), entry.owner_epoch);
        let too_large = matches!(entry.long, Long::TooLarge);
        let (unsent, same_owner) = (entry.unsent.take(), owner_epoch == self.owner_epoch);
        self.remove(token);
        Taken { blocks, columns, result, too_large, member, same_owner, owner_epoch, unsent }
    }

    /// The caller gave the reply up: the entry stays until the request ends. Returns what is left
    /// to do: how many bytes of the reply nobody took, and how to take the request back.
    pub(crate) fn abandon(&mut self, token: Token) -> (usize, Option<Member>, Option<Ticket>) {
        let Some(entry) = self.entry(token) else { return (0, None, None) };
        let (untaken, member, ticket) = (entry.bytes, entry.member, entry.ticket);
        entry.waker = None;
        match entry.state {
            State::Waiting => {
                if !(entry.statement.is_some() && entry.blocks.is_described()) {
                    entry.blocks = Blocks::default();
                }
                entry.bytes = 0;
                if !matches!(entry.long, Long::Flow(_)) {
                    entry.long = Long::No;
                }
                entry.state = State::Abandoned;
                (untaken, member, ticket)
            }
            _ => {
                self.remove(token);
                (untaken, member, None)
            }
        }
    }

    /// Frees an entry that neither a request nor a caller refers to any more.
    pub(crate) fn remove(&mut self, token: Token) {
        self.take_awaiting(token);
        let Some(entry) = self.entry(token) else { return };
        let generation = entry.generation.wrapping_add(1);
        *entry = Entry { generation, ..Entry::default() };
        self.free.push(token.0 as u32);
    }
}
