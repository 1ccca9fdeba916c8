//! What threads may read of a pool without its lock.

use std::sync::atomic::Ordering;
use std::time::Duration;

use onetrip_engine::pool::{Expected, Patience};

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize};

#[derive(Debug)]
pub(crate) struct Hints {
    waiting: AtomicUsize,
    /// How many of them wait in front of a statement that can share a connection.
    waiting_in_order: AtomicUsize,
    closed: AtomicBool,
    can_grow: AtomicBool,
    /// In nanoseconds.
    patience: AtomicU64,
    has_others: AtomicBool,
    has_holders: AtomicBool,
}

impl Hints {
    pub(super) fn new() -> Hints {
        Hints {
            waiting: AtomicUsize::new(0),
            waiting_in_order: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            can_grow: AtomicBool::new(false),
            patience: AtomicU64::new(u64::MAX),
            has_others: AtomicBool::new(false),
            has_holders: AtomicBool::new(false),
        }
    }

    /// Sets how many callers wait for a connection, and how many of them in order.
    pub(super) fn set_waiting(&self, callers: usize, in_order: usize) {
        self.waiting_in_order.store(in_order, Ordering::SeqCst);
        self.waiting.store(callers, Ordering::SeqCst);
    }

    /// How many callers such a statement would overtake.
    pub(super) fn waiting_before(&self, of: Expected) -> usize {
        match of.is_unsure() {
            true => self.waiting(),
            false => self.waiting_in_order.load(Ordering::SeqCst),
        }
    }

    /// How many callers wait for a connection.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// The pool is closed: a connection that comes back is not passed on.
    pub(super) fn set_closed(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Whether the pool is closed to new calls.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Whether the policy wants a connection that a session gives back.
    pub(super) fn wants_back(&self) -> bool {
        self.waiting() > 0 || self.is_closed()
    }

    /// Sets whether one more connection may be opened now, and when a statement waits in line
    /// rather than behind another statement.
    pub(super) fn set_growth(&self, can_grow: bool, patience: Patience) {
        self.can_grow.store(can_grow, Ordering::Relaxed);
        self.has_others.store(patience.others, Ordering::Relaxed);
        self.has_holders.store(patience.holders, Ordering::Relaxed);
        let nanos = patience.coming.and_then(|age| u64::try_from(age.as_nanos()).ok());
        self.patience.store(nanos.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn can_grow(&self) -> bool {
        self.can_grow.load(Ordering::Relaxed)
    }

    pub(super) fn patience(&self) -> Patience {
        let nanos = self.patience.load(Ordering::Relaxed);
        let coming = (nanos != u64::MAX).then(|| Duration::from_nanos(nanos));
        let others = self.has_others.load(Ordering::Relaxed);
        Patience { coming, others, holders: self.has_holders.load(Ordering::Relaxed) }
    }
}
