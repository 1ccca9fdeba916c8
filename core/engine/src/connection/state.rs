//! What a connection keeps beside its queue and its wire: plain data, which the files beside this one
//! give their meaning.

use std::time::Duration;

use bytes::Bytes;

use super::wire::Slot;
use crate::{Cause, Failure, Feed, Group, Outcome, Time, Token};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    /// Takes no new requests; says goodbye once the last was answered.
    Terminating,
    Closed,
}

/// The group that alone may send: between its requests nothing else may be sent.
pub(super) struct Sender {
    pub(super) group: Group,
    /// The last request that was submitted is a member.
    pub(super) segment_open: bool,
    /// It is given back once what was submitted is on the wire.
    pub(super) closing: bool,
    /// Replies to it no longer count against the window.
    pub(super) uncounted: bool,
}

/// How the request at the head of the ring failed, until its sync point is answered.
pub(super) struct HeadFailure {
    pub(super) failure: Failure,
    pub(super) block: Bytes,
    pub(super) never_started: bool,
    /// The server skipped it with all of its segment, since what the protocol wrote in front
    /// failed.
    pub(super) skipped: bool,
    pub(super) cancelled: bool,
}

/// Where a request that was submitted goes.
pub(super) enum Admission {
    /// Straight onto the wire.
    Direct,
    Queued,
    /// Nowhere.
    Full,
}

/// The request that is being fed.
pub(super) struct Feeding {
    /// As it was submitted: its slot may have lost it since.
    pub(super) token: Token,
    pub(super) feed: Feed,
}

impl Feeding {
    #[inline]
    pub(super) fn of<X>(slot: &Slot<X>) -> Option<Feeding> {
        match slot.feed {
            Feed::Whole => None,
            feed => Some(Feeding { token: slot.token, feed }),
        }
    }

    /// Whether what was sent so far ends within a message.
    pub(super) fn is_mid_message(&self) -> bool {
        self.feed == Feed::Message
    }
}

/// Bytes of metered replies that were handed out and not taken.
pub(super) struct Meter {
    pub(super) untaken: usize,
    /// There were too many, and not few enough since.
    pub(super) stopped: bool,
    /// It went on, and nobody has asked yet.
    pub(super) resumed: bool,
}

impl Meter {
    pub(super) fn new() -> Meter {
        Meter { untaken: 0, stopped: false, resumed: false }
    }

    pub(super) fn add(&mut self, bytes: usize, max: usize) {
        self.untaken += bytes;
        self.stopped |= self.untaken >= max.max(1);
    }

    /// Whether reading went on again since this was asked last.
    pub(super) fn take_resumed(&mut self) -> bool {
        std::mem::take(&mut self.resumed)
    }

    pub(super) fn take(&mut self, bytes: usize, max: usize) {
        self.untaken = self.untaken.saturating_sub(bytes);
        let was_stopped = self.stopped;
        // At half, so that the next read is worth a turn.
        self.stopped &= self.untaken > max / 2;
        self.resumed |= was_stopped && !self.stopped;
    }
}

/// How a shared-Sync group failed.
pub(super) struct SharedSyncFailure {
    /// Which of it failed, counted from its first; none if it was the sync point that did.
    pub(super) at: Option<usize>,
    pub(super) failed: HeadFailure,
}

impl SharedSyncFailure {
    /// Which request failed, and what is known of its effect.
    pub(super) fn of(&self) -> Option<(usize, Outcome)> {
        Some((self.at?, self.failed.failure.outcome))
    }
}

/// What became of the wish to cancel a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It was not sent, or was to be sent again, and has ended.
    TakenBack,
    /// The server will be asked once it runs the request with this token;
    /// [`Output::NotCancelled`](super::Output::NotCancelled) says if not. It may end before.
    Noted(Token),
    /// It shares a sync point with others, or that is not on its way yet.
    NotPossible,
    /// There is no such request, or no longer.
    Unknown,
}

/// How a cancel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelEnd {
    /// No byte of it was sent.
    NotSent,
    /// The server closed the connection that it came on: it has been carried out.
    Closed,
    /// It was sent, and nobody knows what became of it.
    Lost,
}

/// What is under way about cancelling.
pub(super) struct Cancelling {
    pub(super) stage: Stage,
    /// Requests below this number were on the wire with a cancel that has ended.
    pub(super) reached: u64,
    /// Until then one that has ended is taken to be on its way still.
    pub(super) reaches_until: Time,
    /// One was sent of which nobody knows whether it arrived.
    pub(super) astray: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Idle,
    /// The host prepares to send one. `held`: what is behind the victim can't be hit, so nothing
    /// more is put there meanwhile.
    Preparing {
        since: Time,
        held: bool,
    },
    Sent(Sent),
    /// The host prepares to send it once more.
    PreparingAgain(Sent),
}

/// A cancel that was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    /// The request that was the end of the segment at the head then.
    pub(super) victim: u64,
    /// When it was sent, was closed, or is prepared again.
    pub(super) since: Time,
    /// The server has carried it out.
    pub(super) closed: bool,
    /// How often the host was asked to send it again.
    pub(super) repeats: usize,
}

impl Sent {
    /// When it is to be sent again.
    pub(super) fn again_at(&self) -> Time {
        match PAUSES.get(self.repeats) {
            Some(pause) if self.closed => self.since.after(*pause),
            _ => Time::NEVER,
        }
    }
}

/// How long a victim may run on before it is cancelled again.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// A victim that never started is not sent again.
pub(super) const NOT_SENT_AGAIN: Failure =
    Failure { outcome: Outcome::Rejected, cause: Cause::Cancelled };

impl Default for Cancelling {
    fn default() -> Cancelling {
        Cancelling { stage: Stage::Idle, reached: 0, reaches_until: Time::ZERO, astray: false }
    }
}
