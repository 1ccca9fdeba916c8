//! The replies of one connection: an entry for each request whose caller may still take its reply.

use std::task::{Context, Waker};

use bytes::{Bytes, BytesMut};
use onetrip_engine::{Ticket, Token};

use super::call::Call;
use crate::Error;
use onetrip_redis::client::cache::{FetchId, Writes};
use onetrip_redis::client::router::FlightId;

/// The entries, by token. A token names an entry, and which use of it.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// How many bytes of one reply are kept.
    bytes_max: usize,
    entries: Vec<Entry>,
    free: Vec<u32>,
    awaiting_bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Entry {
    generation: u32,
    state: State,
    reply: Received,
    waker: Option<Waker>,
    /// With which its request can be taken back.
    pub(crate) ticket: Option<Ticket>,
    /// The call that waits for room in the queue.
    awaiting: Option<Box<Call>>,
    /// In a cluster, the flight whose result is reported.
    pub(crate) flight: Option<FlightId>,
    /// Whether the reply to ASKING stands in front.
    pub(crate) asks: bool,
    /// Whether it calls scripts by their hashes, or sends their texts.
    pub(crate) has_scripts: bool,
    /// The same, if their results are among several replies.
    pub(crate) lists_scripts: bool,
    /// The fetch of the cache that it answers.
    pub(crate) fetch: Option<FetchId>,
    /// What its commands may change of what is cached.
    pub(crate) writes: Writes,
    /// How many bytes are kept, if not the limit of one reply.
    pub(crate) bytes_max: Option<usize>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Free,
    /// It has not ended.
    Waiting,
    /// Nobody will take the reply.
    Abandoned,
    Ended(Result<(), Error>),
}

/// The part of a reply that has come.
#[derive(Debug, Default)]
enum Received {
    #[default]
    Nothing,
    /// The whole reply in one piece, as nearly always.
    One(Bytes),
    Gathered(BytesMut),
    /// It is longer than what is kept.
    TooLarge,
}

impl Received {
    fn len(&self) -> usize {
        match self {
            Received::Nothing | Received::TooLarge => 0,
            Received::One(bytes) => bytes.len(),
            Received::Gathered(bytes) => bytes.len(),
        }
    }

    fn add(&mut self, block: Bytes, max: usize) {
        if block.is_empty() || matches!(self, Received::TooLarge) {
            return;
        }
        if self.len() + block.len() > max {
            *self = Received::TooLarge;
            return;
        }
        *self = match std::mem::take(self) {
            Received::One(first) => {
                let mut gathered = BytesMut::with_capacity(first.len() + block.len());
                gathered.extend_from_slice(&first);
                gathered.extend_from_slice(&block);
                Received::Gathered(gathered)
            }
            Received::Gathered(mut gathered) => {
                gathered.extend_from_slice(&block);
                Received::Gathered(gathered)
            }
            Received::Nothing | Received::TooLarge => Received::One(block),
        };
    }
}

/// A reply as its caller takes it.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) block: Bytes,
    pub(crate) result: Result<(), Error>,
    /// Whether it was too long to be kept.
    pub(crate) too_large: bool,
}

impl Replies {
    pub(crate) fn new(bytes_max: usize) -> Replies {
        Replies { bytes_max, ..Replies::default() }
    }

    pub(crate) fn add(&mut self) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[index as usize];
        entry.state = State::Waiting;
        Token(u64::from(entry.generation) << 32 | u64::from(index))
    }

    pub(crate) fn entry(&mut self, token: Token) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(token.0 as u32 as usize)?;
        (entry.generation == (token.0 >> 32) as u32).then_some(entry)
    }

    pub(crate) fn remove(&mut self, token: Token) {
        let Some(entry) = self.entry(token) else { return };
        // The last generation is skipped: DISCARD has it.
        let generation = (entry.generation + 1) % u32::MAX;
        let awaiting = entry.awaiting.as_ref().map_or(0, |call| call.len_max());
        *entry = Entry { generation, ..Entry::default() };
        self.awaiting_bytes -= awaiting;
        self.free.push(token.0 as u32);
    }

    /// Adds a part of a reply.
    pub(crate) fn came(&mut self, token: Token, block: Bytes) {
        let max = self.bytes_max;
        if let Some(entry) = self.entry(token)
            && (matches!(entry.state, State::Waiting) || entry.fetch.is_some())
        {
            entry.reply.add(block, entry.bytes_max.unwrap_or(max));
        }
    }

    /// A request ended. Returns whom to wake.
    pub(crate) fn end(&mut self, token: Token, result: Result<(), Error>) -> Option<Waker> {
        let entry = self.entry(token)?;
        if let State::Abandoned = entry.state {
            self.remove(token);
            return None;
        }
        entry.state = State::Ended(result);
        entry.waker.take()
    }

    /// Whether it has ended; otherwise registers the task to be woken.
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

    /// Takes a reply that has ended.
    pub(crate) fn take(&mut self, token: Token) -> Option<Taken> {
        let entry = self.entry(token)?;
        let State::Ended(result) = std::mem::take(&mut entry.state) else { return None };
        let too_large = matches!(entry.reply, Received::TooLarge);
        let block = match std::mem::take(&mut entry.reply) {
            Received::Nothing | Received::TooLarge => Bytes::new(),
            Received::One(block) => block,
            Received::Gathered(bytes) => bytes.freeze(),
        };
        self.remove(token);
        Some(Taken { block, result, too_large })
    }

    /// The part of a reply that has come; it is also kept.
    pub(crate) fn received(&mut self, token: Token) -> Bytes {
        let Some(entry) = self.entry(token) else { return Bytes::new() };
        match &mut entry.reply {
            Received::Nothing | Received::TooLarge => Bytes::new(),
            Received::One(block) => block.clone(),
            Received::Gathered(bytes) => {
                let block = std::mem::take(bytes).freeze();
                entry.reply = Received::One(block.clone());
                block
            }
        }
    }

    /// Takes the part that has come of a reply that has not ended.
    pub(crate) fn take_part(&mut self, token: Token) -> Bytes {
        let Some(entry) = self.entry(token) else { return Bytes::new() };
        match std::mem::take(&mut entry.reply) {
            Received::Nothing | Received::TooLarge => Bytes::new(),
            Received::One(block) => block,
            Received::Gathered(bytes) => bytes.freeze(),
        }
    }

    /// Whether there is a part to take.
    pub(crate) fn has_part(&mut self, token: Token) -> bool {
        self.entry(token).is_some_and(|entry| entry.reply.len() > 0)
    }

    /// The task to wake, since a part came.
    pub(crate) fn waker_of(&mut self, token: Token) -> Option<Waker> {
        self.entry(token)?.waker.take()
    }

    /// Nobody will take this reply. Returns the ticket of its request.
    pub(crate) fn abandon(&mut self, token: Token) -> Option<Ticket> {
        let entry = self.entry(token)?;
        if let State::Ended(_) = entry.state {
            self.remove(token);
            return None;
        }
        (entry.state, entry.waker, entry.reply) = (State::Abandoned, None, Received::Nothing);
        entry.ticket
    }

    /// The caller is gone, and others wait for this reply.
    pub(crate) fn leave(&mut self, token: Token) {
        if let Some(entry) = self.entry(token) {
            (entry.state, entry.waker) = (State::Abandoned, None);
        }
    }

    pub(crate) fn await_room(&mut self, token: Token, call: Call) {
        let bytes = call.len_max();
        if let Some(entry) = self.entry(token) {
            entry.awaiting = Some(Box::new(call));
            self.awaiting_bytes += bytes;
        }
    }

    pub(crate) fn take_awaiting(&mut self, token: Token) -> Option<Call> {
        let call = self.entry(token)?.awaiting.take()?;
        self.awaiting_bytes -= call.len_max();
        Some(*call)
    }

    /// Whether nobody will take any reply, and a request of this client's own is unanswered.
    pub(crate) fn all_abandoned(&self) -> bool {
        !self.entries.iter().any(|entry| matches!(entry.state, State::Waiting | State::Ended(_)))
    }

    /// How many bytes wait for room in the queue.
    pub(crate) fn awaiting_bytes(&self) -> usize {
        self.awaiting_bytes
    }
}
