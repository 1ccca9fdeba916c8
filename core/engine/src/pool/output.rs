//! What a host takes out of a pool, and the types of its reports.

use std::fmt;
use std::time::Duration;

use super::waiters::{Kind, Waiter};
use super::{ConnectionId, Limits, TextKey};
use crate::{Time, Token};

/// What the host must do, in order.
///
/// For each caller that took a [`Ticket`](super::Ticket) there is exactly one of `Granted`,
/// `Placed` and `Failed`, unless [`give_up`](super::Pool::give_up) answered true.
///
/// A connection that was lost since the last drain may still be given to a caller, who then gets in
/// line [again](super::Pool::again). No other output mentions it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Open a connection, and report the result with [`handle_opened`](super::Pool::handle_opened)
    /// or [`handle_open_failed`](super::Pool::handle_open_failed). It already counts as one of
    /// [`connections_max`](super::Limits::connections_max), so the host must bound the time of each
    /// attempt.
    Open {
        /// Its name from now on.
        id: ConnectionId,
    },
    /// The caller has this connection to itself until the host returns it with
    /// [`release`](super::Pool::release), which it must do even if the caller has gone. No shared
    /// statement may be put on it from now on; those that count in its load are answered first.
    Granted(Served),
    /// The caller puts its statement on this connection, beside the statements of others. The
    /// statement counts in its [`Load`](super::Load) from now on. It goes there even if the
    /// connection is told to drain before it is sent, or drains already. The connection is not returned afterwards.
    Placed(Served),
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
    /// No new shared statement may be put on this connection until `Shared` says otherwise. The
    /// host calls [`handle_drained`](super::Pool::handle_drained) when it is idle, at once if it
    /// already is.
    Drain {
        /// The connection.
        id: ConnectionId,
    },
    /// This idle connection came back as [`Condition::DirtyHolding`] some time ago. Send the reset,
    /// unless it has left with a statement in the meantime.
    Reset {
        /// The connection.
        id: ConnectionId,
    },
    /// The pool has forgotten this connection. If it is open, it is idle: say goodbye and close it.
    /// If it is being opened, give up.
    Close {
        /// The connection.
        id: ConnectionId,
    },
    /// Something is awaited, and the server has answered nothing on any connection for
    /// [`Limits::scout_after`](super::Limits::scout_after). Look for another server, with an attempt
    /// that is none of the pool's, within a bounded time. Then report it with
    /// [`handle_scouted`](super::Pool::handle_scouted).
    Scout,
    /// [`Pool::close`](super::Pool::close) is done, and no connection is left. Only failures of
    /// callers that come too late may follow.
    Closed,
}

/// A caller that gets a connection, and what it came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The token given with [`checkout`](super::Pool::checkout) or
    /// [`wait_shared`](super::Pool::wait_shared).
    pub token: Token,
    /// The connection.
    pub id: ConnectionId,
    /// How long the caller waited.
    pub waited: Duration,
    pub(super) kind: Kind,
    pub(super) key: TextKey,
    pub(super) deadline: Time,
}

impl Served {
    pub(super) fn new(waiter: Waiter, kind: Kind, id: ConnectionId, now: Time) -> Served {
        let Waiter { token, since, key, deadline, .. } = waiter;
        Served { token, id, waited: now.since(since), kind, key, deadline }
    }
}

/// Why a caller got no connection. None of its requests was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// More than [`Limits::waiting_max`](super::Limits::waiting_max) callers would have waited.
    LineFull,
    /// Its deadline passed while other callers had the connections, or one was being opened.
    Deadline,
    /// Its deadline passed after the last attempt to open a connection failed. Or no connection is
    /// left, and a new one would fail for the same reason; or the line is too long while the last
    /// attempt failed. The host keeps the error.
    OpenFailed,
    /// The pool closes.
    Closed,
}

impl Cause {
    /// The code of the error that the caller gets: the same in every language.
    pub fn code(self) -> &'static str {
        match self {
            Cause::LineFull => "waiting_full",
            Cause::Deadline => "wait_timeout",
            Cause::OpenFailed => "connect",
            Cause::Closed => "closed",
        }
    }

    /// What the caller is told: also which settings decide about it, and what they are.
    pub fn told(self, limits: &Limits) -> String {
        let Limits { connections_max, waiting_max, wait_timeout, .. } = limits;
        match self {
            Cause::LineFull => format!(
                "{self}: {waiting_max} do already (waiting_max); make fewer calls at once, or raise \
                 waiting_max or connections_max ({connections_max})"
            ),
            Cause::Deadline => format!(
                "{self}: up to {connections_max} (connections_max) are in use or being opened, and a \
                 call waits for one for at most {} ms (wait_timeout_ms); hold sessions for a shorter \
                 time, or raise one of the two",
                wait_timeout.as_millis()
            ),
            Cause::OpenFailed => self.to_string(),
            Cause::Closed => "the client was closed by this program".to_owned(),
        }
    }
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
    /// It is as it was when it was opened.
    Clean,
    /// Settings may have been changed, so a reset is owed. The host sends it with the first
    /// statement of the next user, exclusive or shared. The pool treats this like `Clean`.
    Dirty,
    /// A reset is owed, and the session holds something that others may be waiting for: locks,
    /// temporary tables, LISTEN. If no next user takes the reset along within
    /// [`reset_idle_after`](super::Limits::reset_idle_after), [`Output::Reset`] asks for it.
    DirtyHolding,
    /// It can't be used any more. The pool forgets it, and the host closes it.
    Broken,
}
