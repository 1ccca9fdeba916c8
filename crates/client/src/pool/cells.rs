//! What threads find without the pool's lock: the list of shared connections, and connections that
//! sessions left for the next one. Threads are spread over shards, so that they seldom meet.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onetrip_engine::Time;

use crate::core::Connection;

/// How long a connection stays in a cell before the pool gets it, which closes it if nobody needs it.
pub(super) const PARKED_MAX: Duration = Duration::from_secs(1);

/// Connections that one shard keeps.
const PARKED_PER_SHARD: usize = 4;

/// The shards. Two threads of one shard only wait for one another for some nanoseconds.
const SHARDS: usize = 16;

#[derive(Debug)]
pub(super) struct Cells {
    shards: [Shard; SHARDS],
    parked: AtomicUsize,
    /// When the cells are looked through next, in nanoseconds.
    sweep_at: AtomicU64,
}

/// Aligned so that no two share a line of the cache (two lines are fetched together on x86).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    shared: Mutex<Arc<[Arc<Connection>]>>,
    idle: Mutex<Vec<Parked>>,
}

#[derive(Debug)]
struct Parked {
    connection: Arc<Connection>,
    since: Time,
}

impl Cells {
    pub(super) fn new() -> Cells {
        Cells {
            shards: Default::default(),
            parked: AtomicUsize::new(0),
            sweep_at: AtomicU64::new(Time::NEVER.as_nanos()),
        }
    }

    // --- shared connections ---

    /// The connections that take shared statements.
    pub(super) fn shared(&self) -> Arc<[Arc<Connection>]> {
        lock(&self.shard().shared).clone()
    }

    pub(super) fn set_shared(&self, list: Arc<[Arc<Connection>]>) {
        for shard in &self.shards {
            *lock(&shard.shared) = list.clone();
        }
    }

    // --- exclusive connections ---

    /// Keeps a connection for the next session. Says whether there was room, and whether it is the
    /// first that will have to be looked after.
    pub(super) fn park(&self, connection: Arc<Connection>, now: Time) -> (bool, bool) {
        let mut idle = lock(&self.shard().idle);
        if idle.len() >= PARKED_PER_SHARD {
            return (false, false);
        }
        idle.push(Parked { connection, since: now });
        drop(idle);
        self.parked.fetch_add(1, Ordering::SeqCst);
        let never = Time::NEVER.as_nanos();
        let first = self.sweep_at.load(Ordering::Relaxed) == never;
        if first {
            self.sweep_at.store(now.after(PARKED_MAX).as_nanos(), Ordering::Relaxed);
        }
        (true, first)
    }

    /// Takes the connection that was used last on this thread, or else one of another's.
    pub(super) fn take(&self) -> Option<Arc<Connection>> {
        if self.parked.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let own = shard_of_thread();
        let shards = self.shards[own..].iter().chain(&self.shards[..own]);
        let parked = shards.map(|shard| lock(&shard.idle).pop()).find_map(|parked| parked)?;
        self.parked.fetch_sub(1, Ordering::SeqCst);
        Some(parked.connection)
    }

    /// A connection is lost.
    pub(super) fn forget(&self, connection: &Arc<Connection>) {
        for shard in &self.shards {
            let mut idle = lock(&shard.idle);
            let before = idle.len();
            idle.retain(|parked| !Arc::ptr_eq(&parked.connection, connection));
            self.parked.fetch_sub(before - idle.len(), Ordering::SeqCst);
        }
    }

    /// Takes all that have been here since before a moment.
    pub(super) fn take_all(&self, before: Time, mut take: impl FnMut(Arc<Connection>, Time)) {
        self.sweep_at.store(Time::NEVER.as_nanos(), Ordering::Relaxed);
        let mut oldest = Time::NEVER;
        for shard in &self.shards {
            let mut idle = lock(&shard.idle);
            let (old, kept): (Vec<_>, Vec<_>) =
                idle.drain(..).partition(|parked| parked.since < before);
            oldest = kept.iter().map(|parked| parked.since).fold(oldest, Time::min);
            *idle = kept;
            drop(idle);
            self.parked.fetch_sub(old.len(), Ordering::SeqCst);
            old.into_iter().for_each(|parked| take(parked.connection, parked.since));
        }
        if oldest != Time::NEVER {
            self.sweep_at.store(oldest.after(PARKED_MAX).as_nanos(), Ordering::Relaxed);
        }
    }

    /// Whether any connection is kept here.
    pub(super) fn any_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed) > 0
    }

    /// When the cells are to be looked through.
    pub(super) fn sweep_at(&self) -> Time {
        Time::from_nanos(self.sweep_at.load(Ordering::Relaxed))
    }

    fn shard(&self) -> &Shard {
        &self.shards[shard_of_thread()]
    }
}

/// The shard of a thread: given out in turn, when it first asks.
fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
    SHARD.with(|shard| *shard)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
