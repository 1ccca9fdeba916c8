//! The trait through which the engine knows a protocol: which request do these bytes belong to?

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::Outcome;

/// A protocol on which requests are answered in the order in which they were sent.
///
/// The engine calls [`step`](Protocol::step) with the bytes that arrived and the request whose
/// reply is due, and does the rest. An implementation keeps the state that spans requests (the
/// transaction status, the statement cache) and recognises every message that this state can't
/// explain.
pub trait Protocol {
    /// What the protocol must remember of a request to recognise its reply. It changes as the reply
    /// arrives.
    type Expect;
    /// Something that belongs to no request: a notice, a changed parameter, a push message.
    type Event;

    /// The bytes of a sync point, where one that ends a request's bytes can be taken off. Empty if
    /// it can't.
    const SYNC: &'static [u8];
    /// The message that asks the server for the replies so far. Empty if the server never holds any
    /// back.
    const FLUSH: &'static [u8];
    /// The message that says goodbye. Empty if the protocol has none.
    const TERMINATE: &'static [u8];

    /// Looks at the front of `input`, which begins at a message, and says what it is.
    ///
    /// `head` is the request whose reply is due. It is `None` unless some of that request was
    /// written, since an unwritten request can't have an answer. One step may take a run of whole
    /// messages that belong to the head.
    fn step(
        &mut self,
        input: &[u8],
        head: Option<&mut Self::Expect>,
    ) -> Result<Step<Self::Event>, Violation>;

    /// An earlier request of the segment failed, so the server skips this one. Only the sync point
    /// of its reply will come, if it carries one.
    fn skip(&mut self, expect: &mut Self::Expect);

    /// The server said that this request never started, and the request is about to be sent again.
    /// Writes what must go in front of it, and sets `expect` anew.
    fn heal(&mut self, expect: &mut Self::Expect, out: &mut BytesMut);

    /// The most bytes that [`heal`](Self::heal) writes, for which memory is reserved beforehand.
    fn heal_len(&self, _: &Self::Expect) -> usize {
        0
    }

    /// This request was undone together with another, or a cancel hit it instead of another. It is
    /// about to be sent again unchanged, however far its reply got. Sets `expect` anew.
    fn restart(&mut self, expect: &mut Self::Expect);

    /// Whether the protocol has a request of its own to send in front of the next segment. `idle`
    /// says that nothing is in flight.
    fn owes(&self, _idle: bool) -> bool {
        false
    }

    /// Writes the request that [`owes`](Self::owes) announced, with its sync point, and returns
    /// what to expect. It gets a slot of its own, and no caller hears of it.
    fn write_owed(&mut self, _out: &mut BytesMut) -> Option<Self::Expect> {
        None
    }

    /// Whether the next segment, if it begins with this request, takes that along by itself
    /// ([`begin`](Self::begin)), so that it needs no slot of its own.
    fn takes_owed_along(&self, _expect: &Self::Expect) -> bool {
        false
    }

    /// A request is sent again that had begun and was undone. Writes what must go in front of it, so
    /// that what it left in the session does not refuse it: at most
    /// [`heal_len`](Self::heal_len) bytes. From then on that is part of the request.
    fn renew(&mut self, _expect: &mut Self::Expect, _out: &mut BytesMut) {}

    /// Whether the protocol has a request of its own to send behind the last segment, in the same
    /// flight. `idle` says that nothing is in flight.
    fn owes_behind(&self, _idle: bool) -> bool {
        false
    }

    /// Writes that request, as [`write_owed`](Self::write_owed) does.
    fn write_behind(&mut self, _out: &mut BytesMut) -> Option<Self::Expect> {
        None
    }

    /// Whether a segment may only be sent once the one before it was answered, because the other
    /// end may lose or mix up what is sent ahead.
    fn one_segment(&self) -> bool {
        false
    }

    /// Whether a segment that begins with this request may be sent now. If not, this request and
    /// all behind it wait until something was answered.
    fn may_begin(&self, _expect: &Self::Expect) -> bool {
        true
    }

    /// A request goes onto the wire; `begins` says that it is the first of its segment. Writes what
    /// must go in front of it at this moment, and notes what session state it may leave behind.
    fn begin(&mut self, _expect: &mut Self::Expect, _begins: bool, _out: &mut BytesMut) {}

    /// The most bytes that [`begin`](Self::begin), [`write_owed`](Self::write_owed) or
    /// [`write_behind`](Self::write_behind) writes.
    fn begin_len(&self) -> usize {
        0
    }

    /// Writes a request that the server refuses wherever it stands in a segment, so that it undoes
    /// that as a whole, and returns what to expect. `None` if the protocol has none.
    fn write_failing(&self, _out: &mut BytesMut) -> Option<Self::Expect> {
        None
    }

    /// Whether the session is to get no new work, because its server is not what the host wants any
    /// more: see [`Output::Leaving`](crate::Output::Leaving). Asked after each read; once true, it
    /// stands.
    fn is_leaving(&self) -> bool {
        false
    }

    /// What the caller is told of a request that was [skipped](Step::Skipped) and can't be sent
    /// again: the server's error, or another in the same form.
    fn reason_to_skip(&mut self, error: Bytes) -> Bytes {
        error
    }

    /// Whether the server is certain to skip this request although it has not said so yet. It
    /// decides the outcome if the connection ends first.
    fn is_skipped(&self, _expect: &Self::Expect) -> bool {
        false
    }
}

/// What is at the front of the input. Lengths are in bytes and cover whole messages, except for
/// [`Step::Piece`].
#[derive(Debug)]
pub enum Step<E> {
    /// No whole message yet: this many bytes are needed, counted from the front.
    Need(usize),
    /// A part of the head's reply.
    Part(usize),
    /// A piece of a message of the head's reply. The message is too long to be kept until it is
    /// whole.
    Piece {
        /// Bytes of the piece, at the front of the input.
        len: usize,
        /// Bytes of the message that follow the piece. Until they have come, each step is a piece.
        left: usize,
    },
    /// The last part of the head's reply. The answer to a sync point that the head carries comes
    /// separately.
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
    /// A part of the reply to what the protocol itself wrote in front of the head. It belongs to no
    /// caller.
    Own(usize),
    /// An error (of this length) by which the server says that it skipped the head, because what
    /// the protocol wrote in front of it failed. Nothing of its segment has run.
    Skipped(usize),
    /// The answer to the head's sync point.
    Settled(usize),
    /// The same, but the server has also said that what it promises with this answer may not hold.
    Unconfirmed(usize),
    /// A message that belongs to no request.
    Event(usize, E),
    /// The server ends the session with this message.
    Fatal(usize),
    /// What came before shows that the session must not be used any further, although the server
    /// kept to the protocol. Nothing of the input is taken.
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
