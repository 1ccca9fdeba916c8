//! What is on its way: the ring of requests, and their bytes until they are written.

use std::collections::VecDeque;

use bytes::{Buf, BytesMut};

use crate::{Request, SyncPoint, Time, Token};

/// One request's place in the order of replies. It leaves the ring when its reply is complete,
/// never earlier: a caller that lost interest only loses its token.
#[derive(Debug)]
pub(super) struct Slot<X> {
    pub(super) token: Token,
    pub(super) expect: X,
    pub(super) sync: SyncPoint,
    pub(super) deadline: Time,
    /// Bytes of it on the wire, with a Flush that was put behind it.
    pub(super) len: usize,
    pub(super) again: bool,
    /// Whether its reply's bytes count against the window until its reader takes them.
    pub(super) grouped: bool,
}

impl<X> Slot<X> {
    pub(super) fn new(request: Request<X>) -> Slot<X> {
        Slot {
            token: request.token,
            expect: request.expect,
            sync: request.sync,
            deadline: request.deadline,
            len: 0,
            again: request.again && request.sync == SyncPoint::Own && request.group.is_none(),
            grouped: request.group.is_some(),
        }
    }
}

/// The ring and its bytes. Positions count bytes since the connection began.
#[derive(Debug)]
pub(super) struct Wire<X> {
    /// Unanswered requests in wire order; the first is the one whose reply is due.
    pub(super) ring: VecDeque<Slot<X>>,
    /// Invariant: the sum of `len` over the ring.
    pub(super) in_flight_bytes: usize,
    /// Bytes from position `buffer_start` on: what is unwritten, and what may be sent again.
    buffer: BytesMut,
    buffer_start: u64,
    written: u64,
    /// Position of the first byte of the ring's first request.
    front_start: u64,
    /// How many requests of the ring may be sent again, so that their bytes are kept.
    again_count: usize,
    /// Whether the last request on the wire leaves its segment open.
    pub(super) mid_segment: bool,
    /// Requests and bytes since the last sync point or Flush on the wire.
    pub(super) unflushed: usize,
    pub(super) unflushed_bytes: usize,
}

impl<X> Wire<X> {
    pub(super) fn new() -> Wire<X> {
        Wire {
            ring: VecDeque::new(),
            in_flight_bytes: 0,
            buffer: BytesMut::new(),
            buffer_start: 0,
            written: 0,
            front_start: 0,
            again_count: 0,
            mid_segment: false,
            unflushed: 0,
            unflushed_bytes: 0,
        }
    }

    pub(super) fn unwritten(&self) -> &[u8] {
        &self.buffer[(self.written - self.buffer_start) as usize..]
    }

    /// Waiting for the peer begins when the first byte does.
    pub(super) fn begin(&self, now: Time, last_progress: &mut Time) {
        if self.unwritten().is_empty() {
            *last_progress = now;
        }
    }

    /// Writes a request's bytes; on an error takes them back.
    pub(super) fn encode<E>(
        &mut self,
        encode: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<usize, E> {
        let before = self.buffer.len();
        match encode(&mut self.buffer) {
            Ok(()) => Ok(self.buffer.len() - before),
            Err(error) => {
                self.buffer.truncate(before);
                Err(error)
            }
        }
    }

    /// Writes bytes that were encoded before.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Writes a request's bytes with an encoder that can't fail, and says how many.
    pub(super) fn extend_with(&mut self, encode: impl FnOnce(&mut BytesMut)) -> usize {
        let before = self.buffer.len();
        encode(&mut self.buffer);
        self.buffer.len() - before
    }

    /// Gives a slot to the request whose bytes were just encoded.
    pub(super) fn push(&mut self, slot: Slot<X>) {
        self.in_flight_bytes += slot.len;
        self.again_count += usize::from(slot.again);
        self.mid_segment = slot.sync == SyncPoint::Member;
        if self.mid_segment {
            self.unflushed += 1;
            self.unflushed_bytes += slot.len;
        } else {
            self.flushed();
        }
        self.ring.push_back(slot);
    }

    /// Puts bytes that are not a request of their own behind the last request. Without a request
    /// on its way there is nothing that they could ask for, and they are left out.
    pub(super) fn append_to_last(&mut self, bytes: &[u8]) {
        if let Some(last) = self.ring.back_mut() {
            self.buffer.extend_from_slice(bytes);
            last.len += bytes.len();
            self.in_flight_bytes += bytes.len();
            self.flushed();
        }
    }

    /// Bytes that get no answer: a goodbye.
    pub(super) fn append_unanswered(&mut self, bytes: &[u8]) {
        debug_assert!(self.ring.is_empty());
        self.buffer.extend_from_slice(bytes);
        self.front_start += bytes.len() as u64;
    }

    fn flushed(&mut self) {
        self.unflushed = 0;
        self.unflushed_bytes = 0;
    }

    pub(super) fn written(&mut self, bytes: usize) {
        self.written += bytes as u64;
        assert!(
            self.written <= self.buffer_start + self.buffer.len() as u64,
            "the host reported more bytes than there were"
        );
        self.release();
    }

    /// Takes the first request out of the ring: its reply is complete.
    pub(super) fn answered(&mut self) -> Option<Slot<X>> {
        let slot = self.ring.pop_front()?;
        self.in_flight_bytes -= slot.len;
        self.front_start += slot.len as u64;
        self.again_count -= usize::from(slot.again);
        self.release();
        Some(slot)
    }

    /// The bytes of the first request, if they were kept.
    pub(super) fn front_bytes(&self) -> &[u8] {
        let Some(slot) = self.ring.front() else { return &[] };
        let start = (self.front_start - self.buffer_start) as usize;
        &self.buffer[start..start + slot.len]
    }

    /// Whether any byte of the first request was handed over.
    pub(super) fn front_touched(&self) -> bool {
        self.front_start < self.written
    }

    /// Bytes leave the buffer when they are written, unless a request on its way may have to be
    /// sent again: then they stay until it is answered. Either way they are within the window.
    fn release(&mut self) {
        let keep_from = match self.again_count {
            0 => self.written,
            _ => self.front_start.min(self.written),
        };
        if keep_from > self.buffer_start {
            self.buffer.advance((keep_from - self.buffer_start) as usize);
            self.buffer_start = keep_from;
        }
    }

    pub(super) fn clear(&mut self) {
        self.buffer = BytesMut::new();
        self.buffer_start = self.written;
        self.front_start = self.written;
    }
}
