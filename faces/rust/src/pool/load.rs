//! The load of a connection, as the policy asks for it. The connection publishes it, so that nobody
//! has to lock the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_engine::pool::{Load, Workload};

use super::hints::Hints;

/// The load of one connection. Its fields are read one by one, so a reader may see one that is
/// newer than another; at worst it places a statement less well.
#[derive(Debug)]
pub(crate) struct LoadCell {
    unanswered: AtomicUsize,
    unanswered_bytes: AtomicUsize,
    since: AtomicU64,
    /// How long the server is expected to take for them, in nanoseconds.
    expected: AtomicU64,
    /// How many of them must have nothing placed behind them.
    unsure: AtomicUsize,
    /// How many of them may wait for a lock.
    locking: AtomicUsize,
    /// How many of those are never taken away.
    staying: AtomicUsize,
    /// Whether it takes nothing, since an open pipeline holds the connection.
    held: AtomicBool,
    /// About how long a round trip takes, in nanoseconds.
    trip: AtomicU64,
    hints: Arc<Hints>,
}

impl LoadCell {
    pub(crate) fn new(hints: Arc<Hints>, now: Time, trip: Duration) -> Arc<LoadCell> {
        Arc::new(LoadCell {
            unanswered: AtomicUsize::new(0),
            unanswered_bytes: AtomicUsize::new(0),
            since: AtomicU64::new(now.as_nanos()),
            expected: AtomicU64::new(0),
            unsure: AtomicUsize::new(0),
            locking: AtomicUsize::new(0),
            staying: AtomicUsize::new(0),
            held: AtomicBool::new(false),
            trip: AtomicU64::new(u64::try_from(trip.as_nanos()).unwrap_or(0)),
            hints,
        })
    }

    /// Sets the work of a connection and, if a reply was completed, when.
    pub(crate) fn set(&self, unanswered: usize, bytes: usize, moved: Option<Time>) {
        if self.unanswered.load(Ordering::Relaxed) != unanswered {
            self.unanswered.store(unanswered, Ordering::Release);
        }
        self.unanswered_bytes.store(bytes, Ordering::Relaxed);
        if let Some(now) = moved {
            let trip = if unanswered == 0 { Duration::ZERO } else { self.trip() };
            self.since.store(now.after(trip).as_nanos(), Ordering::Relaxed);
        }
    }

    /// Sets how long that work is expected to take.
    pub(crate) fn expect(&self, workload: &Workload) {
        let expected = u64::try_from(workload.expected().as_nanos()).unwrap_or(u64::MAX);
        self.expected.store(expected, Ordering::Relaxed);
        self.unsure.store(workload.unsure(), Ordering::Relaxed);
        self.locking.store(workload.locking(), Ordering::Relaxed);
        self.staying.store(workload.staying(), Ordering::Relaxed);
    }

    /// Sets whether an open pipeline holds the connection. Returns whether one has just let go.
    pub(crate) fn hold(&self, held: bool) -> bool {
        let was_held = self.held.load(Ordering::Relaxed);
        if was_held != held {
            self.held.store(held, Ordering::Release);
        }
        was_held && !held
    }

    /// The first request since an idle time was submitted.
    pub(crate) fn begin(&self, now: Time) {
        self.since.store(now.after(self.trip()).as_nanos(), Ordering::Relaxed);
    }

    /// A statement took this long; a round trip takes no longer.
    pub(crate) fn took(&self, time: Duration) {
        if time < self.trip() {
            self.trip.store(u64::try_from(time.as_nanos()).unwrap_or(0), Ordering::Relaxed);
        }
    }

    fn trip(&self) -> Duration {
        Duration::from_nanos(self.trip.load(Ordering::Relaxed))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn get(&self) -> Load {
        Load {
            unanswered: self.unanswered.load(Ordering::Acquire),
            unanswered_bytes: self.unanswered_bytes.load(Ordering::Relaxed),
            since: Time::from_nanos(self.since.load(Ordering::Relaxed)),
            // Requests beyond the window wait in the queue of the connection.
            room: if self.held.load(Ordering::Acquire) { 0 } else { usize::MAX },
            expected: Duration::from_nanos(self.expected.load(Ordering::Relaxed)),
            unsure: self.unsure.load(Ordering::Relaxed),
            locking: self.locking.load(Ordering::Relaxed),
            staying: self.staying.load(Ordering::Relaxed),
            trip: self.trip(),
        }
    }

    /// Whether somebody waits who could use the connection.
    pub(crate) fn is_wanted(&self) -> bool {
        self.hints.waiting() > 0
    }
}
