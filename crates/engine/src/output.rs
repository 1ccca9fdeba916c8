//! What a host takes out of a connection.

use bytes::Bytes;

use crate::{CloseReason, Failure, Token};

/// Something that happened, in the order in which it did.
///
/// For each request there is any number of `Data`, then exactly one `Ended`; none for requests
/// that were submitted with [`Token::DISCARD`].
#[derive(Debug)]
pub enum Output<E> {
    /// A part of the reply to a request: whole messages.
    Data {
        /// Whose reply it is.
        token: Token,
        /// Whole messages, in order.
        block: Bytes,
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
    /// A group that asked for the floor has it, and may submit.
    Granted {
        /// The token given with [`Connection::open_group`](crate::Connection::open_group).
        token: Token,
    },
    /// There is room in the queue for the caller that waited under this token: submit what it had
    /// now, as [`reserved`](crate::Request::reserved), and call
    /// [`end_turn`](crate::Connection::end_turn).
    Room {
        /// The token given with [`Connection::wait`](crate::Connection::wait).
        token: Token,
    },
    /// The window is full: requests wait in the queue. Once, until `Drained`.
    Full,
    /// Nothing waits and the window is below three quarters. Once per `Full`.
    Drained,
    /// The connection ended. It comes before the ends of the requests that it takes along; no
    /// request that was submitted is left without one.
    Closed(CloseReason),
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
