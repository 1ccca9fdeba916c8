//! State that belongs to the thread of one event loop.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// What one thread uses, and others only drop. Nothing in it is shared with anything outside of it.
#[derive(Debug)]
pub(crate) struct Local<T> {
    owner: (usize, usize),
    value: RefCell<T>,
}

// SAFETY: only the thread that made it gets at the value (`with`), and who drops it is the last to
// have it. What a value holds in `Rc` it holds itself, all of them.
unsafe impl<T> Send for Local<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Local<T> {}

/// It was asked for by another thread, or from within itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elsewhere;

impl From<Elsewhere> for PyErr {
    fn from(_: Elsewhere) -> PyErr {
        PyRuntimeError::new_err(
            "onetrip: a client is used by the thread and event loop that opened it, and not behind \
             a fork: open one there",
        )
    }
}

impl<T> Local<T> {
    pub(crate) fn new(value: T) -> Local<T> {
        Local { owner: here(), value: RefCell::new(value) }
    }

    /// The value, for the time of a call in which nothing of Python's runs.
    #[inline]
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Result<R, Elsewhere> {
        if self.owner != here() {
            return Err(Elsewhere);
        }
        let mut value = self.value.try_borrow_mut().map_err(|_| Elsewhere)?;
        Ok(act(&mut value))
    }
}

/// Forks that led to this process. What was made in front of one is its parent's: both would write
/// to one socket.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// This process was forked.
#[pyfunction]
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Tells this thread from all others that live, and this process from what it was forked from.
#[inline]
fn here() -> (usize, usize) {
    thread_local!(static MARK: u8 = const { 0 });
    (MARK.with(|mark| std::ptr::from_ref(mark) as usize), FORKS.load(Ordering::Relaxed))
}
