//! What waits: requests for the window, and callers for room in the queue.
//!
//! Both are numbered lines. Taking one out of the middle leaves a gap that is stepped over when its
//! turn comes, so every operation costs the same whatever the length.

use std::collections::VecDeque;

use bytes::{Buf, BytesMut};

use super::wire::Slot;
use crate::{Group, Outcome, SyncPoint, Time, Token};

#[derive(Debug)]
pub(super) enum Entry<X> {
    Request(Slot<X>),
    /// A group's turn to hold the floor; in the group's own queue, its end.
    Group(Token, Group),
    /// A request that was taken back, whose bytes are still to be stepped over.
    Gone(usize),
}

#[derive(Debug)]
pub(super) struct Queue<X> {
    entries: VecDeque<Entry<X>>,
    /// The entries' bytes, in their order.
    bytes: BytesMut,
    /// Number of the first entry.
    front: u64,
    /// Entries that are not gone.
    live: usize,
    /// Bytes of gone entries.
    gone_bytes: usize,
}

impl<X> Queue<X> {
    pub(super) fn new() -> Queue<X> {
        Queue { entries: VecDeque::new(), bytes: BytesMut::new(), front: 0, live: 0, gone_bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(super) fn live(&self) -> usize {
        self.live
    }

    pub(super) fn bytes_len(&self) -> usize {
        self.bytes.len() - self.gone_bytes
    }

    pub(super) fn encode<E>(
        &mut self,
        encode: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<usize, E> {
        let before = self.bytes.len();
        match encode(&mut self.bytes) {
            Ok(()) => Ok(self.bytes.len() - before),
            Err(error) => {
                self.bytes.truncate(before);
                Err(error)
            }
        }
    }

    /// Appends an entry whose bytes were just encoded, and says its number.
    pub(super) fn push(&mut self, entry: Entry<X>) -> u64 {
        self.live += 1;
        self.entries.push_back(entry);
        self.front + self.entries.len() as u64 - 1
    }

    /// Steps over the gaps at the front.
    pub(super) fn skip_gone(&mut self) {
        while let Some(Entry::Gone(len)) = self.entries.front() {
            self.bytes.advance(*len);
            self.gone_bytes -= *len;
            self.entries.pop_front();
            self.front += 1;
        }
    }

    /// The first entry that isn't gone.
    pub(super) fn first(&mut self) -> Option<&Entry<X>> {
        self.skip_gone();
        self.entries.front()
    }

    /// Takes the first entry. The bytes of a request are at the front of what
    /// [`take_bytes`](Self::take_bytes) shows, and the caller takes them next.
    pub(super) fn pop(&mut self) -> Option<Entry<X>> {
        self.skip_gone();
        let entry = self.entries.pop_front()?;
        self.front += 1;
        self.live -= 1;
        Some(entry)
    }

    /// Hands the next `len` bytes to `copy` and drops them.
    pub(super) fn take_bytes(&mut self, len: usize, copy: impl FnOnce(&[u8])) {
        copy(&self.bytes[..len]);
        self.bytes.advance(len);
    }

    /// Takes an isolated request back; one of a longer segment stays, since a segment is sent whole
    /// or not at all. `mid_segment`: the first entry continues a segment that is on the wire.
    pub(super) fn remove(&mut self, number: u64, mid_segment: bool) -> Option<Token> {
        let index = usize::try_from(number.checked_sub(self.front)?).ok()?;
        let after_member = match index.checked_sub(1) {
            None => mid_segment,
            Some(before) => matches!(self.entries.get(before),
                Some(Entry::Request(slot)) if slot.sync == SyncPoint::Member),
        };
        match self.entries.get(index)? {
            Entry::Request(slot) if slot.sync == SyncPoint::Own && !after_member => {
                self.remove_at(index)
            }
            _ => None,
        }
    }

    pub(super) fn remove_group(&mut self, group: Group) {
        let place =
            self.entries.iter().position(|e| matches!(e, Entry::Group(_, g) if *g == group));
        if let Some(index) = place {
            self.remove_at(index);
        }
    }

    fn remove_at(&mut self, index: usize) -> Option<Token> {
        let (token, len) = match std::mem::replace(&mut self.entries[index], Entry::Gone(0)) {
            Entry::Request(slot) => (Some(slot.token), slot.len),
            Entry::Group(token, _) => (Some(token), 0),
            Entry::Gone(len) => (None, len),
        };
        self.entries[index] = Entry::Gone(len);
        if token.is_some() {
            self.gone_bytes += len;
            self.live -= 1;
        }
        token
    }

    /// Puts bytes behind the last request; false if there is none.
    pub(super) fn append_to_last(&mut self, bytes: &[u8]) -> bool {
        match self.entries.back_mut() {
            Some(Entry::Request(slot)) => {
                slot.len += bytes.len();
                self.bytes.extend_from_slice(bytes);
                true
            }
            _ => false,
        }
    }

    /// Takes out the segments with a request whose deadline has come, hands each token and what is
    /// known of its effect to `expired`, and returns the earliest deadline among the rest.
    ///
    /// A segment is taken out whole. The rest of one that is partly sent already (`mid_segment`)
    /// can't be: the callers of its late requests are told, and it goes on.
    pub(super) fn expire(
        &mut self,
        now: Time,
        mid_segment: bool,
        mut expired: impl FnMut(Token, Outcome),
    ) -> Time {
        let mut earliest = Time::NEVER;
        let (mut start, mut sent, mut late) = (0, mid_segment, false);
        for index in 0..self.entries.len() {
            let Entry::Request(slot) = &mut self.entries[index] else {
                start = index + 1;
                continue;
            };
            let ends_segment = slot.sync != SyncPoint::Member;
            if slot.deadline > now {
                earliest = earliest.min(slot.deadline);
            } else if sent {
                expired(slot.token, Outcome::Unknown);
                slot.token = Token::DISCARD;
                slot.deadline = Time::NEVER;
            } else {
                late = true;
            }
            if ends_segment {
                if late {
                    for gone in start..=index {
                        if let Some(token) = self.remove_at(gone) {
                            expired(token, Outcome::NotSent);
                        }
                    }
                }
                (start, sent, late) = (index + 1, false, false);
            }
        }
        if late {
            // The end of this segment was not submitted yet, so it can't be taken out.
            for entry in self.entries.range_mut(start..) {
                let Entry::Request(slot) = entry else { continue };
                if slot.deadline <= now {
                    expired(slot.token, Outcome::Unknown);
                    slot.token = Token::DISCARD;
                    slot.deadline = Time::NEVER;
                }
            }
        }
        earliest
    }

    /// Empties the queue and names everyone in it.
    pub(super) fn drain_tokens(&mut self) -> impl Iterator<Item = Token> + use<X> {
        self.bytes = BytesMut::new();
        self.gone_bytes = 0;
        self.live = 0;
        self.front += self.entries.len() as u64;
        std::mem::take(&mut self.entries).into_iter().filter_map(|entry| match entry {
            Entry::Request(slot) => Some(slot.token),
            Entry::Group(token, _) => Some(token),
            Entry::Gone(_) => None,
        })
    }
}

/// Callers that wait for room in the queue. Their requests stay with them.
#[derive(Debug)]
pub(super) struct Waiting {
    callers: VecDeque<Option<(Token, Time)>>,
    front: u64,
    live: usize,
}

impl Waiting {
    pub(super) fn new() -> Waiting {
        Waiting { callers: VecDeque::new(), front: 0, live: 0 }
    }

    pub(super) fn live(&self) -> usize {
        self.live
    }

    pub(super) fn push(&mut self, token: Token, deadline: Time) -> u64 {
        self.live += 1;
        self.callers.push_back(Some((token, deadline)));
        self.front + self.callers.len() as u64 - 1
    }

    pub(super) fn pop(&mut self) -> Option<(Token, Time)> {
        while let Some(place) = self.callers.pop_front() {
            self.front += 1;
            if place.is_some() {
                self.live -= 1;
                return place;
            }
        }
        None
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Token> {
        let index = usize::try_from(number.checked_sub(self.front)?).ok()?;
        let (token, _) = self.callers.get_mut(index)?.take()?;
        self.live -= 1;
        Some(token)
    }

    pub(super) fn expire(&mut self, now: Time, mut expired: impl FnMut(Token)) -> Time {
        let mut earliest = Time::NEVER;
        for place in &mut self.callers {
            match *place {
                Some((token, deadline)) if deadline <= now => {
                    expired(token);
                    *place = None;
                    self.live -= 1;
                }
                Some((_, deadline)) => earliest = earliest.min(deadline),
                None => {}
            }
        }
        earliest
    }
}
