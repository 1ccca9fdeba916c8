//! Time: requests whose caller no longer waits, and a peer that takes nothing.
//!
//! Deadlines are not kept in a heap: it would hold an entry for each request long after it ended.
//! Instead the engine remembers a moment before which none can come, and when it does, looks
//! through the requests once. That is linear, at most once a millisecond, and over at most
//! `in_flight_max + queue_max` requests: below one percent of the time at the default limits.

use std::time::Duration;

use super::Connection;
use crate::{Cause, CloseReason, Outcome, Protocol, Time, Token};

impl<P: Protocol> Connection<P> {
    /// The moment came that [`poll_deadline`](Self::poll_deadline) named, or any other.
    ///
    /// A request in the queue whose deadline has passed is taken out as [`Outcome::NotSent`]. One
    /// on its way ends as [`Outcome::Unknown`]; its slot stays, and its reply is dropped.
    pub fn handle_time(&mut self, now: Time) {
        if now >= self.stall_deadline() {
            return self.close(CloseReason::Stalled);
        }
        if now < self.earliest_deadline || self.is_closed() {
            return;
        }
        let mut expired = Vec::new();
        let mut earliest = Time::NEVER;
        for slot in self.wire.ring.iter_mut().chain(self.healing.iter_mut().map(|(s, _)| s)) {
            if slot.deadline <= now {
                expired.push((slot.token, Outcome::Unknown));
                slot.token = Token::DISCARD;
                slot.deadline = Time::NEVER;
            } else {
                earliest = earliest.min(slot.deadline);
            }
        }
        let mut late = |token, outcome| expired.push((token, outcome));
        let (floor, mid_segment) = (self.floor.is_some(), self.wire.mid_segment);
        earliest = earliest.min(self.group_queue.expire(now, mid_segment, &mut late));
        earliest = earliest.min(self.queue.expire(now, mid_segment && !floor, &mut late));
        earliest = earliest.min(self.waiting.expire(now, |token| late(token, Outcome::NotSent)));
        for (token, outcome) in expired {
            self.fail(token, outcome, Cause::Deadline);
        }
        self.earliest_deadline = earliest.max(now.after(RESOLUTION));
        self.fill(now);
    }

    /// When the peer is to be declared dead if no byte moves until then.
    pub(super) fn stall_deadline(&self) -> Time {
        if self.transmit().is_empty() || self.is_closed() {
            return Time::NEVER;
        }
        self.last_progress.after(self.limits.stall_timeout)
    }
}

/// The next look through the requests is this much later at the earliest.
const RESOLUTION: Duration = Duration::from_millis(1);
