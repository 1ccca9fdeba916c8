//! What a host takes out of a connection.

use std::fmt;

use bytes::Bytes;

use crate::{CloseReason, Failure, Token};

/// Something that happened, in the order in which it did.
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
    /// A piece of one message of a reply, which is too long to be handed over whole. The first
    /// piece begins with the message, and its other pieces follow before anything else of the
    /// reply.
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
    },
    /// Something that belongs to no request.
    Event {
        /// What the protocol made of it.
        event: E,
        /// The message.
        block: Bytes,
    },
    /// A group that asked for the exclusive right to send has it, and may submit; unless the host
    /// closed it since.
    Granted {
        /// The token given with [`Connection::open_group`](crate::Connection::open_group).
        token: Token,
    },
    /// There is room in the queue for the caller that waited under this token: submit what it had
    /// now, as [`reserved`](crate::Request::reserved), and call
    /// [`end_turn`](crate::Connection::end_turn) in any case, or nobody else gets a turn.
    Room {
        /// The token given with [`Connection::wait`](crate::Connection::wait).
        token: Token,
    },
    /// A request had to wait in the queue, or was refused since that is full. Once, until
    /// `Drained`.
    Full,
    /// Nothing waits and the window is below three quarters. Once per `Full`.
    Drained,
    /// What came of this reply so far is void, and it is sent again: a cancel that was meant for
    /// another request hit it, or another one of its shared-Sync group failed, which happens once
    /// at most, and only where
    /// [`resend`](crate::Request::resend) or [`joins`](crate::Request::joins) allows it; or what
    /// healed it was answered, and it had not started all the same
    /// ([`again`](crate::Request::again)).
    Restarted {
        /// Whose reply it is.
        token: Token,
    },
    /// The server is to be asked to cancel what it runs: prepare that (open a socket), then call
    /// [`begin_cancel`](crate::Connection::begin_cancel), and whatever becomes of it
    /// [`handle_cancel_end`](crate::Connection::handle_cancel_end). Not again before that; but
    /// again 100 ms later, and 1 s after that, where what was cancelled still runs.
    Cancel,
    /// A cancel that was wanted is not made. The request goes on.
    NotCancelled {
        /// Which request; [`Token::DISCARD`] where its caller has gone.
        token: Token,
    },
    /// A cancel was sent, and nobody knows whether it may still arrive: use the connection for what
    /// it has, and then close it.
    Astray,
    /// The connection ended. It comes before the ends of the requests that it takes along; no
    /// request that was submitted is left without one.
    Closed(CloseReason),
}

/// Lengths in place of bytes: those may hold what nobody should read.
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
            Output::Ended { token, block, end } => f
                .debug_struct("Ended")
                .field("token", token)
                .field("len", &block.len())
                .field("end", end)
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
            Output::Closed(reason) => f.debug_tuple("Closed").field(reason).finish(),
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server confirmed it, and it stands.
    Complete,
    /// The server completed it, but its segment is still open: it stands if the request that
    /// carries the segment's sync point ends as [`End::Complete`].
    Provisional,
    /// It failed.
    Failed(Failure),
}
