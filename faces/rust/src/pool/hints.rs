//! What a pool lets threads see without its lock.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize};

#[derive(Debug)]
pub(crate) struct Hints {
    waiting: AtomicUsize,
    closed: AtomicBool,
    can_grow: AtomicBool,
    /// In nanoseconds.
    patience: AtomicU64,
}

impl Hints {
    pub(super) fn new() -> Hints {
        Hints {
            waiting: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            can_grow: AtomicBool::new(false),
            patience: AtomicU64::new(u64::MAX),
        }
    }

    /// Takes note of how many callers wait for a connection.
    pub(super) fn set_waiting(&self, callers: usize) {
        self.waiting.store(callers, Ordering::SeqCst);
    }

    /// Callers that wait for a connection.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// The pool is closed: what comes back goes no further.
    pub(super) fn set_closed(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Whether no new calls come.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Whether the policy wants a connection that a session gives back.
    pub(super) fn wants_back(&self) -> bool {
        self.waiting() > 0 || self.is_closed()
    }

    /// Takes note of whether one more connection may be opened now, and of how old a statement may be
    /// behind which others go.
    pub(super) fn set_growth(&self, can_grow: bool, patience: Option<Duration>) {
        self.can_grow.store(can_grow, Ordering::Relaxed);
        let nanos = patience.and_then(|patience| u64::try_from(patience.as_nanos()).ok());
        self.patience.store(nanos.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn can_grow(&self) -> bool {
        self.can_grow.load(Ordering::Relaxed)
    }

    pub(super) fn patience(&self) -> Duration {
        Duration::from_nanos(self.patience.load(Ordering::Relaxed))
    }
}
