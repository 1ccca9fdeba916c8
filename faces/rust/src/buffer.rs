//! A bounded buffer, with one reader, for what the server sends by itself.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A bounded queue of items with one reader.
#[derive(Debug)]
pub(crate) struct Buffer<T> {
    state: Mutex<State<T>>,
    max: usize,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    /// How many items were dropped since [`take_lost`](Buffer::take_lost) was last called.
    lost: u64,
    reader: Option<Waker>,
    writer: Option<Waker>,
    closed: bool,
}

impl<T> Buffer<T> {
    pub(crate) fn new(max: usize) -> Buffer<T> {
        let items = VecDeque::new();
        let state = State { items, lost: 0, reader: None, writer: None, closed: false };
        Buffer { state: Mutex::new(state), max }
    }

    /// Adds an item. If the buffer is full, the oldest item is dropped. Returns whom to wake.
    pub(crate) fn push(&self, item: T) -> Option<Waker> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        if state.items.len() >= self.max {
            state.items.pop_front();
            state.lost += 1;
        }
        state.items.push_back(item);
        state.reader.take()
    }

    /// Adds an item even beyond the limit. For a writer that calls [`poll_room`](Self::poll_room)
    /// before it fetches more.
    pub(crate) fn push_all_the_same(&self, item: T) -> Option<Waker> {
        let mut state = self.lock();
        if !state.closed {
            state.items.push_back(item);
        }
        state.reader.take()
    }

    /// Ready if there is room; otherwise registers the task to be woken.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.items.len() < self.max || state.closed {
            return Poll::Ready(());
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The next item; `None` once the buffer is closed and empty.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<T>> {
        let mut state = self.lock();
        let Some(item) = state.items.pop_front() else {
            if state.closed {
                return Poll::Ready(None);
            }
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        let writer = match state.items.len() < self.max {
            true => state.writer.take(),
            false => None,
        };
        drop(state);
        writer.into_iter().for_each(Waker::wake);
        Poll::Ready(Some(item))
    }

    /// How many items were dropped since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        std::mem::take(&mut self.lock().lost)
    }

    /// Closes the buffer: no more items come. Returns whom to wake.
    pub(crate) fn close(&self) -> Option<Waker> {
        let mut state = self.lock();
        state.closed = true;
        state.reader.take()
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
