//! The result of a command, between a cluster and the caller that waits for it.

use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::Error;

/// The result of a command.
#[derive(Debug, Default)]
pub(crate) struct Cell(Mutex<Ending>);

#[derive(Debug, Default)]
struct Ending {
    result: Option<Result<Bytes, Error>>,
    waker: Option<Waker>,
}

impl Cell {
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Result<Bytes, Error>> {
        let mut cell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match cell.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                cell.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    pub(super) fn settle(&self, result: Result<Bytes, Error>) -> Option<Waker> {
        let mut cell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cell.result = Some(result);
        cell.waker.take()
    }
}
