//! What arrives by itself, until its reader takes it: bounded, with one reader.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A line of items between whoever brings them and the one who reads them.
#[derive(Debug)]
pub(crate) struct Buffer<T> {
    state: Mutex<State<T>>,
    max: usize,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    /// Items that were dropped since the reader was told.
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

    /// Adds an item; where there is no room the oldest goes. Returns whom to wake.
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

    /// The same beyond the limit, for one who asks [`poll_room`](Self::poll_room) before it gets more.
    pub(crate) fn push_all_the_same(&self, item: T) -> Option<Waker> {
        let mut state = self.lock();
        if !state.closed {
            state.items.push_back(item);
        }
        state.reader.take()
    }

    /// Whether there is room; otherwise remembers whom to wake.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.items.len() < self.max || state.closed {
            return Poll::Ready(());
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The next item; `None` where none will come any more.
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

    /// How many items were dropped since this was asked.
    pub(crate) fn take_lost(&self) -> u64 {
        std::mem::take(&mut self.lock().lost)
    }

    /// Nothing more comes. Returns whom to wake.
    pub(crate) fn close(&self) -> Option<Waker> {
        let mut state = self.lock();
        state.closed = true;
        state.reader.take()
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
