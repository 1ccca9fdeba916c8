//! What a host takes out of a pool, and the words for what it reports.

use std::fmt;
use std::time::Duration;

use super::ConnectionId;
use crate::Token;

/// What a host has to do, in order.
///
/// For each caller that took a [`Ticket`](super::Ticket) there is exactly one of `Granted`,
/// `Placed` and `Failed`, unless [`give_up`](super::Pool::give_up) answered true.
///
/// A connection that was lost since the last drain may still be granted; nothing else is said of
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Open a connection, and report what came of it with
    /// [`handle_opened`](super::Pool::handle_opened) or
    /// [`handle_open_failed`](super::Pool::handle_open_failed). It counts as one of
    /// [`connections_max`](super::Limits::connections_max) already, so the host must let no attempt
    /// take for ever.
    Open {
        /// Its name from now on.
        id: ConnectionId,
    },
    /// The caller has this connection to itself until the host gives it back with
    /// [`release`](super::Pool::release), which it owes even if the caller went away. No shared
    /// statement may be put on it from now on; those that count in its load are answered first.
    Granted {
        /// The token given with [`checkout`](super::Pool::checkout).
        token: Token,
        /// The connection.
        id: ConnectionId,
        /// How long it waited.
        waited: Duration,
    },
    /// The caller puts its statement on this connection, next to those of others. The statement
    /// counts in its [`Load`](super::Load) from now on, and goes there even if the connection is
    /// told to drain before it is sent; nothing is given back.
    Placed {
        /// The token given with [`wait_shared`](super::Pool::wait_shared).
        token: Token,
        /// The connection.
        id: ConnectionId,
        /// How long it waited.
        waited: Duration,
    },
    /// The caller gets no connection.
    Failed {
        /// The token of the caller.
        token: Token,
        /// Why.
        cause: Cause,
    },
    /// Shared statements may be put on this connection from now on.
    Shared {
        /// The connection.
        id: ConnectionId,
    },
    /// No new shared statement may be put on this connection, until `Shared` says otherwise. Call
    /// [`handle_drained`](super::Pool::handle_drained) when it is idle: at once, if it is already.
    Drain {
        /// The connection.
        id: ConnectionId,
    },
    /// This idle connection came back as [`Condition::DirtyHolding`] some time ago: send the
    /// reset, unless it left with a statement in the meantime.
    Reset {
        /// The connection.
        id: ConnectionId,
    },
    /// The pool has forgotten this connection: say goodbye and close it, since it is idle; or give
    /// up opening it.
    Close {
        /// The connection.
        id: ConnectionId,
    },
    /// [`Pool::close`](super::Pool::close) is done: no connection is left. Nothing follows but the
    /// failures of callers that come too late.
    Closed,
}

/// Why a caller got no connection. Nothing was sent for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// More than [`Limits::waiting_max`](super::Limits::waiting_max) callers would have waited.
    LineFull,
    /// Its deadline passed while others had the connections, or one was being opened.
    Deadline,
    /// Its deadline passed after the last attempt to open a connection failed; or no connection is
    /// left and a new one would fail for the same reason. The host keeps the error.
    OpenFailed,
    /// The pool closes.
    Closed,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::LineFull => "too many callers wait for a connection",
            Cause::Deadline => "no connection became free in time",
            Cause::OpenFailed => "no connection could be opened",
            Cause::Closed => "the pool is closed",
        })
    }
}

impl std::error::Error for Cause {}

/// In which condition a connection comes back from its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// As it was when it was opened.
    Clean,
    /// Settings may have been changed, so a reset is owed. It rides along with the first statement
    /// of the next user, exclusive or shared; the host sees to that, and to the pool this is
    /// `Clean`.
    Dirty,
    /// A reset is owed that others may be waiting for: locks, temporary tables, LISTEN. If no next
    /// user takes it along within
    /// [`reset_idle_after`](super::Limits::reset_idle_after), [`Output::Reset`] asks for it.
    DirtyHolding,
    /// It can't be used any more, and the pool forgets it: the host closes it.
    Broken,
}
