//! Who waits for what: one entry for each request whose caller may still take its reply.

use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::Bytes;
use onetrip_engine::{End, Request, Ticket, Token};
use onetrip_postgres::Expect;

use crate::Error;
use crate::canceller::{Answer, Cancelled};
use crate::lead::Note;
use crate::pipelines::PipelineId;
use crate::rows::{Blocks, Columns};
use crate::statements::Use;

/// The replies of one connection, by token. A token names an entry and which use of it.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    entries: Vec<Entry>,
    free: Vec<u32>,
    parked_bytes: usize,
    /// How often the connection changed hands.
    hands: u32,
    /// Those who wait to hear what became of a cancel, and know it now.
    pub(crate) wakers: Vec<Waker>,
}

#[derive(Debug, Default)]
pub(crate) struct Entry {
    generation: u32,
    /// Whose it is.
    hands: u32,
    state: State,
    blocks: Blocks,
    waker: Option<Waker>,
    /// Where its request stood when it was submitted, so that it can be taken back.
    pub(crate) ticket: Option<Ticket>,
    /// What waits for room in the queue, with its bytes.
    parked: Option<Box<Parked>>,
    /// The pipeline that it belongs to, and the segment of it.
    pub(crate) member: Option<Member>,
    /// The prepared statement that it uses, which must not be closed before it has ended.
    pub(crate) statement: Option<Use>,
    /// What its end says about its transaction.
    pub(crate) note: Option<Note>,
    /// Who wants to know what becomes of a cancel.
    answers: Vec<Arc<Answer>>,
    /// The columns of that statement as of this reply.
    columns: Option<Columns>,
}

/// A request that waits for room in the queue, outside of it.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) requests: Vec<(Request<Expect>, usize)>,
    pub(crate) bytes: Bytes,
    /// Its place in line has a token of its own.
    pub(crate) has_place: bool,
}

/// A reply as its caller takes it.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) blocks: Blocks,
    /// The columns of a prepared statement.
    pub(crate) columns: Option<Columns>,
    pub(crate) result: Result<Finished, Error>,
    pub(crate) member: Option<Member>,
    /// Whether the connection is still with whom it was when the request was submitted.
    pub(crate) same_hands: bool,
}

/// Which part of which pipeline a request is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) pipeline: PipelineId,
    pub(crate) segment: u64,
    pub(crate) role: Role,
}

/// What a request is to its pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A statement, by its number from 1.
    Statement(u64),
    /// The sync point of a segment.
    Sync,
    /// The pipeline's turn to hold the floor.
    Floor,
    /// The question for the types of the statement with this token.
    Question(Token),
    /// What fails where the transaction around it is not open.
    Guard,
}

impl Entry {
    fn is_watched(&self) -> bool {
        !self.answers.is_empty()
    }
}

/// So many bytes of a reply that nobody takes are kept for the description in front.
const DESCRIPTION_LEN: usize = 256 << 10;

#[derive(Debug, Default)]
enum State {
    #[default]
    Free,
    /// No end yet.
    Waiting,
    /// Nobody will take the reply.
    Abandoned,
    Ended(Result<Finished, Error>),
}

/// How a request ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// It stands.
    Settled,
    /// It stands if its segment does.
    Provisional,
}

impl Replies {
    /// The connection is somebody else's from now on.
    pub(crate) fn change_hands(&mut self) {
        self.hands = self.hands.wrapping_add(1);
    }

    /// Tells one owner of the connection from another.
    pub(crate) fn hands(&self) -> u32 {
        self.hands
    }

    pub(crate) fn add(&mut self) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[index as usize];
        entry.state = State::Waiting;
        entry.hands = self.hands;
        Token(u64::from(entry.generation) << 32 | u64::from(index))
    }

    pub(crate) fn entry(&mut self, token: Token) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(token.0 as u32 as usize)?;
        (entry.generation == (token.0 >> 32) as u32).then_some(entry)
    }

    /// Whether someone will take the reply.
    pub(crate) fn is_wanted(&mut self, token: Token) -> bool {
        self.entry(token).is_some_and(|entry| matches!(entry.state, State::Waiting))
    }

    /// A part of a reply came. Returns whether someone will take it.
    pub(crate) fn data(&mut self, token: Token, block: Bytes) -> bool {
        match self.entry(token) {
            Some(Entry { state: State::Waiting, blocks, .. }) => {
                blocks.push(block);
                true
            }
            Some(Entry { statement: Some(_), blocks, .. })
                if blocks.is_described() && blocks.len() < DESCRIPTION_LEN
                    || Blocks::of(&block).is_described() =>
            {
                // It says which columns the replies behind it have.
                blocks.push(block);
                false
            }
            _ => false,
        }
    }

    /// What came of a reply is void: the request is sent again.
    pub(crate) fn restart(&mut self, token: Token) {
        if let Some(entry) = self.entry(token) {
            entry.blocks = Blocks::default();
        }
    }

    /// Whether a request has not ended, also where nobody will take its reply.
    pub(crate) fn is_open(&mut self, token: Token) -> bool {
        let state = self.entry(token).map(|entry| &entry.state);
        matches!(state, Some(State::Waiting | State::Abandoned))
    }

    /// Somebody wants to know what becomes of a cancel of this request.
    pub(crate) fn tell(&mut self, token: Token, answer: &Arc<Answer>) {
        match self.entry(token) {
            Some(entry) => entry.answers.push(answer.clone()),
            // Nobody hears of its end, but the server will be asked.
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

    /// A reply ended well. Returns whom to wake.
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
        // Also where nobody takes the reply: it may be what others' columns depend on.
        entry.blocks.push(block);
        if let Some(statement) = entry.statement.take() {
            entry.columns = Some(statement.ended(&entry.blocks, result.as_ref().err()));
        }
        if let Some(note) = entry.note.take() {
            note.ended(result.as_ref().err());
        }
        match entry.state {
            State::Abandoned => {
                let parked = entry.parked.take();
                self.remove(token);
                self.remove_parked(token, parked);
                None
            }
            State::Waiting => {
                entry.ticket = None;
                entry.state = State::Ended(result);
                let (waker, parked) = (entry.waker.take(), entry.parked.take());
                self.remove_parked(token, parked);
                waker
            }
            State::Free | State::Ended(_) => None,
        }
    }

    /// Bytes of the requests that wait for room in the queue.
    pub(crate) fn parked_bytes(&self) -> usize {
        self.parked_bytes
    }

    /// Keeps a request that waits for room in the queue.
    pub(crate) fn park(&mut self, token: Token, parked: Parked) {
        let bytes = parked.bytes.len();
        if let Some(entry) = self.entry(token) {
            entry.parked = Some(Box::new(parked));
            self.parked_bytes += bytes;
        }
    }

    /// The last of the requests that wait at this place in line.
    pub(crate) fn parked_last(&mut self, place: Token) -> Option<&mut Request<Expect>> {
        let parked = self.entry(place)?.parked.as_mut().filter(|parked| parked.has_place)?;
        parked.requests.last_mut().map(|(request, _)| request)
    }

    /// There is room for it.
    pub(crate) fn unpark(&mut self, token: Token) -> Option<Box<Parked>> {
        let parked = self.entry(token)?.parked.take()?;
        self.parked_bytes -= parked.bytes.len();
        Some(parked)
    }

    /// What was to be sent together with a request that was not sent, was not sent either.
    fn remove_parked(&mut self, token: Token, parked: Option<Box<Parked>>) {
        self.parked_bytes -= parked.as_ref().map_or(0, |parked| parked.bytes.len());
        for (request, _) in parked.into_iter().flat_map(|parked| parked.requests) {
            if request.token != token {
                self.remove(request.token);
            }
        }
    }

    /// Whether a request has ended; otherwise remembers whom to wake.
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
        let (member, columns, hands) = (entry.member, entry.columns.take(), entry.hands);
        let same_hands = hands == self.hands;
        self.remove(token);
        Taken { blocks, columns, result, member, same_hands }
    }

    /// The caller lost interest: the entry stays until the request ends. Returns what is left to
    /// do about it: bytes of the reply that nobody took, and how to take the request back.
    pub(crate) fn abandon(&mut self, token: Token) -> (usize, Option<Member>, Option<Ticket>) {
        let Some(entry) = self.entry(token) else { return (0, None, None) };
        let (untaken, member, ticket) = (entry.blocks.len(), entry.member, entry.ticket);
        entry.waker = None;
        match entry.state {
            State::Waiting => {
                if !(entry.statement.is_some() && entry.blocks.is_described()) {
                    entry.blocks = Blocks::default();
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

    /// Frees an entry that no request and no caller refers to any more.
    pub(crate) fn remove(&mut self, token: Token) {
        self.unpark(token);
        let Some(entry) = self.entry(token) else { return };
        let generation = entry.generation.wrapping_add(1);
        *entry = Entry { generation, ..Entry::default() };
        self.free.push(token.0 as u32);
    }
}
