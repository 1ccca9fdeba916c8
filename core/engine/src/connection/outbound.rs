//! Sends from the queue onto the wire: the window, the exclusive right to send, and the Flush that
//! keeps a long segment moving.

use bytes::BytesMut;

use super::Connection;
use super::queue::Entry;
use super::state::{Admission, Cancelling, Feeding, Life, Sender};
use super::wire::{Slot, Wire};
use crate::{
    Cause, CloseReason, Limits, Outcome, Output, Protocol, Request, SubmitError, SyncPoint, Time,
};

/// Writes what the protocol puts in front of a request at this moment. Returns its length.
fn write_front<P: Protocol>(
    wire: &mut Wire<P::Expect>,
    protocol: &mut P,
    expect: &mut P::Expect,
) -> usize {
    let begins = !wire.mid_segment;
    let Ok(len) = wire.encode(|out| {
        protocol.begin(expect, begins, out);
        Ok::<(), std::convert::Infallible>(())
    });
    len
}

impl<P: Protocol> Connection<P> {
    #[inline]
    pub(super) fn admit<E>(
        &self,
        now: Time,
        request: &Request<P::Expect>,
    ) -> Result<Admission, SubmitError<E>> {
        let Some(group) = request.group else {
            return self.admit_shared(now, request);
        };
        match &self.sender {
            _ if self.life == Life::Closed => Err(SubmitError::Closed),
            Some(sender) if sender.group == group && !sender.closing => {
                if self.group_has_room() && !self.is_owed_place() && self.may_go(&request.expect) {
                    return Ok(Admission::Direct);
                }
                let full = self.group_queue.live() >= self.limits.queue_max
                    || self.group_queue.bytes_len() >= self.limits.queue_bytes_max;
                // A sync point is always taken, because a group can't be closed without one.
                Ok(match full && request.sync != SyncPoint::Only {
                    true => Admission::Full,
                    false => Admission::Queued,
                })
            }
            _ => Err(SubmitError::NotGranted),
        }
    }

    #[inline]
    fn admit_shared<E>(
        &self,
        now: Time,
        request: &Request<P::Expect>,
    ) -> Result<Admission, SubmitError<E>> {
        // Room was announced for it, or the start of its segment was taken already.
        let continues = request.reserved || self.segment_open;
        if self.life != Life::Open && !(self.life == Life::Terminating && continues) {
            return Err(SubmitError::Closed);
        }
        if self.someone_waits() && !continues {
            return Ok(Admission::Full);
        }
        let stays = !request.resend && self.keeps_back(now);
        if self.is_clear() && self.may_go(&request.expect) && !stays {
            return Ok(Admission::Direct);
        }
        Ok(match continues || self.has_place() {
            true => Admission::Queued,
            false => Admission::Full,
        })
    }

    /// Whether a request outside any group would go straight onto the wire.
    #[inline]
    fn is_clear(&self) -> bool {
        self.sender.is_none()
            && self.queue.is_empty()
            && (self.healing.is_empty() || self.wire.mid_segment)
            && self.window_open()
    }

    /// Whether another request outside any group may be taken, if no caller waits for room.
    #[inline]
    pub(super) fn has_place(&self) -> bool {
        self.queue.live() < self.limits.queue_max
            && self.queue.bytes_len() < self.limits.queue_bytes_max
            || self.is_clear()
    }

    /// Encodes a request onto the wire and gives it its slot.
    #[inline]
    pub(super) fn send_now<E>(
        &mut self,
        now: Time,
        mut request: Request<P::Expect>,
        encode: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.is_doomed(request.sync) {
            self.fail(request.token, Outcome::NotSent, Cause::Aborted);
            return Ok(());
        }
        self.begin_sending(now);
        let Request { expect, .. } = &mut request;
        let (protocol, begins, mut front_len) = (&mut self.protocol, !self.wire.mid_segment, 0);
        let len = self.wire.encode(|out| {
            let before = out.len();
            protocol.begin(expect, begins, out);
            front_len = out.len() - before;
            encode(out)
        })?;
        self.push(Slot::new(request, len), front_len);
        Ok(())
    }

    /// Whether the protocol lets this request follow those in flight.
    #[inline]
    fn may_go(&self, expect: &P::Expect) -> bool {
        self.wire.mid_segment || self.protocol.may_begin(expect)
    }

    /// Sends the protocol's own request, if there is one, in front of the next segment.
    #[inline]
    pub(super) fn send_owed(&mut self, now: Time) {
        if self.owes() {
            self.write_own(now, P::write_owed);
        }
    }

    /// The same in front of a segment that begins with this request, which may take it along.
    #[inline]
    pub(super) fn send_owed_before(&mut self, now: Time, request: &Request<P::Expect>) {
        if self.owes() && !self.takes_owed_along(now, request) {
            self.write_own(now, P::write_owed);
        }
    }

    #[cold]
    fn takes_owed_along(&self, now: Time, request: &Request<P::Expect>) -> bool {
        let admission = self.admit::<std::convert::Infallible>(now, request);
        matches!(admission, Ok(Admission::Direct))
            && self.protocol.takes_owed_along(&request.expect)
    }

    #[inline]
    fn owes(&self) -> bool {
        self.protocol.owes(self.wire.is_empty()) && !self.wire.mid_segment && self.window_open()
    }

    /// Sends the protocol's own request, if there is one, behind the last segment.
    #[inline]
    pub(super) fn send_owed_behind(&mut self, now: Time) {
        if self.protocol.owes_behind(self.wire.is_empty())
            && !self.wire.mid_segment
            && self.window_open()
        {
            self.write_own(now, P::write_behind);
        }
    }

    #[cold]
    fn write_own(
        &mut self,
        now: Time,
        write: impl FnOnce(&mut P, &mut BytesMut) -> Option<P::Expect>,
    ) {
        if self.life == Life::Closed {
            return;
        }
        if !self.wire.make_room(self.protocol.begin_len()) {
            return self.close(CloseReason::NoMemory);
        }
        self.begin_sending(now);
        let (protocol, mut expect) = (&mut self.protocol, None);
        let written = self.wire.encode(|out| {
            expect = write(protocol, out);
            Ok::<(), std::convert::Infallible>(())
        });
        let (Some(expect), Ok(len)) = (expect, written) else { return };
        self.push(Slot::of_protocol(expect, len), 0);
    }

    /// Sends the queued requests that the window lets through, in order, and announces what
    /// changed.
    pub(super) fn fill(&mut self, now: Time) {
        if self.life == Life::Closed {
            return;
        }
        self.end_hold(now);
        loop {
            self.free_floor();
            self.return_yielded();
            if self.someone_is_queued() {
                self.send_owed(now);
            }
            if !(self.window_open() && self.send_next(now)) {
                break;
            }
        }
        if self.life == Life::Closed {
            return;
        }
        self.grant(now);
        self.offer_room();
        self.announce_drained();
        self.look_for_victim(now);
        self.say_goodbye(now);
    }

    /// Whether another request may go onto the wire.
    #[inline]
    pub(super) fn window_open(&self) -> bool {
        // A request larger than the window travels alone, and a fed one has the wire to itself.
        !self.is_held()
            && self.feeding.is_none()
            && self.segment_may_go()
            && (self.refilling || (self.in_flight() == 0 && self.undelivered == 0))
    }

    /// Whether the limit of one segment in flight, if it applies, lets another request follow.
    #[inline]
    fn segment_may_go(&self) -> bool {
        !(self.limits.one_segment || self.protocol.one_segment())
            || self.wire.mid_segment
            || self.wire.is_empty()
    }

    /// Once the window was full, it opens again at half. Refilling it at every reply makes many
    /// small writes, which cost a third more CPU.
    #[inline]
    pub(super) fn update_window(&mut self) {
        let (requests, bytes) = (self.in_flight(), self.in_flight_bytes() + self.undelivered);
        let Limits { in_flight_max, in_flight_bytes_max, .. } = self.limits;
        self.refilling = match self.refilling {
            true => requests < in_flight_max.max(1) && bytes < in_flight_bytes_max,
            false => requests < (in_flight_max / 2).max(1) && bytes < in_flight_bytes_max / 2,
        };
    }

    /// Whether a request that keeps its place in the order is to be sent again. Everything behind
    /// it waits, even if a group of the same caller has the right to send by now.
    #[inline]
    fn is_owed_place(&self) -> bool {
        self.healing.front().is_some_and(|(slot, _)| slot.in_order) && !self.wire.mid_segment
    }

    /// Moves the next request onto the wire. False if there is none, it may not be sent yet, or
    /// there is no memory for it.
    pub(super) fn send_next(&mut self, now: Time) -> bool {
        let queue = match self.sender {
            Some(_) if self.is_owed_place() => return self.send_again(now),
            Some(_) => &mut self.group_queue,
            None if !self.healing.is_empty() && !self.wire.mid_segment => {
                return self.send_again(now);
            }
            None => &mut self.queue,
        };
        let Some(Entry::Request { slot, .. }) = queue.first() else { return false };
        if !(self.wire.mid_segment || self.protocol.may_begin(&slot.expect)) {
            return false;
        }
        let (sync, len, resend) = (slot.sync, slot.len, slot.resend);
        if !resend && self.sender.is_none() && self.keeps_back(now) {
            return false;
        }
        let doomed = self.is_doomed(sync);
        if !doomed && !self.wire.make_room(len.saturating_add(self.protocol.begin_len())) {
            self.close(CloseReason::NoMemory);
            return false;
        }
        self.begin_sending(now);
        let queue = if self.sender.is_some() { &mut self.group_queue } else { &mut self.queue };
        let (wire, protocol, mut front_len) = (&mut self.wire, &mut self.protocol, 0);
        let entry = queue.pop(|slot, bytes| {
            if !doomed {
                front_len = write_front(wire, protocol, &mut slot.expect);
                wire.extend(bytes);
            }
        });
        if let Some(Entry::Request { mut slot, .. }) = entry {
            slot.len += front_len;
            match doomed {
                true => self.fail(slot.token, Outcome::NotSent, Cause::Aborted),
                false => self.push(slot, front_len),
            }
        }
        true
    }

    fn send_again(&mut self, now: Time) -> bool {
        let Some((slot, bytes)) = self.healing.front() else { return false };
        if !self.protocol.may_begin(&slot.expect) {
            return false;
        }
        let heal_len = self.protocol.heal_len(&slot.expect);
        let front_len = self.protocol.begin_len();
        if !self.wire.make_room(bytes.len().saturating_add(heal_len).saturating_add(front_len)) {
            self.close(CloseReason::NoMemory);
            return false;
        }
        let Some((mut slot, bytes)) = self.healing.pop_front() else { return false };
        self.begin_sending(now);
        let front_len = write_front(&mut self.wire, &mut self.protocol, &mut slot.expect);
        let heal = |out: &mut BytesMut| {
            match slot.heals {
                true => self.protocol.heal(&mut slot.expect, out),
                false => self.protocol.renew(&mut slot.expect, out),
            }
            out.extend_from_slice(&bytes);
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(len) = self.wire.encode(heal);
        if slot.heals {
            slot.heal_len = len - bytes.len();
        }
        slot.len = front_len + len;
        // What was in front of it before is not there any more.
        (slot.front_len, slot.anew) = (0, false);
        // From now on the repair is part of its bytes.
        slot.heals = false;
        self.push(slot, front_len);
        true
    }

    /// Whether a request or a group waits to be sent.
    pub(super) fn someone_is_queued(&self) -> bool {
        !(self.queue.is_empty() && self.group_queue.is_empty() && self.healing.is_empty())
    }

    /// `front_len`: how many of its first bytes are the protocol's.
    #[inline(always)]
    fn push(&mut self, mut slot: Slot<P::Expect>, front_len: usize) {
        if front_len > 0 {
            slot.guard(front_len);
        }
        self.feeding = Feeding::of(&slot);
        self.wire.push(slot);
        self.flush_half_window();
        self.update_window();
        self.skip_members();
    }

    /// Whether this is a member of a segment that has already failed. The server would only skip
    /// it, so it isn't sent at all.
    #[inline]
    fn is_doomed(&self, sync: SyncPoint) -> bool {
        self.skipping.is_some()
            && self.wire.is_empty()
            && self.wire.mid_segment
            && sync == SyncPoint::Member
    }

    /// The server keeps small replies back until a sync point or a Flush. Without a Flush at each
    /// half window, a segment longer than the window would wait for replies that never come.
    #[inline]
    fn flush_half_window(&mut self) {
        if P::FLUSH.is_empty() || !self.wire.mid_segment {
            return;
        }
        let half = (self.limits.in_flight_max / 2).max(1);
        if self.wire.unflushed >= half
            || self.wire.unflushed_bytes >= self.limits.in_flight_bytes_max / 2
        {
            self.wire.flush(P::FLUSH);
        }
    }

    /// Takes the right to send from a closed group once its last request is on the wire.
    fn free_floor(&mut self) {
        if let Some(Sender { closing: true, .. }) = self.sender
            && self.group_queue.is_empty()
        {
            self.sender = None;
            self.undelivered = 0;
            self.update_window();
        }
    }

    /// Gives the right to send to the group whose turn it is.
    fn grant(&mut self, now: Time) {
        if self.sender.is_some() || !self.healing.is_empty() {
            return;
        }
        if let Some(Entry::Group(..)) = self.queue.first()
            && !self.keeps_back(now)
            && let Some(Entry::Group(token, group)) = self.queue.pop(|_, _| {})
        {
            debug_assert!(!self.wire.mid_segment, "no group is queued within a segment");
            self.sender =
                Some(Sender { group, segment_open: false, closing: false, uncounted: false });
            self.outputs.push_back(Output::Granted { token });
        }
    }

    /// Lets the first waiting caller submit. Only one at a time, since the size of its request is
    /// unknown.
    pub(super) fn offer_room(&mut self) {
        if !self.turn
            && self.has_place()
            && let Some(token) = self.waiting.pop()
        {
            self.turn = true;
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
        let below = |now: usize, max: usize| now < (max - max / 4).max(1);
        if self.full
            // What was put aside gives way to whoever comes now.
            && self.queued() == self.paused()
            && !self.someone_waits()
            && below(self.in_flight(), self.limits.in_flight_max)
            && below(self.in_flight_bytes() + self.undelivered, self.limits.in_flight_bytes_max)
        {
            self.full = false;
            self.outputs.push_back(Output::Drained);
        }
    }

    pub(super) fn say_goodbye(&mut self, now: Time) {
        if self.life == Life::Terminating && self.is_idle() && self.sender.is_none() {
            self.begin_sending(now);
            self.wire.append_unanswered(P::TERMINATE);
            self.enter_closed(CloseReason::Host);
            // No request is left that a cancel on its way could hit.
            self.cancelling = Cancelling::default();
        }
    }
}
