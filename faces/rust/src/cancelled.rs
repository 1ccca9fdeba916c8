//! What becomes of a cancel, and who is told.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::ABORTED;
use crate::{Error, Kind};

/// What became of a [`cancel`](crate::Canceller::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Cancelled {
    /// The statement was taken back before it was sent, or the server has cancelled it. It has no
    /// effect; its error says what is known of one that may have had a part of it.
    Yes,
    /// It had ended already, or ended in another way before the server came to cancel it.
    TooLate,
    /// It runs on, since it can't be cancelled without harm to others: on its connection there is
    /// something behind it that could be hit instead and must not be sent again. Or the server
    /// could not be asked: it can't be reached, or takes no cancels.
    NotPossible,
}

impl Cancelled {
    /// What the end of a request tells of its cancel.
    pub(crate) fn of(error: Option<&Error>) -> Cancelled {
        let Some(error) = error else { return Cancelled::TooLate };
        let cancelled = error.sqlstate() == Some("57014")
            || error.kind() == Kind::Cancelled
            || error.code() == ABORTED;
        if cancelled { Cancelled::Yes } else { Cancelled::TooLate }
    }
}

/// What one caller is to be told of its cancel.
#[derive(Debug, Default)]
pub(crate) struct Answer(Mutex<(Option<Cancelled>, Option<Waker>)>);

impl Answer {
    fn lock(&self) -> MutexGuard<'_, (Option<Cancelled>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells it, once. Returns whom to wake.
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
