//! The tested state machine: a connection of the engine, or a layer above one or several.

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use onetrip_engine::{Connection, Output, Protocol, Request, SubmitError, Ticket, Time, Token};

/// The tested state machine, without I/O. A host uses it only through this trait and its side.
pub trait Driven: Debug {
    /// The description of a request, in addition to its bytes.
    type Request;
    /// An event that belongs to no request.
    type Event: Debug;

    /// Submits a request. If it is not `whole`, its encoder fails while it writes the bytes. An
    /// implementation that frames requests by itself ignores the bytes.
    fn submit(
        &mut self,
        now: Time,
        request: Self::Request,
        bytes: &[u8],
        whole: bool,
    ) -> Result<Ticket, SubmitError<()>>;
    /// Sends the messages that the protocol owes before any request.
    fn settle_debts(&mut self, now: Time);
    /// Waits for room in the queue.
    fn wait(&mut self, token: Token, deadline: Time) -> Option<Ticket>;
    /// The caller that waited has had its turn.
    fn end_turn(&mut self, now: Time);
    /// Cancels a request that was not sent.
    fn cancel(&mut self, now: Time, ticket: Ticket) -> bool;
    /// Says goodbye when all is answered.
    fn terminate(&mut self, now: Time);

    /// Takes bytes that came over a link. Returns how many bytes it needs to go on.
    fn handle_bytes(&mut self, now: Time, at: usize, input: &mut BytesMut) -> usize;
    /// This many of the bytes to write were written.
    fn handle_written(&mut self, now: Time, at: usize, bytes: usize);
    /// Tells it the time.
    fn handle_time(&mut self, now: Time);
    /// A link has failed.
    fn handle_closed(&mut self, now: Time, at: usize);

    /// The bytes to write next to a link.
    fn transmit(&self, at: usize) -> &[u8];
    /// What happened next.
    fn poll_output(&mut self) -> Option<Output<Self::Event>>;
    /// When it next has to be told the time.
    fn poll_deadline(&self) -> Option<Time>;
    /// Whether the host should read from this link.
    fn wants_bytes(&self, at: usize) -> bool;
    /// Whether nothing is under way.
    fn is_idle(&self) -> bool;
    /// Whether it has ended.
    fn is_closed(&self) -> bool;
    /// Whether a link is closed in both directions.
    fn is_link_closed(&self, at: usize) -> bool {
        let _ = at;
        self.is_closed()
    }
    /// The bytes of a request that was not sent before its connection ended, if it may be sent on
    /// another one.
    fn take_unsent(&mut self, token: Token) -> Option<Bytes> {
        let _ = token;
        None
    }
    /// A link that has to be opened again.
    fn poll_link(&mut self) -> Option<usize> {
        None
    }
    /// Its current load.
    fn load(&self) -> Load;
}

/// The load at one moment.
#[derive(Clone, Copy)]
pub struct Load {
    pub(crate) in_flight: usize,
    pub(crate) in_flight_bytes: usize,
    pub(crate) queued: usize,
    pub(crate) queued_bytes: usize,
    pub(crate) waiting: usize,
    pub(crate) undelivered_bytes: usize,
    pub(crate) untaken_bytes: usize,
}

impl Load {
    /// The larger of each figure.
    pub(crate) fn max(self, other: Load) -> Load {
        Load {
            in_flight: self.in_flight.max(other.in_flight),
            in_flight_bytes: self.in_flight_bytes.max(other.in_flight_bytes),
            queued: self.queued.max(other.queued),
            queued_bytes: self.queued_bytes.max(other.queued_bytes),
            waiting: self.waiting.max(other.waiting),
            undelivered_bytes: self.undelivered_bytes.max(other.undelivered_bytes),
            untaken_bytes: self.untaken_bytes.max(other.untaken_bytes),
        }
    }
}

impl<P: Protocol<Event: Debug>> Driven for Connection<P> {
    type Request = Request<P::Expect>;
    type Event = P::Event;

    fn submit(
        &mut self,
        now: Time,
        request: Self::Request,
        bytes: &[u8],
        whole: bool,
    ) -> Result<Ticket, SubmitError<()>> {
        Connection::submit(self, now, request, |out| {
            out.extend_from_slice(bytes);
            if whole { Ok(()) } else { Err(()) }
        })
    }

    fn settle_debts(&mut self, now: Time) {
        Connection::settle_debts(self, now);
    }

    fn wait(&mut self, token: Token, deadline: Time) -> Option<Ticket> {
        Connection::wait(self, token, deadline)
    }

    fn end_turn(&mut self, now: Time) {
        Connection::end_turn(self, now);
    }

    fn cancel(&mut self, now: Time, ticket: Ticket) -> bool {
        Connection::cancel(self, now, ticket)
    }

    fn terminate(&mut self, now: Time) {
        Connection::terminate(self, now);
    }

    fn handle_bytes(&mut self, now: Time, _: usize, input: &mut BytesMut) -> usize {
        Connection::handle_bytes(self, now, input)
    }

    fn handle_written(&mut self, now: Time, _: usize, bytes: usize) {
        Connection::handle_written(self, now, bytes);
    }

    fn handle_time(&mut self, now: Time) {
        Connection::handle_time(self, now);
    }

    fn handle_closed(&mut self, _: Time, _: usize) {
        Connection::handle_closed(self);
    }

    fn transmit(&self, _: usize) -> &[u8] {
        Connection::transmit(self)
    }

    fn poll_output(&mut self) -> Option<Output<P::Event>> {
        Connection::poll_output(self)
    }

    fn poll_deadline(&self) -> Option<Time> {
        Connection::poll_deadline(self)
    }

    fn wants_bytes(&self, _: usize) -> bool {
        Connection::wants_bytes(self)
    }

    fn is_idle(&self) -> bool {
        Connection::is_idle(self)
    }

    fn is_closed(&self) -> bool {
        Connection::is_closed(self)
    }

    fn take_unsent(&mut self, token: Token) -> Option<Bytes> {
        Connection::take_unsent(self, token).map(|unsent| unsent.bytes)
    }

    fn load(&self) -> Load {
        Load {
            in_flight: self.in_flight(),
            in_flight_bytes: self.in_flight_bytes(),
            // What was put aside waits for its time.
            queued: self.queued() - self.paused(),
            queued_bytes: self.queued_bytes(),
            waiting: self.waiting(),
            undelivered_bytes: self.undelivered_bytes(),
            untaken_bytes: self.untaken_bytes(),
        }
    }
}
