//! The primitives for data that threads share without the pool's lock (`pool/exchange.rs`).
//! `tests/model` replaces them with those of a model checker.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
pub(crate) use std::sync::{Mutex, MutexGuard};

/// The number of shards of shared data. Two threads of one shard wait for each other for some
/// nanoseconds only.
pub(crate) const SHARDS: usize = 16;

/// A number for the thread, given out in turn when it first asks.
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    NUMBER.with(|number| *number)
}
