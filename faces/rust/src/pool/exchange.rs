//! How sessions pass connections on without the pool's lock, so that no caller is left waiting.
//!
//! A session that ends looks whether anybody waits, leaves its connection in a cell, and looks
//! again. A caller that finds no connection gets in line, and only then looks into the cells.
//! Whichever comes first, at least one of them sees the other: each writes before it reads, in one
//! order for all threads. `tests/model` checks that on every interleaving that it tries.

use onetrip_engine::Time;

use super::cells::Cells;
use super::hints::Hints;
use std::sync::Arc;

pub(super) struct Exchange<T> {
    pub(super) cells: Cells<T>,
    pub(super) hints: Arc<Hints>,
}

/// What happened to a connection that came back.
pub(super) enum Put<T> {
    /// The pool has to take it.
    Refused(T),
    /// It is in a cell. `first`: a timer has to be set for it. `wanted`: somebody began to wait
    /// meanwhile, so the connections in the cells have to be handed to the pool.
    Kept { first: bool, wanted: bool },
}

impl<T> Exchange<T> {
    pub(super) fn new() -> Exchange<T> {
        Exchange { cells: Cells::new(), hints: Arc::new(Hints::new()) }
    }

    /// Leaves a connection for the next session.
    pub(super) fn put(&self, connection: T, now: Time) -> Put<T> {
        if self.hints.wants_back() {
            return Put::Refused(connection);
        }
        match self.cells.park(connection, now) {
            Ok(first) => Put::Kept { first, wanted: self.hints.wants_back() },
            Err(connection) => Put::Refused(connection),
        }
    }

    /// Takes a connection that was left, unless other callers wait already.
    pub(super) fn take(&self) -> Option<T> {
        (self.hints.waiting() == 0).then(|| self.cells.take()).flatten()
    }

    /// Whether a caller that got in line has to hand the connections in the cells to the pool.
    pub(super) fn is_missed(&self) -> bool {
        self.hints.waiting() > 0
    }
}
