//! The primitives of what several threads do at once without the pool's lock (`pool/exchange.rs`).
//! `tests/model` puts those of a model checker in their place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Parts into which what threads share is divided. Two threads of one shard only wait for one another
/// for some nanoseconds.
pub(crate) const SHARDS: usize = 16;

/// A number for the thread: given out in turn, when it first asks.
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    NUMBER.with(|number| *number)
}
