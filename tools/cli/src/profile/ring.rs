//! Between the splices and the analysis: a queue with a limit, which never makes a splice wait.
//!
//! A tap copies what passes into the queue. Where there is no room, it counts what it leaves out and
//! goes on; the analysis learns of that with the next piece of the same connection. Nobody is woken
//! for a piece: the analysis looks by itself every few milliseconds, since a wake-up would cost the
//! splice more than the copy does. Only a queue that is half full wakes it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use onetrip_lab::proxy::{Direction, Tap};
use onetrip_profile::{Nanos, Side};

/// Something that happened on a connection, for the analysis.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) connection: u64,
    /// Pieces of this connection that were left out before this event.
    pub(super) left_out: u64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// The upstream answered; connecting took so long.
    Opened(Duration),
    Passed(Nanos, Side, Box<[u8]>),
    Closed,
}

/// The end of the queue that taps write to.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    events: SyncSender<Event>,
    shared: Arc<Shared>,
}

/// The end of the queue that the analysis reads from.
#[derive(Debug)]
pub(super) struct Events {
    events: Receiver<Event>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    bytes_max: usize,
    bytes: AtomicUsize,
    len: AtomicUsize,
    /// Nobody reads any more: the analysis has failed.
    is_over: AtomicBool,
    lost_pieces: AtomicU64,
    lost_bytes: AtomicU64,
    reader: OnceLock<Thread>,
}

/// What was not analysed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) pieces: u64,
    pub(super) bytes: u64,
}

/// Events in the queue: 65,536, which take 4 MiB beside their bytes.
const LEN_MAX: usize = 1 << 16;

/// Of these, pieces leave so many to connections that open and close.
const RESERVE: usize = 1 << 13;

/// A queue for this many bytes of pieces.
pub(super) fn ring(bytes_max: usize) -> (Ring, Events) {
    let (sender, receiver) = sync_channel(LEN_MAX);
    let shared = Arc::new(Shared { bytes_max, ..Shared::default() });
    (Ring { events: sender, shared: shared.clone() }, Events { events: receiver, shared })
}

impl Ring {
    /// For one of the splices, by a number of its own from 0 to 255.
    pub(super) fn tap(&self, splice: u8) -> Arc<dyn Tap> {
        let left_out = Mutex::default();
        Arc::new(RingTap { ring: self.clone(), splice, has_left_out: false.into(), left_out })
    }

    /// What was not analysed so far.
    pub(super) fn lost(&self) -> Lost {
        Lost {
            pieces: self.shared.lost_pieces.load(Ordering::Relaxed),
            bytes: self.shared.lost_bytes.load(Ordering::Relaxed),
        }
    }

    fn push(&self, event: Event, room: usize) -> Result<(), ()> {
        let shared = &*self.shared;
        let bytes = event.bytes();
        let held = shared.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let len = shared.len.fetch_add(1, Ordering::Relaxed) + 1;
        let fits = held <= shared.bytes_max && len <= room;
        let pushed = fits && self.events.try_send(event).is_ok();
        if !pushed {
            shared.bytes.fetch_sub(bytes, Ordering::Relaxed);
            shared.len.fetch_sub(1, Ordering::Relaxed);
        }
        let is_half_full = held - bytes < shared.bytes_max / 2 && held >= shared.bytes_max / 2;
        if (is_half_full || len == room / 2)
            && let Some(reader) = shared.reader.get()
        {
            reader.unpark();
        }
        if pushed { Ok(()) } else { Err(()) }
    }
}

impl Event {
    fn bytes(&self) -> usize {
        match &self.what {
            What::Passed(_, _, bytes) => bytes.len(),
            _ => 0,
        }
    }
}

impl Events {
    /// The next event, if there is one now.
    pub(super) fn next(&self) -> Option<Event> {
        let event = self.events.try_recv().ok()?;
        self.shared.bytes.fetch_sub(event.bytes(), Ordering::Relaxed);
        self.shared.len.fetch_sub(1, Ordering::Relaxed);
        Some(event)
    }

    /// This thread will read, and may be woken.
    pub(super) fn read_here(&self) {
        let _ = self.shared.reader.set(std::thread::current());
    }

    /// Nobody will read any more. What is in the queue was not analysed, nor is what comes.
    pub(super) fn end(&self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        while let Some(event) = self.next() {
            if matches!(event.what, What::Passed(..)) {
                self.shared.lose(event.bytes());
            }
        }
    }
}

impl Shared {
    fn lose(&self, bytes: usize) {
        self.lost_pieces.fetch_add(1, Ordering::Relaxed);
        self.lost_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The tap of one splice. Its thread alone calls it, so the lock is free but for that.
#[derive(Debug)]
struct RingTap {
    ring: Ring,
    splice: u8,
    has_left_out: AtomicBool,
    /// Pieces that were left out and are still to be told, by connection.
    left_out: Mutex<HashMap<u64, u64>>,
}

impl RingTap {
    fn tell(&self, connection: u64, what: What, room: usize) {
        let connection = connection << 8 | u64::from(self.splice);
        let left_out = self.left_out_of(connection);
        let is_piece = matches!(what, What::Passed(..));
        let event = Event { connection, left_out, what };
        let bytes = event.bytes();
        if self.ring.push(event, room).is_err() && is_piece {
            self.ring.shared.lose(bytes);
            self.note_left_out(connection, left_out + 1);
        }
    }

    fn left_out_of(&self, connection: u64) -> u64 {
        if !self.has_left_out.load(Ordering::Relaxed) {
            return 0;
        }
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        let pieces = left_out.remove(&connection).unwrap_or(0);
        self.has_left_out.store(!left_out.is_empty(), Ordering::Relaxed);
        pieces
    }

    fn note_left_out(&self, connection: u64, pieces: u64) {
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        left_out.insert(connection, pieces);
        self.has_left_out.store(true, Ordering::Relaxed);
    }
}

impl Tap for RingTap {
    fn opened(&self, connection: u64, connecting: Duration) {
        if !self.ring.shared.is_over.load(Ordering::Relaxed) {
            self.tell(connection, What::Opened(connecting), LEN_MAX);
        }
    }

    fn passed(&self, connection: u64, direction: Direction, at_ns: u64, bytes: &[u8]) {
        if self.ring.shared.is_over.load(Ordering::Relaxed) {
            return self.ring.shared.lose(bytes.len());
        }
        let side = match direction {
            Direction::Up => Side::Client,
            Direction::Down => Side::Server,
        };
        self.tell(connection, What::Passed(at_ns, side, bytes.into()), LEN_MAX - RESERVE);
    }

    fn closed(&self, connection: u64) {
        if !self.ring.shared.is_over.load(Ordering::Relaxed) {
            self.tell(connection, What::Closed, LEN_MAX);
        }
    }
}
