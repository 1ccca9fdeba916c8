//! Data that threads use without the pool's lock: the list of shared connections, and the
//! connections that sessions left for the next one. Threads are spread over shards, so that they
//! seldom wait for each other.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use onetrip_engine::Time;

use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, SHARDS, thread_number};

/// How long a connection stays in a cell before the pool gets it. The pool resets it if that is
/// owed, and closes it if nobody needs it. As long as the policy's `reset_idle_after`: what a
/// session holds must not be held for longer.
pub(super) const PARKED_MAX: Duration = Duration::from_millis(100);

/// How many connections one shard keeps.
const PARKED_PER_SHARD: usize = 4;

pub(super) struct Cells<T> {
    shards: [Shard<T>; SHARDS],
    parked: AtomicUsize,
    /// When the cells are looked through next, in nanoseconds.
    sweep_at: AtomicU64,
}

/// Aligned so that no two shards share a cache line (x86 fetches two lines together).
#[repr(align(128))]
struct Shard<T> {
    shared: Mutex<Arc<[T]>>,
    idle: Mutex<Vec<Parked<T>>>,
}

struct Parked<T> {
    connection: T,
    since: Time,
}

impl<T> Cells<T> {
    pub(super) fn new() -> Cells<T> {
        let shard = |_| Shard { shared: Mutex::new(Arc::from([])), idle: Mutex::new(Vec::new()) };
        Cells {
            shards: std::array::from_fn(shard),
            parked: AtomicUsize::new(0),
            sweep_at: AtomicU64::new(Time::NEVER.as_nanos()),
        }
    }

    // --- shared connections ---

    /// The connections that take shared statements.
    pub(super) fn shared(&self) -> Arc<[T]> {
        lock(&self.shard().shared).clone()
    }

    pub(super) fn set_shared(&self, list: Arc<[T]>) {
        for shard in &self.shards {
            *lock(&shard.shared) = list.clone();
        }
    }

    // --- exclusive connections ---

    /// Keeps a connection for the next session. Returns it if there is no room; otherwise returns
    /// whether it is the first one, for which a timer has to be set.
    pub(super) fn park(&self, connection: T, now: Time) -> Result<bool, T> {
        let mut idle = lock(&self.shard().idle);
        if idle.len() >= PARKED_PER_SHARD {
            return Err(connection);
        }
        // Counted first, so that the count is never less than what can be taken.
        self.parked.fetch_add(1, Ordering::SeqCst);
        idle.push(Parked { connection, since: now });
        drop(idle);
        let sweep_at = now.after(PARKED_MAX).as_nanos();
        let never = Time::NEVER.as_nanos();
        let set =
            self.sweep_at.compare_exchange(never, sweep_at, Ordering::SeqCst, Ordering::SeqCst);
        Ok(set.is_ok())
    }

    /// Takes the connection that was used last on this thread, or else one of another thread's.
    pub(super) fn take(&self) -> Option<T> {
        if self.parked.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let own = thread_number() % SHARDS;
        let shards = self.shards[own..].iter().chain(&self.shards[..own]);
        let parked = shards.map(|shard| lock(&shard.idle).pop()).find_map(|parked| parked)?;
        self.parked.fetch_sub(1, Ordering::SeqCst);
        Some(parked.connection)
    }

    /// Drops the connections that are lost.
    pub(super) fn forget(&self, is_lost: impl Fn(&T) -> bool) {
        for shard in &self.shards {
            let mut idle = lock(&shard.idle);
            let before = idle.len();
            idle.retain(|parked| !is_lost(&parked.connection));
            self.parked.fetch_sub(before - idle.len(), Ordering::SeqCst);
        }
    }

    /// Takes all connections that have been here since before this time.
    pub(super) fn take_all(&self, before: Time, mut take: impl FnMut(T, Time)) {
        self.sweep_at.store(Time::NEVER.as_nanos(), Ordering::SeqCst);
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
            self.sweep_at.fetch_min(oldest.after(PARKED_MAX).as_nanos(), Ordering::SeqCst);
        }
    }

    /// Whether any connection is kept here.
    pub(super) fn any_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed) > 0
    }

    /// When the cells are to be looked through.
    pub(super) fn sweep_at(&self) -> Time {
        Time::from_nanos(self.sweep_at.load(Ordering::SeqCst))
    }

    fn shard(&self) -> &Shard<T> {
        &self.shards[thread_number() % SHARDS]
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
