//! How a request that failed ended: what is known of its effect, and why it failed.

use std::fmt;

use bytes::Bytes;

use crate::Violation;

/// What is known of the effect of a request that failed. The same four words in every language.
///
/// The list is complete: a fifth would be a breaking change, and none is planned. So a `match` needs
/// no wildcard, and one that leaves an outcome out does not compile:
///
/// ```
/// # use onetrip_engine::Outcome;
/// fn may_have_taken_effect(outcome: Outcome) -> bool {
///     match outcome {
///         Outcome::NotSent | Outcome::Rejected => false,
///         Outcome::Applied | Outcome::Unknown => true,
///     }
/// }
/// # assert!(may_have_taken_effect(Outcome::Unknown));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// No byte of it was handed to TLS or the operating system: it can't have run. It is safe to send
    /// it again.
    NotSent,
    /// The server answered that it did not take effect, or never started. What a sequence gave stays
    /// given.
    Rejected,
    /// The server confirmed it; only reading the answer failed. Sent again it would take effect twice.
    Applied,
    /// It was sent and there is no final answer: it may have run.
    Unknown,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::NotSent => "not sent",
            Outcome::Rejected => "rejected",
            Outcome::Applied => "applied",
            Outcome::Unknown => "unknown",
        })
    }
}

/// Why a request failed, and what is known of its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What is known of its effect.
    pub outcome: Outcome,
    /// Why it failed.
    pub cause: Cause,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The server answered with an error; the block that came with the end is its message.
    Server,
    /// A request before it in its segment failed, so the server skipped it.
    Aborted,
    /// Its deadline passed.
    Deadline,
    /// The host took it back: before it was sent, or before it was sent again.
    Cancelled,
    /// The connection ended; [`Output::Closed`](crate::Output::Closed) says how.
    Closed,
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The host closed it, or reported that the peer or the transport did.
    Host,
    /// The server said that it ends the session; the block is its message.
    Server(Bytes),
    /// A message came that the state can't explain, or its reader can't, so that nothing after it can
    /// be trusted; or the host closed a group within a segment.
    Violation(Violation),
    /// Nobody may go on with the session: see [`Step::Unusable`](crate::Step::Unusable).
    Unusable(&'static str),
    /// Bytes lay unsent for [`Limits::stall_timeout`](crate::Limits::stall_timeout) and the peer
    /// neither took nor sent any.
    Stalled,
    /// There is no memory to send on what waited for the window.
    NoMemory,
}
