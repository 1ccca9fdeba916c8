//! The two kinds of waiting: requests for the window, and callers for room in the queue.

use std::num::NonZeroU64;

use bytes::{Bytes, BytesMut};

use super::buffer::Buffer;
use super::wire::Slot;
use crate::line::Line;
use crate::{Group, Outcome, Request, SyncPoint, Time, Token, Unsent};

pub(super) enum Entry<X> {
    Request {
        /// Position of its first byte, counted like [`Queue::bytes_start`].
        start: u64,
        slot: Slot<X>,
    },
    /// A group that waits for its exclusive right to send.
    Group(Token, Group),
}

/// Requests with their bytes, and groups that ask for the exclusive right to send, in issue order.
pub(super) struct Queue<X> {
    line: Line<Entry<X>>,
    /// The requests' bytes in order, and between them the bytes of requests that were taken out.
    bytes: Buffer,
    /// Position of the first byte in `bytes`, counted from the first that was ever queued.
    bytes_start: u64,
    /// Bytes of the requests in line.
    live_bytes: usize,
    /// Whether a Flush was put behind the last request.
    flushed: bool,
}

/// Up to this many bytes of requests that were taken out are kept: moving the others is not worth
/// it.
const GONE_BYTES_MIN: usize = 64 << 10;

impl<X> Queue<X> {
    pub(super) fn new() -> Queue<X> {
        Queue {
            line: Line::new(),
            bytes: Buffer::new(),
            bytes_start: 0,
            live_bytes: 0,
            flushed: false,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.line.live() == 0
    }

    #[inline]
    pub(super) fn live(&self) -> usize {
        self.line.live()
    }

    #[inline]
    pub(super) fn bytes_len(&self) -> usize {
        self.live_bytes
    }

    /// Appends a request with the bytes that `encode` writes. Returns its number.
    pub(super) fn push<E>(
        &mut self,
        request: Request<X>,
        encode: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<u64, E> {
        let start = self.bytes_end();
        let len = self.bytes.encode(encode)?;
        self.live_bytes += len;
        self.flushed = false;
        Ok(self.line.push(Entry::Request { start, slot: Slot::new(request, len) }))
    }

    /// Appends a group that asks for the right to send. The group is named after its number in the
    /// line.
    pub(super) fn push_group(&mut self, token: Token) -> Group {
        let number = NonZeroU64::new(self.line.next_number()).expect("numbers start at one");
        let group = Group(number);
        self.line.push(Entry::Group(token, group));
        group
    }

    pub(super) fn first(&mut self) -> Option<&Entry<X>> {
        self.line.first()
    }

    /// Whether everything that was in line when its next number was this one has left.
    pub(super) fn has_passed(&mut self, number: u64) -> bool {
        self.line.first_number().is_none_or(|first| first >= number)
    }

    /// The number of the next entry.
    pub(super) fn next_number(&self) -> u64 {
        self.line.next_number()
    }

    /// Takes the first entry. The bytes of a request are handed to `copy`.
    pub(super) fn pop(&mut self, copy: impl FnOnce(&mut Slot<X>, &[u8])) -> Option<Entry<X>> {
        let mut entry = self.line.pop()?;
        if let Entry::Request { start, slot } = &mut entry {
            let start = *start;
            let gap = (start - self.bytes_start) as usize;
            copy(slot, &self.bytes.as_slice()[gap..gap + slot.len]);
            self.bytes.advance(gap + slot.len);
            self.bytes_start = start + slot.len as u64;
            self.live_bytes -= slot.len;
        }
        Some(entry)
    }

    /// Puts `flush` behind the last request, once, if its segment goes on after it.
    pub(super) fn flush_last(&mut self, flush: &[u8]) {
        if self.flushed {
            return;
        }
        let end = self.bytes_end();
        if let Some(Entry::Request { start, slot }) = self.line.last_mut()
            && slot.sync == SyncPoint::Member
        {
            debug_assert_eq!(*start + slot.len as u64, end, "only whole segments leave");
            self.bytes.extend(flush);
            slot.len += flush.len();
            self.live_bytes += flush.len();
            self.flushed = true;
        }
    }

    /// Takes out the requests of the segment that ends with this sync point, and hands each token to
    /// `left`. Returns whether it is partly sent: then its sync point stays, as a pinned one does.
    /// `None`, and nothing is taken out, if there is no such segment, or nothing of it was sent and
    /// it is pinned. `mid_segment`: the first entry continues a segment that is on the wire.
    pub(super) fn give_up_segment(
        &mut self,
        token: Token,
        mid_segment: bool,
        mut left: impl FnMut(Token),
    ) -> Option<bool> {
        self.line.skip_gaps();
        let slot_at = |at: usize| match self.line.at(at) {
            Some(Entry::Request { slot, .. }) => Some(slot),
            _ => None,
        };
        let is_end = |slot: &Slot<X>| slot.token == token && slot.sync == SyncPoint::Only;
        let end = (0..self.line.len()).find(|&at| slot_at(at).is_some_and(is_end))?;
        let is_member = |at| slot_at(at).is_some_and(|slot| slot.sync == SyncPoint::Member);
        let start = (0..end).rev().find(|&at| !is_member(at)).map_or(0, |at| at + 1);
        let is_pinned = |at| slot_at(at).is_some_and(|slot| slot.pinned);
        let is_partly_sent = start == 0 && mid_segment;
        if !is_partly_sent && (start..end).any(is_pinned) {
            return None;
        }
        let end = if is_partly_sent || is_pinned(end) { end } else { end + 1 };
        for at in start..end {
            if let Some(Entry::Request { slot, .. }) = self.take(at) {
                left(slot.token);
            }
        }
        self.close_gaps();
        Some(is_partly_sent)
    }

    /// The requests in line.
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot<X>> {
        self.line.iter().filter_map(|entry| match entry {
            Entry::Request { slot, .. } => Some(slot),
            Entry::Group(..) => None,
        })
    }

    pub(super) fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot<X>> {
        self.line.iter_mut().filter_map(|entry| match entry {
            Entry::Request { slot, .. } => Some(slot),
            Entry::Group(..) => None,
        })
    }

    /// The request with this token, to note what its caller wants.
    pub(super) fn find(&mut self, token: Token) -> Option<&mut Slot<X>> {
        self.slots_mut().find(|slot| slot.token == token)
    }

    /// Takes an isolated request back. A request of a longer segment stays, since a segment is sent
    /// whole or not at all. `mid_segment`: the first entry continues a segment that is on the wire.
    pub(super) fn remove(&mut self, number: u64, mid_segment: bool) -> Option<Token> {
        self.line.skip_gaps();
        let index = self.line.position(number)?;
        // No request leaves from within a segment, so behind a gap a new segment begins.
        let after_member = match index.checked_sub(1) {
            None => mid_segment,
            Some(before) => matches!(self.line.at(before),
                Some(Entry::Request { slot, .. }) if slot.sync == SyncPoint::Member),
        };
        let token = match self.line.at(index)? {
            Entry::Request { slot, .. }
                if slot.sync == SyncPoint::Own && !after_member && !slot.pinned =>
            {
                slot.token
            }
            _ => return None,
        };
        self.take(index);
        self.close_gaps();
        Some(token)
    }

    pub(super) fn remove_group(&mut self, group: Group) {
        if let Some(index) = self.line.position(group.0.get())
            && let Some(Entry::Group(..)) = self.line.at(index)
        {
            self.take(index);
            self.close_gaps();
        }
    }

    /// Takes out the segments in which a request's deadline has come, hands each token and its
    /// outcome to `expired`, and returns the earliest deadline among the rest.
    ///
    /// A segment is taken out whole. That can't be done if it is partly sent (`mid_segment`), its
    /// end was not submitted yet, or it is pinned. Then the callers of its late requests are told,
    /// and the segment is still sent.
    pub(super) fn expire(
        &mut self,
        now: Time,
        mid_segment: bool,
        mut expired: impl FnMut(Token, Outcome),
    ) -> Time {
        self.line.skip_gaps();
        let mut earliest = Time::NEVER;
        let (mut start, mut sent) = (0, mid_segment);
        while let Some(segment) = self.segment(start) {
            if segment.late_by(now) {
                for index in start..segment.end {
                    if !sent && segment.complete && !segment.pinned {
                        if let Some(Entry::Request { slot, .. }) = self.take(index) {
                            expired(slot.token, Outcome::NotSent);
                        }
                    } else if let Some(Entry::Request { slot, .. }) = self.line.at_mut(index) {
                        if slot.deadline <= now {
                            expired(slot.forget(), Outcome::Unknown);
                        }
                        earliest = earliest.min(slot.deadline);
                    }
                }
            } else {
                earliest = earliest.min(segment.deadline);
            }
            (start, sent) = (segment.end, false);
        }
        self.close_gaps();
        earliest
    }

    /// The deadline of all that stand alone and may be sent again is now.
    pub(super) fn hurry(&mut self, now: Time) {
        for index in 0..self.line.len() {
            if let Some(Entry::Request { slot, .. }) = self.line.at_mut(index)
                && slot.resend
            {
                slot.deadline = slot.deadline.min(now);
            }
        }
    }

    /// Empties the queue and hands out every token in it, and what can be sent on another
    /// connection. `mid_segment`: the first entry continues a segment that is on the wire.
    pub(super) fn drain(
        &mut self,
        mid_segment: bool,
        mut left: impl FnMut(Token, Option<Unsent<X>>),
    ) {
        let mut behind_member = mid_segment;
        while let Some(entry) = self.line.pop() {
            match entry {
                Entry::Request { slot, start } => {
                    let movable = slot.is_movable(behind_member);
                    behind_member = slot.sync == SyncPoint::Member;
                    let at = (start - self.bytes_start) as usize;
                    let bytes = self.bytes.as_slice().get(at..at + slot.len);
                    let unsent = bytes.filter(|_| movable).map(|bytes| Unsent {
                        bytes: Bytes::copy_from_slice(bytes),
                        expect: slot.expect,
                    });
                    left(slot.token, unsent);
                }
                Entry::Group(token, _) => {
                    behind_member = false;
                    left(token, None);
                }
            }
        }
        self.bytes_start = self.bytes_end();
        self.bytes = Buffer::new();
        self.live_bytes = 0;
    }

    fn bytes_end(&self) -> u64 {
        self.bytes_start + self.bytes.len() as u64
    }

    /// The segment that begins at `start`; a gap or a group counts as one.
    fn segment(&self, start: usize) -> Option<Segment> {
        let mut segment =
            Segment { end: start, complete: false, pinned: false, deadline: Time::NEVER };
        for index in start..self.line.len() {
            segment.end = index + 1;
            segment.complete = match self.line.at(index) {
                Some(Entry::Request { slot, .. }) => {
                    segment.deadline = segment.deadline.min(slot.deadline);
                    segment.pinned |= slot.pinned;
                    slot.sync != SyncPoint::Member
                }
                _ => true,
            };
            if segment.complete {
                break;
            }
        }
        (segment.end > start).then_some(segment)
    }

    fn take(&mut self, index: usize) -> Option<Entry<X>> {
        let entry = self.line.take(index)?;
        if let Entry::Request { slot, .. } = &entry {
            self.live_bytes -= slot.len;
        }
        Some(entry)
    }

    /// Frees the bytes of requests that were taken out, once they are more than a quarter of the
    /// others'. The others move up within the buffer, because a second buffer would be the peak of
    /// memory.
    fn close_gaps(&mut self) {
        self.line.close_gaps();
        if self.bytes.len() - self.live_bytes <= self.live_bytes / 4 + GONE_BYTES_MIN {
            return;
        }
        let mut end = 0;
        for entry in self.line.iter_mut() {
            if let Entry::Request { start, slot } = entry {
                self.bytes.move_up((*start - self.bytes_start) as usize, slot.len, end);
                *start = self.bytes_start + end as u64;
                end += slot.len;
            }
        }
        self.bytes.truncate(end);
    }
}

/// A run of places in the queue that are sent together.
struct Segment {
    /// The place behind its last.
    end: usize,
    /// Whether the request that ends it was submitted.
    complete: bool,
    /// Whether one of its requests must stay even when its caller leaves.
    pinned: bool,
    /// The earliest deadline of its requests.
    deadline: Time,
}

impl Segment {
    fn late_by(&self, now: Time) -> bool {
        self.deadline <= now
    }
}

/// Callers that wait for room in the queue. Each keeps its request until then.
pub(super) struct Waiting {
    line: Line<(Token, Time)>,
}

impl Waiting {
    pub(super) fn new() -> Waiting {
        Waiting { line: Line::new() }
    }

    #[inline]
    pub(super) fn live(&self) -> usize {
        self.line.live()
    }

    pub(super) fn push(&mut self, token: Token, deadline: Time) -> u64 {
        self.line.push((token, deadline))
    }

    pub(super) fn pop(&mut self) -> Option<Token> {
        self.line.pop().map(|(token, _)| token)
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Token> {
        let index = self.line.position(number)?;
        let (token, _) = self.line.take(index)?;
        self.line.close_gaps();
        Some(token)
    }

    pub(super) fn expire(&mut self, now: Time, mut expired: impl FnMut(Token)) -> Time {
        let mut earliest = Time::NEVER;
        for index in 0..self.line.len() {
            match self.line.at(index) {
                Some((_, deadline)) if *deadline > now => earliest = earliest.min(*deadline),
                Some((token, _)) => {
                    expired(*token);
                    self.line.take(index);
                }
                None => {}
            }
        }
        self.line.close_gaps();
        earliest
    }
}
