//! State that belongs to the thread of one event loop, or to the threads that take turns as one
//! client.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use onetrip_client::completion::outcome;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::failure::Failure;

/// What one thread at a time uses (`here`), and others only drop. Nothing in it is shared with
/// anything outside of it.
#[derive(Debug)]
pub(crate) struct Local<T> {
    owner: (usize, usize),
    value: RefCell<T>,
}

// SAFETY: only the thread that made it gets at the value (`with`), or one after the other those
// that act as the client for which it was made (`Seat::take`), and who drops it is the last to have
// it. What a value holds in `Rc` it holds itself, all of them.
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

/// Tells this thread from all others that live, or the client that it acts as from all others; and
/// this process from what it was forked from.
#[inline]
fn here() -> (usize, usize) {
    // One look at what belongs to the thread: in a shared library each is a call.
    let owner = ACTING.with(|acting| match acting.get() {
        0 => mark(acting),
        acting => acting,
    });
    (owner, FORKS.load(Ordering::Relaxed))
}

fn thread() -> usize {
    ACTING.with(mark)
}

/// Tells the thread that has this from all others that live.
fn mark(own: &Cell<usize>) -> usize {
    std::ptr::from_ref(own) as usize
}

thread_local! {
    /// The client that this thread acts as: the address of its `Seat`, or 0.
    static ACTING: Cell<usize> = const { Cell::new(0) };
}

/// Whose turn it is to act as a client that many threads use. What is made in a turn belongs to
/// the client, and one thread at a time has the turn.
#[pyclass(frozen, module = "onetrip._native")]
#[derive(Debug)]
pub(crate) struct Turn(Arc<Seat>);

#[derive(Debug)]
struct Seat {
    /// A thread has the turn.
    is_taken: Mutex<bool>,
    freed: Condvar,
    /// The thread that has it, or 0.
    holder: AtomicUsize,
    /// What that thread acted as before.
    before: AtomicUsize,
    forks: usize,
}

impl Seat {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody holds the turn for long: whoever waits for the server gives it away.
    fn take(&self, py: Python<'_>) -> Result<(), Elsewhere> {
        // The thread that has it does not live on behind a fork.
        if self.forks != FORKS.load(Ordering::Relaxed) {
            return Err(Elsewhere);
        }
        if std::mem::replace(&mut *self.lock(), true) {
            py.detach(|| {
                let taken = self.freed.wait_while(self.lock(), |is_taken| *is_taken);
                *taken.unwrap_or_else(PoisonError::into_inner) = true;
            });
        }
        self.holder.store(thread(), Ordering::Relaxed);
        let id = std::ptr::from_ref(self) as usize;
        self.before.store(ACTING.replace(id), Ordering::Relaxed);
        Ok(())
    }

    fn leave(&self) {
        self.holder.store(0, Ordering::Relaxed);
        ACTING.set(self.before.load(Ordering::Relaxed));
        *self.lock() = false;
        self.freed.notify_one();
    }
}

#[pymethods]
impl Turn {
    #[new]
    fn new() -> Turn {
        let forks = FORKS.load(Ordering::Relaxed);
        let (holder, before) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (is_taken, freed) = (Mutex::new(false), Condvar::new());
        Turn(Arc::new(Seat { is_taken, freed, holder, before, forks }))
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_mine() {
            const WHY: &str = "what a client calls, as `into`, can't use that client, nor can a \
                               signal's handler that interrupts its work";
            return Err(Failure::said("misuse", outcome::NOT_SENT, WHY).raised(py));
        }
        Ok(self.0.take(py)?)
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, _error: &Bound<'_, PyTuple>) {
        self.release();
    }

    /// Takes the turn, unless this thread has it.
    fn acquire(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_mine() { Ok(()) } else { Ok(self.0.take(py)?) }
    }

    /// Gives the turn away, if this thread has it.
    fn release(&self) {
        if self.is_mine() {
            self.0.leave();
        }
    }
}

impl Turn {
    /// Whether this thread has it.
    fn is_mine(&self) -> bool {
        self.0.holder.load(Ordering::Relaxed) == thread()
    }

    /// Takes the turn until what is returned is dropped, unless this thread has it.
    pub(crate) fn act(&self, py: Python<'_>) -> PyResult<Acting> {
        if self.is_mine() {
            return Ok(Acting(None));
        }
        self.0.take(py)?;
        Ok(Acting(Some(self.0.clone())))
    }
}

/// A turn, until it is dropped.
pub(crate) struct Acting(Option<Arc<Seat>>);

impl Drop for Acting {
    fn drop(&mut self) {
        if let Some(seat) = self.0.take() {
            seat.leave();
        }
    }
}
