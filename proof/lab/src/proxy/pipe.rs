//! One direction of one connection: reads from its source, holds the bytes until their time, writes
//! to its destination.

use std::io::IoSlice;

use super::config::{self, Link};
use super::faults::Faults;
use super::queue::{End, ReleaseQueue};
use super::recording::{Passage, Recording};
use super::rope::{Pool, Rope};
use super::socket::{ReadOutcome, Socket};

/// Bytes on their way in one direction.
pub(super) struct Pipe {
    queue: ReleaseQueue,
    rope: Rope,
    pub(super) faults: Faults,
    buffer_max: usize,
    /// How the source ended, once that is known; nothing more comes.
    source_end: Option<End>,
    /// The destination is gone: what comes is read and dropped.
    discarding: bool,
    recording: Option<Recording>,
    /// Bytes delivered since the connection began, or since the last mark.
    pub(super) delivered: u64,
}

impl Pipe {
    pub(super) fn new(link: &Link, seed: u64, buffer_max: Option<usize>, faults: Faults) -> Self {
        Pipe {
            queue: ReleaseQueue::new(link, seed),
            rope: Rope::default(),
            faults,
            buffer_max: config::buffer_max(buffer_max, link),
            source_end: None,
            discarding: false,
            recording: None,
            delivered: 0,
        }
    }

    pub(super) fn set_link(&mut self, link: &Link, buffer_max: Option<usize>) {
        self.queue.set_link(link);
        self.buffer_max = config::buffer_max(buffer_max, link);
    }

    /// Reads what the source has, up to the byte cap and [`READ_MAX`]. Returns the number of bytes
    /// read.
    pub(super) fn fill(&mut self, source: &mut Socket, now_ns: u64, pool: &mut Pool) -> usize {
        let mut total = 0;
        while self.can_fill(source) && total < READ_MAX {
            let room = self.buffer_max.saturating_sub(self.queue.queued()).min(READ_MAX - total);
            let spare = self.rope.spare(pool, room);
            match source.read(spare) {
                ReadOutcome::Bytes(bytes) => {
                    total += bytes;
                    if !self.discarding {
                        if let Some(recording) = &mut self.recording {
                            recording.left(now_ns, &spare[..bytes]);
                        }
                        self.rope.commit(bytes);
                        self.queue.push(now_ns, bytes);
                    }
                }
                ReadOutcome::Eof => self.source_ends(now_ns, End::Eof),
                ReadOutcome::Reset => self.source_ends(now_ns, End::Reset),
                ReadOutcome::WouldBlock => {}
            }
        }
        self.rope.trim(pool);
        total
    }

    /// The bytes of the last [`fill`](Self::fill), which returned their number. There are none if
    /// the destination is gone.
    pub(super) fn filled(&self, bytes: usize) -> impl Iterator<Item = &[u8]> {
        self.rope.back(bytes)
    }

    /// Writes the bytes that are due, in [`WRITES_MAX`] writes at most. Returns the number of bytes
    /// written.
    pub(super) fn drain(
        &mut self,
        destination: &mut Socket,
        now_ns: u64,
        pool: &mut Pool,
    ) -> usize {
        let mut total = 0;
        for _ in 0..WRITES_MAX {
            let bytes = self.faults.allowed(self.queue.due(now_ns));
            if bytes == 0 || !destination.writable {
                break;
            }
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.rope.front(bytes, &mut slices);
            let written = destination.write(&slices[..count]);
            if destination.broken {
                self.discard(pool);
                break;
            }
            self.rope.consume(written, pool);
            self.queue.delivered(written);
            self.faults.delivered(written);
            total += written;
        }
        self.delivered += total as u64;
        if let Some(recording) = &mut self.recording {
            recording.arrived(now_ns, total);
        }
        total
    }

    /// Records what leaves from now on.
    pub(super) fn record(&mut self, recording: Recording) {
        self.recording = Some(recording.behind(self.queue.queued()));
    }

    /// The recorded passages that have arrived. This ends the recording.
    pub(super) fn recorded(&mut self) -> impl Iterator<Item = Passage> + use<> {
        self.recording.take().into_iter().flat_map(Recording::end)
    }

    /// The end of this direction, once its time has come and all bytes before it are delivered.
    pub(super) fn take_end(&mut self, now_ns: u64) -> Option<End> {
        if self.faults.stalled() { None } else { self.queue.take_end(now_ns) }
    }

    /// The source ended at `now_ns`; the destination learns of it after the delay.
    pub(super) fn source_ends(&mut self, now_ns: u64, end: End) {
        if self.source_end != Some(End::Reset) {
            self.source_end = Some(end);
            self.queue.push_end(now_ns, end);
        }
    }

    /// The source is known to be broken. Where its end of stream was read already, this is a reset
    /// behind it; otherwise reading goes on and finds the reset after the last byte.
    pub(super) fn source_broke(&mut self, now_ns: u64) {
        if self.source_ended() {
            self.source_ends(now_ns, End::Reset);
        }
    }

    pub(super) fn source_ended(&self) -> bool {
        self.source_end.is_some()
    }

    /// Drops what is on the line and whatever comes.
    pub(super) fn discard(&mut self, pool: &mut Pool) {
        self.discarding = true;
        self.queue.discard();
        self.rope.clear(pool);
    }

    /// Whether bytes or an end are due at `now_ns` and may be delivered.
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        self.faults.allowed(self.queue.due(now_ns)) > 0
    }

    /// Whether bytes were read and not delivered yet.
    pub(super) fn is_carrying(&self) -> bool {
        self.queue.queued() > 0
    }

    /// Whether a read from the source would be of use now.
    pub(super) fn can_fill(&self, source: &Socket) -> bool {
        source.readable && !self.source_ended() && self.queue.queued() < self.buffer_max
    }

    /// When something is to be delivered, if nothing but time is in the way; 0 means now.
    pub(super) fn next_release_ns(&self, destination: &Socket) -> Option<u64> {
        if self.faults.stalled() || !destination.writable {
            return None;
        }
        self.queue.next_release_ns()
    }
}

/// Bytes read from one source before others get their turn: 1 MiB.
const READ_MAX: usize = 1 << 20;

/// Writes to one destination before others get their turn; reached with one byte at a time.
const WRITES_MAX: usize = 256;

/// Chunks per write: 16, which is 2 MiB.
const SLICES_MAX: usize = 16;
