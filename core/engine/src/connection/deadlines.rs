//! Time: requests whose deadline passes, and a peer that takes no bytes.
//!
//! Deadlines are not kept in a heap, which would hold an entry for each request long after it
//! ended. Instead the engine remembers a moment before which no deadline can come. At that moment
//! it looks through all requests once. That is linear, at most once a millisecond, and over at most
//! `in_flight_max + queue_max` requests: less than one percent of the time at the default limits.

use std::time::Duration;

use bytes::Bytes;

use super::Connection;
use super::state::SharedSyncFailure;
use super::wire::Slot;
use crate::{Cause, CloseReason, Outcome, Protocol, Time};

impl<P: Protocol> Connection<P> {
    /// The moment that [`poll_deadline`](Self::poll_deadline) named has come; it may be called at
    /// any other, too.
    ///
    /// What happens to a request whose deadline has passed:
    ///
    /// * In the queue: it is taken out as [`Outcome::NotSent`], and its whole segment with it,
    ///   unless that is [`pinned`](crate::Request::pinned).
    /// * In flight or pinned: it ends as [`Outcome::Unknown`], unless the server already said how
    ///   it failed. Its slot stays, and its reply is dropped.
    /// * Waiting to be sent again, because it never started: it is not sent, and ends as
    ///   [`Outcome::Rejected`].
    pub fn handle_time(&mut self, now: Time) {
        if self.is_closed() {
            return;
        }
        if self.meter.take_resumed() {
            // The peer may have sent bytes meanwhile that are still unread.
            self.last_progress = now;
        }
        if now >= self.stall_deadline() {
            return self.close(CloseReason::Stalled);
        }
        if now >= self.silence_deadline() {
            self.silence_is_over();
        }
        if now >= self.cancel_deadline() {
            self.cancel_is_late(now);
        }
        if now >= self.resume_deadline() {
            self.resume(now);
        }
        if now >= self.yield_deadline() {
            self.head_is_late(now);
        }
        if now >= self.next_expiry() {
            self.expire(now);
            self.fill(now);
        }
    }

    pub(super) fn expire(&mut self, now: Time) {
        let mut expired = Vec::new();
        let mut late = |token, outcome| expired.push((token, outcome));
        let failed = match &self.head_failure {
            Some(failed) => Some((0, failed.failure.outcome)),
            None => self.shared_sync_failure.as_ref().and_then(SharedSyncFailure::of),
        };
        let mut earliest = self.wire.expire(now, |index, token| match failed {
            Some((at, outcome)) if index == at => late(token, outcome),
            _ => late(token, Outcome::Unknown),
        });
        let mut stays = |(slot, _): &(Slot<P::Expect>, Bytes)| {
            let stays = slot.deadline > now;
            match stays {
                true => earliest = earliest.min(slot.deadline),
                false => late(slot.token, Outcome::Rejected),
            }
            stays
        };
        self.healing.retain(&mut stays);
        self.yielded.retain(&mut stays);
        let (in_group, mid_segment) = (self.sender.is_some(), self.wire.mid_segment);
        earliest = earliest.min(self.group_queue.expire(now, mid_segment, &mut late));
        earliest = earliest.min(self.queue.expire(now, mid_segment && !in_group, &mut late));
        earliest = earliest.min(self.waiting.expire(now, |token| late(token, Outcome::NotSent)));
        if !expired.is_empty() && (self.wire.wanted() > 0 || self.is_given_up()) {
            self.handle_given_up(now);
        }
        for (token, outcome) in expired {
            self.fail(token, outcome, Cause::Deadline);
        }
        self.earliest_deadline = earliest;
        self.next_look = now.after(RESOLUTION);
    }

    /// When to look through the deadlines next.
    #[inline]
    pub(super) fn next_expiry(&self) -> Time {
        self.earliest_deadline.max(self.next_look)
    }

    /// When the peer counts as dead if no byte moves until then.
    pub(super) fn stall_deadline(&self) -> Time {
        // A server reads a fed request at the pace of its work, and may wait for a lock in between.
        let is_fed = self.wire.fed() > 0;
        // A peer that is not read from may have stopped reading in turn, and can't show that it
        // lives.
        let is_read = self.wants_bytes();
        if self.transmit().is_empty() || self.is_closed() || is_fed || !is_read {
            return Time::NEVER;
        }
        self.last_progress.after(self.limits.stall_timeout)
    }
}

/// The shortest time between two looks through the requests.
const RESOLUTION: Duration = Duration::from_millis(1);
