//! From the queue onto the wire: the window, the floor, and the Flush that keeps a long segment
//! moving.

use bytes::BytesMut;

use super::queue::Entry;
use super::wire::{Slot, Wire};
use super::{Connection, Life};
use crate::{
    Cause, CloseReason, Limits, Outcome, Output, Protocol, Request, SubmitError, SyncPoint, Time,
};

impl<P: Protocol> Connection<P> {
    /// Whether a request may be taken, and whether it goes straight onto the wire.
    pub(super) fn admit<E>(&self, request: &Request<P::Expect>) -> Result<bool, SubmitError<E>> {
        if let Some(group) = request.group {
            if self.floor != Some(group) {
                return Err(SubmitError::NotGranted);
            }
            if self.group_queue.live() >= self.limits.queue_max
                || self.group_queue.bytes_len() >= self.limits.queue_bytes_max
            {
                return Err(SubmitError::QueueFull);
            }
            return Ok(self.group_queue.is_empty() && self.window_open());
        }
        let waits = self.someone_waits() && !request.reserved;
        let clear = self.floor.is_none() && self.queue.is_empty() && self.healing.is_empty();
        if clear && !waits && self.window_open() {
            return Ok(true);
        }
        let full = self.queue.live() + self.rooms_reserved >= self.limits.queue_max
            || self.queue.bytes_len() >= self.limits.queue_bytes_max;
        if waits || full && !request.reserved {
            return Err(SubmitError::QueueFull);
        }
        Ok(false)
    }

    /// Encodes a request onto the wire and gives it its slot.
    pub(super) fn send_now<E>(
        &mut self,
        now: Time,
        mut slot: Slot<P::Expect>,
        encode: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), SubmitError<E>> {
        if is_doomed(self.skipping, &self.wire, &slot) {
            self.fail(slot.token, Outcome::NotSent, Cause::Aborted);
            return Ok(());
        }
        self.wire.begin(now, &mut self.last_progress);
        slot.len = self.wire.encode(encode).map_err(SubmitError::Encode)?;
        self.push(slot);
        Ok(())
    }

    /// Sends what the window lets through, in order, and says what changed by it.
    pub(super) fn fill(&mut self, now: Time) {
        if self.life == Life::Closed {
            return;
        }
        while self.window_open() && self.send_next(now) {}
        self.grant();
        self.offer_room();
        self.announce_drained();
        self.say_goodbye(now);
    }

    /// Whether another request may go onto the wire.
    pub(super) fn window_open(&self) -> bool {
        // A request larger than the window travels alone.
        self.refilling || (self.in_flight() == 0 && self.undelivered == 0)
    }

    /// Once the window was full it opens again at half: refilling it at every reply makes many
    /// small writes, which cost a third more CPU.
    pub(super) fn update_window(&mut self) {
        let (requests, bytes) = (self.in_flight(), self.in_flight_bytes() + self.undelivered);
        let Limits { in_flight_max, in_flight_bytes_max, .. } = self.limits;
        self.refilling = match self.refilling {
            true => requests < in_flight_max.max(1) && bytes < in_flight_bytes_max,
            false => requests < (in_flight_max / 2).max(1) && bytes < in_flight_bytes_max / 2,
        };
    }

    /// Moves the next request onto the wire; false if it isn't anybody's turn.
    fn send_next(&mut self, now: Time) -> bool {
        let queue = match self.floor {
            Some(_) => &mut self.group_queue,
            None if !self.healing.is_empty() && !self.wire.mid_segment => {
                self.send_again(now);
                return true;
            }
            None => &mut self.queue,
        };
        match queue.first() {
            Some(Entry::Request(_)) => {}
            Some(Entry::Group(..)) if self.floor.is_some() => {
                queue.pop();
                self.free_floor();
                return true;
            }
            _ => return false,
        }
        let Some(Entry::Request(slot)) = queue.pop() else { return false };
        let doomed = is_doomed(self.skipping, &self.wire, &slot);
        self.wire.begin(now, &mut self.last_progress);
        let wire = &mut self.wire;
        queue.take_bytes(slot.len, |bytes| {
            if !doomed {
                wire.extend(bytes);
            }
        });
        match doomed {
            true => self.fail(slot.token, Outcome::NotSent, Cause::Aborted),
            false => self.push(slot),
        }
        true
    }

    fn send_again(&mut self, now: Time) {
        let Some((mut slot, bytes)) = self.healing.pop_front() else { return };
        self.wire.begin(now, &mut self.last_progress);
        slot.len = self.wire.extend_with(|out| {
            self.protocol.heal(&mut slot.expect, out);
            out.extend_from_slice(&bytes);
        });
        self.push(slot);
    }

    fn push(&mut self, slot: Slot<P::Expect>) {
        self.earliest_deadline = self.earliest_deadline.min(slot.deadline);
        self.wire.push(slot);
        self.flush_half_window();
        self.update_window();
        self.skip_members();
    }

    /// The server keeps small replies to itself until a sync point or a Flush. Without one at each
    /// half window, a segment longer than the window would wait for replies that never come.
    fn flush_half_window(&mut self) {
        if P::FLUSH.is_empty() || !self.wire.mid_segment {
            return;
        }
        let half = (self.limits.in_flight_max / 2).max(1);
        if self.wire.unflushed >= half
            || self.wire.unflushed_bytes >= self.limits.in_flight_bytes_max / 2
        {
            self.wire.append_to_last(P::FLUSH);
        }
    }

    /// Gives the floor to the group whose turn it is.
    fn grant(&mut self) {
        if self.floor.is_some() || self.wire.mid_segment || !self.healing.is_empty() {
            return;
        }
        if let Some(Entry::Group(..)) = self.queue.first()
            && let Some(Entry::Group(token, group)) = self.queue.pop()
        {
            self.floor = Some(group);
            self.outputs.push_back(Output::Granted { token });
        }
    }

    fn offer_room(&mut self) {
        while self.waiting.live() > 0
            && self.queue.live() + self.rooms_reserved < self.limits.queue_max
            && self.queue.bytes_len() < self.limits.queue_bytes_max
        {
            let Some((token, _)) = self.waiting.pop() else { break };
            self.rooms_reserved += 1;
            self.outputs.push_back(Output::Room { token });
        }
    }

    pub(super) fn announce_full(&mut self) {
        if !self.full {
            self.full = true;
            self.outputs.push_back(Output::Full);
        }
    }

    fn announce_drained(&mut self) {
        let below = |now: usize, max: usize| now < max - max / 4;
        if self.full
            && self.queued() == 0
            && self.waiting.live() == 0
            && below(self.in_flight(), self.limits.in_flight_max)
            && below(self.in_flight_bytes() + self.undelivered, self.limits.in_flight_bytes_max)
        {
            self.full = false;
            self.outputs.push_back(Output::Drained);
        }
    }

    pub(super) fn say_goodbye(&mut self, now: Time) {
        if self.life == Life::Terminating && self.is_idle() && self.floor.is_none() {
            self.wire.begin(now, &mut self.last_progress);
            self.wire.append_unanswered(P::TERMINATE);
            self.life = Life::Closed;
            self.outputs.push_back(Output::Closed(CloseReason::Host));
        }
    }
}

/// A member whose segment has failed already would only be skipped: it isn't sent at all.
fn is_doomed<X>(skipping: Option<Outcome>, wire: &Wire<X>, slot: &Slot<X>) -> bool {
    skipping.is_some() && wire.ring.is_empty() && wire.mid_segment && slot.sync == SyncPoint::Member
}
