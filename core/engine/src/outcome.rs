//! How a request that failed ended: what is known of its effect, and why it failed.

use std::fmt;

use bytes::Bytes;

use crate::Violation;

/// What is known of the effect of a request that failed. The same four words in every language.
///
/// The list is complete; a fifth outcome would be a breaking change, and none is planned. A `match`
/// needs no wildcard, and one that leaves an outcome out does not compile:
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
    /// No byte of it was handed to TLS or the operating system, so it can't have run. It is safe to
    /// send it again.
    NotSent,
    /// The server answered that it did not take effect, or that it never started. Values that were
    /// taken from a sequence are not given back.
    Rejected,
    /// The server confirmed it; only reading the answer failed. If it is sent again, it takes
    /// effect twice.
    Applied,
    /// It was sent and there is no final answer: it may have run.
    Unknown,
}

impl Outcome {
    /// What is known of a request over all its attempts, of which the last one failed so.
    /// `may_have_run`: an earlier one was sent and not answered. What is said of the last one is
    /// true of that one alone.
    #[must_use]
    pub fn over_attempts(self, may_have_run: bool) -> Outcome {
        match self {
            Outcome::Applied => Outcome::Applied,
            _ if may_have_run => Outcome::Unknown,
            last => last,
        }
    }
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
    /// The server answered with an error. The block of [`Output::Ended`](crate::Output::Ended)
    /// holds its message.
    Server,
    /// The server answered, and said that what it promises with this answer may not hold: see
    /// [`Step::Unconfirmed`](crate::Step::Unconfirmed).
    Unconfirmed,
    /// An earlier request of its segment failed, so the server skipped it.
    Aborted,
    /// Its deadline passed.
    Deadline,
    /// The host took it back before it was sent, or before it was sent again.
    Cancelled,
    /// The connection ended; [`Output::Closed`](crate::Output::Closed) says how.
    Closed,
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The host closed it, or reported that the peer closed it or the transport failed.
    Host,
    /// The server said that it ends the session. Holds its message.
    Server(Bytes),
    /// A message came that the state, or the reader of the reply, can't explain, so nothing after
    /// it can be trusted. Or the host closed a group within a segment.
    Violation(Violation),
    /// The session must not be used any further: see [`Step::Unusable`](crate::Step::Unusable).
    Unusable(&'static str),
    /// Bytes lay unsent for [`Limits::stall_timeout`](crate::Limits::stall_timeout), and in that
    /// time the peer neither took nor sent any.
    Stalled,
    /// Callers gave up what the server has not answered, nobody waits for anything else, and the
    /// server said nothing for twice [`Limits::cancel_wait_max`](crate::Limits::cancel_wait_max).
    Silent,
    /// There was no memory to send requests that had waited for the window.
    NoMemory,
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Applied, NotSent, Rejected, Unknown};

    /// P63.
    #[test]
    fn what_may_have_run_once_is_unknown_whatever_became_of_the_last_attempt() {
        let ends = [NotSent, Rejected, Applied, Unknown];
        assert_eq!(ends.map(|end| end.over_attempts(false)), ends);
        assert_eq!(ends.map(|end| end.over_attempts(true)), [Unknown, Unknown, Applied, Unknown]);
    }
}
