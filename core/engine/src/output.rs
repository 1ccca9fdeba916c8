//! What a host takes out of a connection: replies, ends and events.

use std::fmt;

use bytes::Bytes;

use crate::{CloseReason, Failure, Token};

/// Something that happened. Outputs come in the order in which they happened.
///
/// For each request there is any number of `Data` and `Piece`, then exactly one `Ended`; none for
/// requests that were submitted with [`Token::DISCARD`]. A `Restarted` takes back the `Data` and
/// `Piece` before it.
pub enum Output<E> {
    /// A part of the reply to a request: whole messages.
    Data {
        /// Whose reply it is.
        token: Token,
        /// Whole messages, in order.
        block: Bytes,
    },
    /// A piece of one message that is too long to be handed over whole. The first piece begins with
    /// the start of the message. The other pieces follow before anything else of the reply.
    Piece {
        /// Whose reply it is.
        token: Token,
        /// The bytes.
        block: Bytes,
        /// How many bytes of the message are still to come.
        left: usize,
    },
    /// A request ended. Nothing follows for this token.
    Ended {
        /// Which request.
        token: Token,
        /// The last part of the reply (may be empty), or the server's error message.
        block: Bytes,
        /// How it ended.
        end: End,
        /// It shared its sync point with others, so all of them ended at once, and the time of
        /// each is not known.
        together: bool,
    },
    /// Something that belongs to no request.
    Event {
        /// What the protocol made of it.
        event: E,
        /// The message.
        block: Bytes,
    },
    /// A group has the exclusive right to send that it asked for. It may submit now, unless the
    /// host has closed it since.
    Granted {
        /// The token given with [`Connection::open_group`](crate::Connection::open_group).
        token: Token,
    },
    /// There is room in the queue for the caller that waited under this token. The host submits its
    /// request now, as [`reserved`](crate::Request::reserved). In any case it then calls
    /// [`end_turn`](crate::Connection::end_turn), or nobody else gets a turn.
    Room {
        /// The token given with [`Connection::wait`](crate::Connection::wait).
        token: Token,
    },
    /// A request had to wait in the queue, or was refused because the queue is full. Announced
    /// once, until `Drained`.
    Full,
    /// Nothing waits and the window is below three quarters. Announced once per `Full`.
    Drained,
    /// The reply so far is void, because the request is sent again. There are two reasons:
    ///
    /// * A cancel that was meant for another request hit this one, or another request of its
    ///   shared-Sync group failed. This happens at most once, and only if
    ///   [`resend`](crate::Request::resend) or [`joins`](crate::Request::joins) allows it.
    /// * The request was sent again with a repair in front of it, the repair was answered, and yet
    ///   the request had not started ([`again`](crate::Request::again)).
    Restarted {
        /// Whose reply it is.
        token: Token,
    },
    /// The server shall be asked to cancel what it runs. The host prepares that (it opens a
    /// socket), then calls [`begin_cancel`](crate::Connection::begin_cancel), and in any case
    /// [`handle_cancel_end`](crate::Connection::handle_cancel_end). No further `Cancel` comes
    /// before that. If the request still runs, `Cancel` comes again 100 ms later, and once more 1 s
    /// after that.
    Cancel,
    /// A cancel that was wanted is not sent. The request goes on.
    NotCancelled {
        /// Which request; [`Token::DISCARD`] if its caller has gone.
        token: Token,
    },
    /// A cancel was sent, and it may still arrive at any time. The connection finishes what it has
    /// and must then be closed.
    Astray,
    /// The server is not what the host wants any more
    /// ([`Protocol::is_leaving`](crate::Protocol::is_leaving)). The connection finishes what it has
    /// and must then be closed. Announced once.
    Leaving,
    /// The connection ended. This comes before the ends of the requests in it; every submitted
    /// request still gets one.
    Closed(CloseReason),
}

/// Shows lengths in place of bytes, which may hold secrets.
impl<E: fmt::Debug> fmt::Debug for Output<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Output::Data { token, block } => {
                f.debug_struct("Data").field("token", token).field("len", &block.len()).finish()
            }
            Output::Piece { token, block, left } => f
                .debug_struct("Piece")
                .field("token", token)
                .field("len", &block.len())
                .field("left", left)
                .finish(),
            Output::Ended { token, block, end, together } => f
                .debug_struct("Ended")
                .field("token", token)
                .field("len", &block.len())
                .field("end", end)
                .field("together", together)
                .finish(),
            Output::Event { event, block } => {
                f.debug_struct("Event").field("event", event).field("len", &block.len()).finish()
            }
            Output::Granted { token } => f.debug_struct("Granted").field("token", token).finish(),
            Output::Room { token } => f.debug_struct("Room").field("token", token).finish(),
            Output::Full => f.write_str("Full"),
            Output::Drained => f.write_str("Drained"),
            Output::Restarted { token } => {
                f.debug_struct("Restarted").field("token", token).finish()
            }
            Output::Cancel => f.write_str("Cancel"),
            Output::NotCancelled { token } => {
                f.debug_struct("NotCancelled").field("token", token).finish()
            }
            Output::Astray => f.write_str("Astray"),
            Output::Leaving => f.write_str("Leaving"),
            Output::Closed(reason) => f.debug_tuple("Closed").field(reason).finish(),
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server confirmed it, and its effect stands.
    Complete,
    /// The server completed it, but its segment is still open. Its effect stands if the request
    /// that carries the segment's sync point ends as [`End::Complete`].
    Provisional,
    /// It failed.
    Failed(Failure),
}
