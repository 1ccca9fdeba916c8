//! The result of a cancel, and who is told of it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::ABORTED;
use crate::{Error, Kind};

/// What became of a [`cancel`](crate::Canceller::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Cancelled {
    /// The statement was taken back before it was sent, or the server has cancelled it. It has no
    /// effect. If a part of it may have taken effect, the outcome of its error says so.
    Yes,
    /// The statement ended, by itself or otherwise, before the server could cancel it.
    TooLate,
    /// The statement runs on. Either cancelling it could harm others: behind it on its connection
    /// is something that the cancel could hit instead, and that must not be sent again. Or the
    /// server could not be asked: it can't be reached, or takes no cancels.
    NotPossible,
}

impl Cancelled {
    /// What the end of a request says about its cancel.
    pub(crate) fn of(error: Option<&Error>) -> Cancelled {
        let Some(error) = error else { return Cancelled::TooLate };
        let cancelled = error.sqlstate() == Some("57014")
            || error.kind() == Kind::Cancelled
            || error.code() == ABORTED;
        if cancelled { Cancelled::Yes } else { Cancelled::TooLate }
    }
}

/// The result of a cancel, for the one caller that waits for it.
#[derive(Debug, Default)]
pub(crate) struct Answer(Mutex<(Option<Cancelled>, Option<Waker>)>);

impl Answer {
    fn lock(&self) -> MutexGuard<'_, (Option<Cancelled>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the result, once. Returns whom to wake.
    pub(crate) fn give(&self, cancelled: Cancelled) -> Option<Waker> {
        let mut state = self.lock();
        state.0.get_or_insert(cancelled);
        state.1.take()
    }

    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Cancelled> {
        let mut state = self.lock();
        match state.0 {
            Some(cancelled) => Poll::Ready(cancelled),
            None => {
                state.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
