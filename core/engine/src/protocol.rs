//! What the engine has to know of a protocol: whose bytes are these?

use std::fmt;

use bytes::BytesMut;

use crate::Outcome;

/// A protocol on which requests are answered in the order in which they were sent.
///
/// The engine calls [`step`](Protocol::step) with the bytes that arrived and the request whose
/// reply is due, and does the rest. An implementation keeps what spans requests (the transaction
/// status, the statement cache) and recognises every message that the state can't explain.
pub trait Protocol {
    /// What has to be known of a request to recognise its reply. It changes as the reply arrives.
    type Expect;
    /// Something that belongs to no request: a notice, a changed parameter, a push message.
    type Event;

    /// What a sync point is when it stands at the end of a request's bytes and can be taken off;
    /// empty where it can't.
    const SYNC: &'static [u8];
    /// Asks the server for the replies so far; empty where it never holds any back.
    const FLUSH: &'static [u8];
    /// Says goodbye; empty where there is no such message.
    const TERMINATE: &'static [u8];

    /// Looks at the front of `input`, which begins at a message, and says what it is.
    ///
    /// `head` is the request whose reply is due, if one is: one of which nothing was written yet
    /// can't have an answer. A run of whole messages that belong to
    /// it may be taken in one step.
    fn step(
        &mut self,
        input: &[u8],
        head: Option<&mut Self::Expect>,
    ) -> Result<Step<Self::Event>, Violation>;

    /// The server skips this request, since one before it in its segment failed; of its reply
    /// only the sync point will come, if it carries one.
    fn skip(&mut self, expect: &mut Self::Expect);

    /// The server said that this request never started and it is about to be sent again: writes
    /// what has to go before it, and says anew what to expect.
    fn heal(&mut self, expect: &mut Self::Expect, out: &mut BytesMut);

    /// So many bytes does [`heal`](Self::heal) write at most: there has to be memory for them.
    fn heal_len(&self, _: &Self::Expect) -> usize {
        0
    }

    /// This request was undone with another one's, or instead of it, and is about to be sent again as
    /// it was, whatever came of its reply: says anew what to expect.
    fn restart(&mut self, expect: &mut Self::Expect);

    /// Whether this side has something to say by itself in front of the next segment. `idle`: nothing
    /// is on its way.
    fn owes(&self, _idle: bool) -> bool {
        false
    }

    /// Writes what [`owes`](Self::owes) told of, with its sync point, and says what to expect. It gets a
    /// slot of its own, and no caller hears of it.
    fn write_owed(&mut self, _out: &mut BytesMut) -> Option<Self::Expect> {
        None
    }

    /// Whether a segment may only be sent once the one in front was answered: what is on the other end may
    /// lose or mix up what comes ahead.
    fn one_segment(&self) -> bool {
        false
    }

    /// Whether a segment that begins with this request may be sent now. Where it may not, the request
    /// and all behind it wait until something was answered.
    fn may_begin(&self, _expect: &Self::Expect) -> bool {
        true
    }

    /// A request goes onto the wire; `begins`: as the first of its segment. Writes what has to go in
    /// front of it at this moment, and takes note of what it may leave behind.
    fn begin(&mut self, _expect: &mut Self::Expect, _begins: bool, _out: &mut BytesMut) {}

    /// So many bytes do [`begin`](Self::begin) and [`write_owed`](Self::write_owed) write at most.
    fn begin_len(&self) -> usize {
        0
    }

    /// Whether the server is certain to skip this request, though it has not said so yet: the
    /// connection may end first.
    fn is_skipped(&self, _expect: &Self::Expect) -> bool {
        false
    }
}

/// What stands at the front of the input. Lengths are in bytes and, but for a piece, cover whole
/// messages.
#[derive(Debug)]
pub enum Step<E> {
    /// Nothing whole yet: this many bytes are needed, counted from the front.
    Need(usize),
    /// A part of the head's reply.
    Part(usize),
    /// A piece of a message of the head's reply, which is too long to be kept until it is whole.
    Piece {
        /// Bytes of it at the front of the input.
        len: usize,
        /// Bytes of the message behind them; until they have come, each step is a piece.
        left: usize,
    },
    /// The last part of the head's reply; a sync point that it carries is answered separately.
    Complete(usize),
    /// An error in place of the rest of the head's reply. What follows in its segment is skipped.
    Failed {
        /// The length of the error message.
        len: usize,
        /// What the error says of the request's effect.
        outcome: Outcome,
        /// Whether the server says that the request never started, so that it may be sent again.
        never_started: bool,
        /// Whether the server says that it was cancelled.
        cancelled: bool,
    },
    /// A part of the head's reply that answers what the protocol wrote in front of it: it is nobody's.
    Own(usize),
    /// An error by which the server says that it skipped the head, since what the protocol wrote in
    /// front of it failed: nothing of its segment has run. Its length.
    Skipped(usize),
    /// The answer to the head's sync point.
    Settled(usize),
    /// A message that belongs to no request.
    Event(usize, E),
    /// The server ends the session with this message.
    Fatal(usize),
    /// What came before shows that nobody may go on with the session, though the server kept to the
    /// protocol. Nothing of the input is taken.
    Unusable(&'static str),
}

/// A message that the state can't explain: the connection can't be used any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation(pub &'static str);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Violation {}
