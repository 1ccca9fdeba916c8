//! Who waits for what on one connection: an entry for each request whose caller may still take its
//! reply.

use std::task::{Context, Waker};

use bytes::{Bytes, BytesMut};
use onetrip_engine::{Ticket, Token};

use super::call::Call;
use crate::Error;
use onetrip_redis::client::router::FlightId;

/// The entries, by token. A token names one and which use of it.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// Bytes that are kept of one reply.
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
    /// Where its request stood when it was submitted, so that it can be taken back.
    pub(crate) ticket: Option<Ticket>,
    /// What waits for room in the queue.
    awaiting: Option<Box<Call>>,
    /// In a cluster, whom to tell what became of it.
    pub(crate) flight: Option<FlightId>,
    /// The reply to ASKING stands in front.
    pub(crate) asks: bool,
    /// Whether it calls scripts by their hashes, or sends their texts.
    pub(crate) has_scripts: bool,
    /// The same where what became of them is among the replies.
    pub(crate) lists_scripts: bool,
    /// Bytes that are kept, where it isn't those of one reply.
    pub(crate) bytes_max: Option<usize>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Free,
    /// No end yet.
    Waiting,
    /// Nobody will take the reply.
    Abandoned,
    Ended(Result<(), Error>),
}

/// What has come of a reply.
#[derive(Debug, Default)]
enum Received {
    #[default]
    Nothing,
    /// Nearly always: all of it in one piece.
    One(Bytes),
    Gathered(BytesMut),
    /// More than is kept.
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
    /// It was too long to be kept.
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
        // The last generation never comes: DISCARD has it.
        let generation = (entry.generation + 1) % u32::MAX;
        let awaiting = entry.awaiting.as_ref().map_or(0, |call| call.len_max());
        *entry = Entry { generation, ..Entry::default() };
        self.awaiting_bytes -= awaiting;
        self.free.push(token.0 as u32);
    }

    /// A part of a reply came.
    pub(crate) fn came(&mut self, token: Token, block: Bytes) {
        let max = self.bytes_max;
        if let Some(entry) = self.entry(token)
            && matches!(entry.state, State::Waiting)
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

    /// Whether it has ended; otherwise remembers whom to wake.
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

    /// What has come of a reply, which is kept.
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

    /// Takes what has come of a reply that has not ended.
    pub(crate) fn take_part(&mut self, token: Token) -> Bytes {
        let Some(entry) = self.entry(token) else { return Bytes::new() };
        match std::mem::take(&mut entry.reply) {
            Received::Nothing | Received::TooLarge => Bytes::new(),
            Received::One(block) => block,
            Received::Gathered(bytes) => bytes.freeze(),
        }
    }

    /// Whether there is a part to be taken.
    pub(crate) fn has_part(&mut self, token: Token) -> bool {
        self.entry(token).is_some_and(|entry| entry.reply.len() > 0)
    }

    /// Whom to wake since a part came.
    pub(crate) fn waker_of(&mut self, token: Token) -> Option<Waker> {
        self.entry(token)?.waker.take()
    }

    /// Nobody will take this reply. Returns where its request stood.
    pub(crate) fn abandon(&mut self, token: Token) -> Option<Ticket> {
        let entry = self.entry(token)?;
        if let State::Ended(_) = entry.state {
            self.remove(token);
            return None;
        }
        (entry.state, entry.waker, entry.reply) = (State::Abandoned, None, Received::Nothing);
        entry.ticket
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

    /// Whether there is nobody who will take a reply, and something unanswered is one that this
    /// program sent by itself.
    pub(crate) fn all_abandoned(&self) -> bool {
        !self.entries.iter().any(|entry| matches!(entry.state, State::Waiting | State::Ended(_)))
    }

    /// Bytes of what waits for room in the queue.
    pub(crate) fn awaiting_bytes(&self) -> usize {
        self.awaiting_bytes
    }
}
