//! Requests in flight: the ring of slots, and the requests' bytes until they are written.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::buffer::Buffer;
use crate::{Feed, Group, HEALS_MAX, Limits, Request, SyncPoint, Time, Token};

/// One request's place in the order of replies. It leaves the ring when its reply is complete,
/// never earlier. If its caller goes away, only the token is lost.
pub(super) struct Slot<X> {
    pub(super) token: Token,
    pub(super) expect: X,
    pub(super) deadline: Time,
    /// Its bytes on the wire, including a Flush that was put behind it.
    pub(super) len: usize,
    /// Whether it is the protocol's own request, which no caller hears of.
    pub(super) own: bool,
    /// How many of its first bytes the protocol wrote for this moment only.
    pub(super) front_len: usize,
    /// The group whose window its reply's bytes count against until their reader takes them.
    pub(super) group: Option<Group>,
    pub(super) sync: SyncPoint,
    /// Whether it stays in the queue even when its caller leaves.
    pub(super) pinned: bool,
    /// How many more times it is sent again if the server says that it never started.
    pub(super) again: u8,
    /// Whether it is sent again if the server skipped it because what the protocol wrote in front
    /// of it failed.
    pub(super) anew: bool,
    /// Whether it is sent again only if nothing was sent behind it.
    pub(super) in_order: bool,
    pub(super) feed: Feed,
    /// Whether untaken bytes of its reply stop reading.
    pub(super) metered: bool,
    /// Whether it was sent before, and the server said that it never started, or it was undone.
    pub(super) healed: bool,
    /// Whether the repair goes in front of it when it is sent again.
    pub(super) heals: bool,
    /// The length of the repair that was sent in front of it before.
    pub(super) heal_len: usize,
    /// Whether it is sent again if a cancel that was meant for another request hit it, or that took
    /// it away from those behind it.
    pub(super) resend: bool,
    /// How often that happened because the cancel was meant for another.
    pub(super) hits: u8,
    /// How often it was taken away from those behind it.
    pub(super) yields: u32,
    /// If it was taken away: it is not sent again before this moment.
    pub(super) paused_until: Time,
    /// If that moment has come: it is sent again when the queue has come to this number.
    pub(super) behind: Option<u64>,
    /// Whether it may share a sync point with neighbours that also have this set.
    pub(super) joins: bool,
    pub(super) own_way: bool,
    /// Its sync point was left out, because its shared-Sync group goes on behind it.
    pub(super) joined: bool,
    /// Whether it is cancelled at the server when its deadline passes.
    pub(super) cancel_late: bool,
    /// Whether its deadline has passed, so that nobody waits for it.
    pub(super) expired: bool,
    /// Whether its caller has gone, though he may still hear of its end.
    pub(super) gone: bool,
    /// If so, whether it may be cancelled for the sake of those behind it.
    pub(super) gives_way: bool,
    pub(super) want: Want,
}

/// Whether a request in flight is to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    No,
    /// If that harms no request behind it.
    Gently,
    /// Whatever is behind it, because all of that belongs to one caller.
    Anyway,
    /// It was to be cancelled, and that was tried or can't be done.
    Over,
    /// So that those behind it go on. It is sent again behind them, and its caller hears nothing.
    Yield,
    /// That was tried.
    Yielding,
}

impl Want {
    pub(super) fn is_open(self) -> bool {
        matches!(self, Want::Gently | Want::Anyway | Want::Yield)
    }

    /// Whether its caller wants it cancelled, or did.
    pub(super) fn is_of_caller(self) -> bool {
        matches!(self, Want::Gently | Want::Anyway | Want::Over)
    }
}

impl<X> Slot<X> {
    /// Whether its caller has given it up.
    pub(super) fn is_left(&self) -> bool {
        !self.own && (self.gone || self.expired || self.token == Token::DISCARD)
    }

    /// Whether somebody waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        !self.own && !self.is_left()
    }

    #[inline]
    pub(super) fn new(request: Request<X>, len: usize) -> Slot<X> {
        let alone = request.sync == SyncPoint::Own
            && request.group.is_none()
            && request.feed == Feed::Whole;
        let joins = request.joins
            && alone
            && request.token != Token::DISCARD
            && !(request.in_order || request.pinned || request.metered);
        Slot {
            token: request.token,
            expect: request.expect,
            deadline: request.deadline,
            len,
            own: false,
            front_len: 0,
            group: request.group,
            sync: request.sync,
            pinned: request.pinned,
            again: if request.again && alone { HEALS_MAX } else { 0 },
            anew: false,
            in_order: request.in_order,
            feed: request.feed,
            metered: request.metered,
            healed: false,
            heals: false,
            heal_len: 0,
            resend: (request.resend || joins) && alone,
            hits: 0,
            yields: 0,
            paused_until: Time::ZERO,
            behind: None,
            joins,
            own_way: request.own_way,
            joined: false,
            cancel_late: request.cancel_late,
            expired: false,
            gone: false,
            gives_way: false,
            want: Want::No,
        }
    }

    /// A request of the protocol's own. A cancel that was meant for another may hit it; it is then
    /// tried again.
    pub(super) fn of_protocol(expect: X, len: usize) -> Slot<X> {
        let slot = Slot::new(Request::isolated(Token::DISCARD, expect), len);
        Slot { own: true, expired: true, ..slot }
    }

    /// The protocol wrote something in front of it. If that fails, the server skips the whole
    /// segment, so the request can be sent again. It keeps its sync point to itself.
    #[cold]
    pub(super) fn guard(&mut self, front_len: usize) {
        self.front_len = front_len;
        self.joins = false;
        self.anew = self.sync == SyncPoint::Own && self.group.is_none() && self.feed == Feed::Whole;
    }

    /// Whether its bytes are kept until it is answered.
    #[inline]
    fn is_kept(&self) -> bool {
        self.again > 0 || self.anew || self.resend || self.joins
    }

    /// Whether it stands for itself, so that it can be sent on another connection if no byte of it
    /// left on this one. `behind_member`: it ends a longer segment. What was to be cancelled goes
    /// nowhere else.
    pub(super) fn is_movable(&self, behind_member: bool) -> bool {
        let alone = self.sync == SyncPoint::Own && !behind_member && self.group.is_none();
        let bound = self.pinned || self.in_order || self.joined || self.healed || self.own_way;
        let bound = bound || self.own || self.want != Want::No;
        alone && !bound && self.feed == Feed::Whole && self.token != Token::DISCARD
    }

    /// It is no longer to be taken away from those behind it, since it leaves the head by itself.
    pub(super) fn stay(&mut self) {
        if !self.want.is_of_caller() {
            self.want = Want::No;
        }
    }

    /// Its caller no longer waits. Returns the token, which the connection must still end.
    pub(super) fn forget(&mut self) -> Token {
        self.deadline = Time::NEVER;
        std::mem::replace(&mut self.token, Token::DISCARD)
    }
}

/// The ring and its bytes. Positions count bytes since the connection was opened.
pub(super) struct Wire<X> {
    /// Unanswered requests in wire order; the first is the one whose reply is due.
    ring: VecDeque<Slot<X>>,
    /// Invariant: the sum of `len` over the callers' requests in the ring.
    in_flight_bytes: usize,
    /// Invariant: the number of the protocol's own requests in the ring.
    own: usize,
    /// Invariant: the number of members in the ring, whose replies the server may keep back until
    /// the sync point of their segment.
    members: usize,
    /// Invariant: the number of fed requests in the ring, complete or not.
    fed: usize,
    /// Bytes from position `buffer_start` on: those unwritten, and those that may be sent again.
    buffer: Buffer,
    buffer_start: u64,
    written: u64,
    /// Position of the first byte of the ring's first request.
    front_start: u64,
    /// Whether the request in front of the ring's first one left their segment open.
    front_continues: bool,
    /// How many requests of the ring may be sent again, so that their bytes are kept.
    kept_count: usize,
    /// How many requests left the ring so far, which is the number of its first.
    answered: u64,
    /// Invariant: the number of requests in the ring that are to be cancelled.
    wanted: usize,
    shared_syncs: SharedSyncs,
    /// Whether the last request on the wire leaves its segment open.
    pub(super) mid_segment: bool,
    /// Requests and bytes since the last sync point or Flush on the wire.
    pub(super) unflushed: usize,
    pub(super) unflushed_bytes: usize,
}

/// The shared-Sync group at the front of the ring, and the one at its end; they may be the same.
struct SharedSyncs {
    sync: &'static [u8],
    len_max: usize,
    bytes_max: usize,
    /// How many requests at the front of the ring are answered and wait for their shared-Sync
    /// group's sync point, and their bytes.
    done: usize,
    done_bytes: usize,
    /// The last block of each of them.
    held: VecDeque<Bytes>,
    /// Requests and bytes of the group at the end; no requests if it takes no more.
    last: usize,
    last_bytes: usize,
}

impl<X> Wire<X> {
    pub(super) fn new(limits: &Limits, sync: &'static [u8]) -> Wire<X> {
        Wire {
            shared_syncs: SharedSyncs {
                sync,
                len_max: limits.shared_sync_max,
                bytes_max: limits.shared_sync_bytes_max,
                done: 0,
                done_bytes: 0,
                held: VecDeque::new(),
                last: 0,
                last_bytes: 0,
            },
            ring: VecDeque::new(),
            in_flight_bytes: 0,
            own: 0,
            members: 0,
            fed: 0,
            buffer: Buffer::new(),
            buffer_start: 0,
            written: 0,
            front_start: 0,
            front_continues: false,
            kept_count: 0,
            answered: 0,
            wanted: 0,
            mid_segment: false,
            unflushed: 0,
            unflushed_bytes: 0,
        }
    }

    // --- getters ---

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    /// The number of callers' requests in the ring.
    #[inline]
    pub(super) fn callers(&self) -> usize {
        self.ring.len() - self.own
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    #[inline]
    pub(super) fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes
    }

    #[inline]
    pub(super) fn members(&self) -> usize {
        self.members
    }

    #[inline]
    pub(super) fn fed(&self) -> usize {
        self.fed
    }

    /// The request whose reply is due.
    #[inline]
    pub(super) fn front(&self) -> Option<&Slot<X>> {
        self.ring.get(self.shared_syncs.done)
    }

    #[inline]
    pub(super) fn front_mut(&mut self) -> Option<&mut Slot<X>> {
        self.ring.get_mut(self.shared_syncs.done)
    }

    #[inline]
    pub(super) fn unwritten(&self) -> &[u8] {
        &self.buffer.as_slice()[(self.written - self.buffer_start) as usize..]
    }

    /// Position of the first byte of the request whose reply is due.
    #[inline]
    fn due_start(&self) -> u64 {
        self.front_start + self.shared_syncs.done_bytes as u64
    }

    /// Whether any byte of the request whose reply is due was handed over.
    #[inline]
    pub(super) fn front_touched(&self) -> bool {
        self.due_start() < self.written
    }

    /// Whether a reply to the request whose reply is due can have come. A request without bytes may
    /// be answered once everything before it was written.
    #[inline]
    pub(super) fn reply_is_due(&self) -> bool {
        match self.front() {
            Some(slot) if slot.len == 0 => self.due_start() <= self.written,
            Some(_) => self.front_touched(),
            None => false,
        }
    }

    /// Whether the request whose reply is due was written to its end.
    pub(super) fn front_is_written(&self) -> bool {
        self.front().is_some_and(|slot| self.due_start() + slot.len as u64 <= self.written)
    }

    /// The bytes of the first request, which may be sent again.
    pub(super) fn front_bytes(&self) -> &[u8] {
        let Some(slot) = self.ring.front() else { return &[] };
        debug_assert!(slot.is_kept(), "the bytes of other requests are not kept");
        let start = (self.front_start - self.buffer_start) as usize;
        &self.buffer.as_slice()[start + slot.front_len..start + slot.len]
    }

    /// The bytes of the first request, none of which was handed over, without what the protocol
    /// wrote for the moment only. `None` if it can't be sent on another connection.
    pub(super) fn unsent_bytes(&self) -> Option<&[u8]> {
        let slot = self.ring.front().filter(|slot| slot.is_movable(self.front_continues))?;
        let start = (self.front_start - self.buffer_start) as usize;
        self.buffer.as_slice().get(start + slot.front_len..start + slot.len)
    }

    /// The number of the first request: how many left the ring before it.
    #[inline]
    pub(super) fn front_number(&self) -> u64 {
        self.answered
    }

    /// How many requests are to be cancelled.
    #[inline]
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// The request at this place in the ring.
    pub(super) fn at(&self, index: usize) -> Option<&Slot<X>> {
        self.ring.get(index)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot<X>> {
        self.ring.iter()
    }

    /// The request with this token.
    pub(super) fn find(&mut self, token: Token) -> Option<&mut Slot<X>> {
        self.ring.iter_mut().find(|slot| slot.token == token)
    }

    /// The place of the request that ends the segment or the shared-Sync group of the one at
    /// `index`, if that request is in flight.
    pub(super) fn segment_end(&self, index: usize) -> Option<usize> {
        let ends = |slot: &Slot<X>| slot.sync != SyncPoint::Member && !slot.joined;
        (index..self.ring.len()).find(|&at| ends(&self.ring[at]))
    }

    /// The first and the last place of the shared-Sync group of the request at `index`. Both are
    /// `index` if it shares its sync point with none.
    pub(super) fn shared_sync_of(&self, index: usize) -> (usize, usize) {
        let is_joined = |at: usize| self.ring.get(at).is_some_and(|slot| slot.joined);
        let first = (0..index).rev().find(|&at| !is_joined(at)).map_or(0, |at| at + 1);
        let last = (index..self.ring.len()).find(|&at| !is_joined(at)).unwrap_or(index);
        (first, last)
    }

    /// Whether all requests up to this place were written to their end.
    pub(super) fn is_written_to(&self, index: usize) -> bool {
        let len: usize = self.ring.iter().take(index + 1).map(|slot| slot.len).sum();
        self.front_start + len as u64 <= self.written
    }

    // --- changes ---

    /// Sets whether the request at this place is to be cancelled. Returns its token.
    pub(super) fn want(&mut self, index: usize, want: Want) -> Token {
        let slot = &mut self.ring[index];
        self.wanted -= usize::from(slot.want.is_open());
        slot.want = want;
        self.wanted += usize::from(want.is_open());
        // No request may join one that is to be cancelled.
        self.shared_syncs.last = 0;
        slot.token
    }

    /// To note that callers have gone.
    pub(super) fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot<X>> {
        self.ring.iter_mut()
    }

    /// The stall timeout starts when the first unwritten byte is added.
    #[inline]
    pub(super) fn begin(&self, now: Time, last_progress: &mut Time) {
        if self.unwritten().is_empty() {
            *last_progress = now;
        }
    }

    /// Writes a request's bytes. On an error they are taken back.
    #[inline]
    pub(super) fn encode<E>(
        &mut self,
        encode: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<usize, E> {
        self.buffer.encode(encode)
    }

    /// Makes room for `len` more bytes; false if there is no memory for them.
    pub(super) fn make_room(&mut self, len: usize) -> bool {
        self.buffer.make_room(len)
    }

    /// Writes bytes that were encoded before.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
    }

    /// Gives a slot to the request whose bytes were just encoded.
    #[inline(always)]
    pub(super) fn push(&mut self, mut slot: Slot<X>) {
        // A request that ends a segment of several can't be sent again without the others.
        slot.again = if self.mid_segment { 0 } else { slot.again };
        slot.resend &= !self.mid_segment;
        slot.joins &= !self.mid_segment && slot.want == Want::No;
        self.join(&slot);
        match slot.own {
            true => self.own += 1,
            false => self.in_flight_bytes += slot.len,
        }
        self.kept_count += usize::from(slot.is_kept());
        self.wanted += usize::from(slot.want.is_open());
        self.mid_segment = slot.sync == SyncPoint::Member;
        self.members += usize::from(self.mid_segment);
        self.fed += usize::from(slot.feed != Feed::Whole);
        if self.mid_segment {
            self.unflushed += 1;
            self.unflushed_bytes += slot.len;
        } else {
            self.flushed();
        }
        self.ring.push_back(slot);
    }

    /// Writes more bytes of the last request. On an error they are taken back.
    pub(super) fn encode_more<E>(
        &mut self,
        encode: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        let len = self.buffer.encode(encode)?;
        if let Some(last) = self.ring.back_mut() {
            last.len += len;
            self.in_flight_bytes += len;
        }
        Ok(())
    }

    /// Puts a Flush behind the last request. Without a request in flight there is nothing to ask
    /// for, and no Flush is written.
    pub(super) fn flush(&mut self, flush: &[u8]) {
        if let Some(last) = self.ring.back_mut() {
            self.buffer.extend(flush);
            last.len += flush.len();
            self.in_flight_bytes += flush.len();
            self.flushed();
        }
    }

    /// Appends bytes that get no answer: a goodbye.
    pub(super) fn append_unanswered(&mut self, bytes: &[u8]) {
        debug_assert!(self.ring.is_empty());
        self.buffer.extend(bytes);
        self.front_start += bytes.len() as u64;
    }

    fn flushed(&mut self) {
        self.unflushed = 0;
        self.unflushed_bytes = 0;
    }

    #[inline]
    pub(super) fn written(&mut self, bytes: usize) {
        assert!(bytes <= self.unwritten().len(), "the host reported more bytes than there were");
        self.written += bytes as u64;
        self.release();
    }

    /// Takes the first request out of the ring: its reply is complete.
    #[inline(always)]
    pub(super) fn answered(&mut self) -> Option<Slot<X>> {
        let slot = self.ring.pop_front()?;
        match slot.own {
            true => self.own -= 1,
            false => self.in_flight_bytes -= slot.len,
        }
        self.front_start += slot.len as u64;
        self.kept_count -= usize::from(slot.is_kept());
        self.wanted -= usize::from(slot.want.is_open());
        self.answered += 1;
        self.front_continues = slot.sync == SyncPoint::Member;
        self.members -= usize::from(self.front_continues);
        self.fed -= usize::from(slot.feed != Feed::Whole);
        self.release();
        Some(slot)
    }

    /// Ends the wait of each caller whose deadline has come, and returns the earliest other
    /// deadline. Such a request is not sent again, since nobody would hear of it. It is marked if
    /// it is to be cancelled at its deadline.
    pub(super) fn expire(&mut self, now: Time, mut expired: impl FnMut(usize, Token)) -> Time {
        let mut earliest = Time::NEVER;
        for (index, slot) in self.ring.iter_mut().enumerate() {
            if slot.deadline <= now {
                let kept = slot.is_kept();
                slot.gives_way = slot.resend || slot.cancel_late;
                (slot.again, slot.anew, slot.resend) = (0, false, false);
                // A request that joins others is kept because of them.
                self.kept_count -= usize::from(kept && !slot.is_kept());
                slot.expired = true;
                if slot.cancel_late && slot.want == Want::No {
                    slot.want = Want::Gently;
                    self.wanted += 1;
                }
                expired(index, slot.forget());
            } else {
                earliest = earliest.min(slot.deadline);
            }
        }
        self.release();
        earliest
    }

    /// Bytes leave the buffer when they are written. If a request in flight may have to be sent
    /// again, they stay until it is answered. The window bounds them in both cases.
    #[inline]
    fn release(&mut self) {
        let keep_from = match self.kept_count {
            0 => self.written,
            _ => self.front_start.min(self.written),
        };
        if keep_from > self.buffer_start {
            self.buffer.advance((keep_from - self.buffer_start) as usize);
            self.buffer_start = keep_from;
        }
    }

    // --- shared-Sync groups ---

    /// Lets a request whose bytes were just encoded share the sync point of the last one, if both
    /// join others and nothing of that sync point was written. The sync point of the last one is
    /// then cut out.
    #[inline]
    fn join(&mut self, slot: &Slot<X>) {
        let SharedSyncs { sync, len_max, bytes_max, last, last_bytes, .. } = &mut self.shared_syncs;
        if !slot.joins {
            *last = 0;
            return;
        }
        let from = self.buffer.len() - slot.len;
        let unwritten = self.buffer.len() - (self.written - self.buffer_start) as usize;
        let open = (1..*len_max).contains(last)
            && *last_bytes + slot.len <= *bytes_max
            && unwritten >= slot.len + sync.len()
            && !sync.is_empty()
            && self.buffer.as_slice()[..from].ends_with(sync);
        match self.ring.back_mut() {
            Some(before) if open => {
                before.joined = true;
                before.len -= sync.len();
                self.in_flight_bytes -= sync.len();
                self.buffer.cut_out(from - sync.len(), sync.len());
                (*last, *last_bytes) = (*last + 1, *last_bytes + slot.len);
            }
            _ => (*last, *last_bytes) = (1, slot.len),
        }
    }

    /// Whether the request whose reply is due shares its sync point with others.
    #[inline]
    pub(super) fn in_shared_sync(&self) -> bool {
        self.shared_syncs.done > 0 || self.front().is_some_and(|slot| slot.joined)
    }

    /// How many answered requests before it share its sync point.
    #[inline]
    pub(super) fn done(&self) -> usize {
        self.shared_syncs.done
    }

    /// The request whose reply was due is answered, and waits for the sync point of its shared-Sync
    /// group. `block` is the last part of its reply.
    #[inline]
    pub(super) fn hold(&mut self, block: Bytes) {
        self.shared_syncs.held.push_back(block);
        self.pass();
    }

    /// Goes on to the last request of the shared-Sync group at the front, which answers for all. No
    /// request may join the group any more.
    pub(super) fn pass_shared_sync(&mut self) {
        self.shared_syncs.held.clear();
        while self.front().is_some_and(|slot| slot.joined) {
            self.pass();
        }
        if self.shared_syncs.done + 1 == self.ring.len() {
            self.shared_syncs.last = 0;
        }
    }

    /// The head was answered, so no request may join it any more.
    #[inline]
    pub(super) fn bar_joining(&mut self) {
        if self.shared_syncs.done + 1 == self.ring.len() {
            self.shared_syncs.last = 0;
        }
    }

    #[inline]
    fn pass(&mut self) {
        if let Some(slot) = self.front() {
            self.shared_syncs.done_bytes += slot.len;
            self.shared_syncs.done += 1;
        }
    }

    /// Goes back to the first request of the shared-Sync group at the front. Returns the last block
    /// of each that was answered.
    pub(super) fn rewind(&mut self) -> VecDeque<Bytes> {
        (self.shared_syncs.done, self.shared_syncs.done_bytes) = (0, 0);
        std::mem::take(&mut self.shared_syncs.held)
    }

    /// Takes the first request of a shared-Sync group that succeeded, with the last part of its
    /// reply.
    #[inline]
    pub(super) fn next_done(&mut self) -> Option<(Slot<X>, Bytes)> {
        let block = self.shared_syncs.held.pop_front()?;
        let slot = self.answered()?;
        self.shared_syncs.done -= 1;
        self.shared_syncs.done_bytes -= slot.len;
        Some((slot, block))
    }

    /// Drops what was not written.
    pub(super) fn clear(&mut self) {
        self.buffer = Buffer::new();
        self.buffer_start = self.written;
        self.front_start = self.written;
    }
}
