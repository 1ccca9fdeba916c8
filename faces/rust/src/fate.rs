//! What became of a transaction or savepoint, for the errors of its statements.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use onetrip_engine::Outcome;
use onetrip_postgres::client::transaction::verdict::{Leaver, left};

/// Shared by a transaction or savepoint and by what its statements returned. What a statement of it
/// did took effect in its transaction, and nowhere else.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    state: AtomicU8,
    /// That of what is around a savepoint.
    outer: Option<Arc<Fate>>,
}

/// It is open, or was committed.
const STANDS: u8 = 0;
/// It was rolled back, or its connection is gone.
const UNDONE: u8 = 1;
/// Its COMMIT was not answered.
const IN_DOUBT: u8 = 2;
/// Nothing of it was sent, and nothing will be.
const UNSENT: u8 = 3;

impl Fate {
    pub(crate) fn within(outer: &Arc<Fate>) -> Fate {
        Fate { state: AtomicU8::new(STANDS), outer: Some(outer.clone()) }
    }

    /// `has_left`: something of it may have reached the server.
    pub(crate) fn is_undone(&self, has_left: bool) {
        self.state.store(if has_left { UNDONE } else { UNSENT }, Ordering::Relaxed);
    }

    pub(crate) fn is_in_doubt(&self) {
        self.state.store(IN_DOUBT, Ordering::Relaxed);
    }

    /// What is known of a statement of it that failed so.
    pub(crate) fn of(&self, failure: Outcome) -> Outcome {
        let around = self.outer.as_ref().map_or(failure, |outer| outer.of(failure));
        match (self.state.load(Ordering::Relaxed), around) {
            (state @ (UNDONE | UNSENT), around) => left(around, Leaver::Own, state == UNDONE),
            (IN_DOUBT, Outcome::Applied) => Outcome::Unknown,
            (_, around) => around,
        }
    }
}
