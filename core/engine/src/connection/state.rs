//! The state that a connection keeps besides its queue and its wire, as plain data. The
//! neighbouring files give it its meaning.

use std::time::Duration;

use bytes::Bytes;

use super::wire::Slot;
use crate::{Cause, Failure, Feed, Group, Outcome, Time, Token};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    /// Takes no new requests, and says goodbye once the last one was answered.
    Terminating,
    Closed,
}

/// The group with the exclusive right to send. Nothing else is sent between its requests.
pub(super) struct Sender {
    pub(super) group: Group,
    /// The last request that was submitted is a member.
    pub(super) segment_open: bool,
    /// The right is given back once all submitted requests are on the wire.
    pub(super) closing: bool,
    /// Replies to it no longer count against the window.
    pub(super) uncounted: bool,
}

/// How the request at the head of the ring failed, until its sync point is answered.
pub(super) struct HeadFailure {
    pub(super) failure: Failure,
    pub(super) block: Bytes,
    pub(super) never_started: bool,
    /// The server skipped it with all of its segment, because what the protocol wrote in front
    /// failed.
    pub(super) skipped: bool,
    pub(super) cancelled: bool,
}

/// Where a submitted request goes.
pub(super) enum Admission {
    /// Straight onto the wire.
    Direct,
    Queued,
    /// Refused.
    Full,
}

/// The request that is being fed.
pub(super) struct Feeding {
    /// The token it was submitted with; its slot may have lost it since.
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

    /// Whether the bytes sent so far end within a message.
    pub(super) fn is_mid_message(&self) -> bool {
        self.feed == Feed::Message
    }
}

/// Bytes of metered replies that were handed out and not yet taken.
pub(super) struct Meter {
    pub(super) untaken: usize,
    /// Reading is stopped: there were too many, and they are not down to half yet.
    pub(super) stopped: bool,
    /// Reading went on again, and [`take_resumed`](Self::take_resumed) was not called since.
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

    /// Whether reading went on again since the last call.
    pub(super) fn take_resumed(&mut self) -> bool {
        std::mem::take(&mut self.resumed)
    }

    pub(super) fn take(&mut self, bytes: usize, max: usize) {
        self.untaken = self.untaken.saturating_sub(bytes);
        let was_stopped = self.stopped;
        // Reading goes on at half, so that the next read is worth a turn.
        self.stopped &= self.untaken > max / 2;
        self.resumed |= was_stopped && !self.stopped;
    }
}

/// How a shared-Sync group failed.
pub(super) struct SharedSyncFailure {
    /// Which request of the group failed, counted from its first; `None` if the sync point did.
    pub(super) at: Option<usize>,
    pub(super) failed: HeadFailure,
}

impl SharedSyncFailure {
    /// Which request failed, and what is known of its effect.
    pub(super) fn of(&self) -> Option<(usize, Outcome)> {
        Some((self.at?, self.failed.failure.outcome))
    }
}

/// The answer to the wish to cancel a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It had not been sent, or waited to be sent again. It has ended.
    TakenBack,
    /// The server will be asked once it runs the request with this token. If it is not asked,
    /// [`Output::NotCancelled`](super::Output::NotCancelled) says so. The request may end before.
    Noted(Token),
    /// It shares a sync point with others, or the sync point of its segment is not in flight yet.
    NotPossible,
    /// There is no such request, or it has ended.
    Unknown,
}

/// How a cancel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelEnd {
    /// No byte of it was sent.
    NotSent,
    /// The server closed the cancel's connection, so it has carried the cancel out.
    Closed,
    /// It was sent, and it is not known whether it arrived.
    Lost,
}

/// The state of cancelling at the server.
pub(super) struct Cancelling {
    pub(super) stage: Stage,
    /// Requests below this number were on the wire at the same time as a cancel that has ended.
    pub(super) reached: u64,
    /// Until this moment a cancel that has ended counts as still on its way.
    pub(super) reaches_until: Time,
    /// A cancel was sent of which it is not known whether it arrived.
    pub(super) astray: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Idle,
    /// The host prepares to send a cancel. `held`: requests behind the victim must not be hit, so
    /// no more are put there meanwhile.
    Preparing {
        since: Time,
        held: bool,
    },
    Sent(Sent),
    /// The host prepares to send the cancel once more.
    PreparingAgain(Sent),
}

/// A cancel that was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    /// The number of the request that ended the segment at the head at that time.
    pub(super) victim: u64,
    /// When it was sent or closed, or when sending it again was prepared.
    pub(super) since: Time,
    /// The server has carried it out.
    pub(super) closed: bool,
    /// How often the host was asked to send it again.
    pub(super) repeats: usize,
}

impl Sent {
    /// When the cancel must be sent again.
    pub(super) fn again_at(&self) -> Time {
        match PAUSES.get(self.repeats) {
            Some(pause) if self.closed => self.since.after(*pause),
            _ => Time::NEVER,
        }
    }
}

/// How long a victim may run on before it is cancelled again.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// How a request ends that was to be cancelled and never started: it is not sent again.
pub(super) const NOT_SENT_AGAIN: Failure =
    Failure { outcome: Outcome::Rejected, cause: Cause::Cancelled };

impl Default for Cancelling {
    fn default() -> Cancelling {
        Cancelling { stage: Stage::Idle, reached: 0, reaches_until: Time::ZERO, astray: false }
    }
}
