//! State that belongs to the thread of one event loop.

#![allow(unsafe_code)]

use std::cell::RefCell;

use pyo3::PyErr;
use pyo3::exceptions::PyRuntimeError;

/// What one thread uses, and others only drop. Nothing in it is shared with anything outside of it.
#[derive(Debug)]
pub(crate) struct Local<T> {
    thread: usize,
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
            "onetrip: a client is used by the thread and event loop that opened it: open one there",
        )
    }
}

impl<T> Local<T> {
    pub(crate) fn new(value: T) -> Local<T> {
        Local { thread: here(), value: RefCell::new(value) }
    }

    /// The value, for the time of a call in which nothing of Python's runs.
    #[inline]
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Result<R, Elsewhere> {
        if self.thread != here() {
            return Err(Elsewhere);
        }
        let mut value = self.value.try_borrow_mut().map_err(|_| Elsewhere)?;
        Ok(act(&mut value))
    }
}

/// Tells this thread from all others that live.
#[inline]
fn here() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}
