//! One task: it writes until it is told to stop, each time in another way.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onetrip::{Client, Statement};

use crate::ledger::{Begun, Claim, Ledger};
use crate::random::Random;

pub(crate) struct Writer {
    task: u32,
    pub(crate) client: Client,
    ledger: Arc<Ledger>,
    pub(crate) random: Random,
    /// Prepared once, and used on whatever connection there is then.
    pub(crate) prepared: Option<Statement>,
}

impl Writer {
    pub(crate) fn new(task: u32, seed: u64, client: Client, ledger: Arc<Ledger>) -> Writer {
        let random = Random::new(seed, task.into());
        Writer { task, client, ledger, random, prepared: None }
    }

    pub(crate) async fn write_until(mut self, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) {
            self.write().await;
            // What failed at once must not keep the others from their turn.
            tokio::task::yield_now().await;
        }
    }

    async fn write(&mut self) {
        match self.random.below(16) {
            0..3 => self.singles().await,
            3 => self.rejected_single().await,
            4 => self.prepared_single().await,
            5 => self.hurried_single().await,
            6 => self.forgotten_single().await,
            7 => self.pipeline().await,
            8 => self.pipeline_of_segments().await,
            9 => self.pipeline_given_up().await,
            10 => self.transaction().await,
            11 => self.transaction_with_a_savepoint().await,
            12 => self.transaction_undone().await,
            13 => self.atomic_batch().await,
            14 => self.isolated_batch().await,
            _ => self.session().await,
        }
    }

    /// A number of this range.
    pub(crate) fn some(&mut self, range: Range<i64>) -> i64 {
        range.start + self.random.below((range.end - range.start) as u64) as i64
    }

    /// Begins a unit of so many rows.
    pub(crate) fn begin(&self, what: &'static str, rows: i64) -> Begun {
        self.ledger.begin(self.task, what, rows)
    }

    /// Begins so many units of one row each, whose numbers follow one another.
    pub(crate) fn begin_each(&self, what: &'static str, rows: i64) -> Vec<Begun> {
        (0..rows).map(|_| self.begin(what, 1)).collect()
    }

    pub(crate) fn end(&self, unit: Begun) {
        self.ledger.end(unit);
    }

    /// Ends a unit with the one thing that is known of it.
    pub(crate) fn end_as(&self, mut unit: Begun, claim: Claim) {
        unit.say(claim);
        self.end(unit);
    }

    /// Says that a reply is that of another request, if it is.
    pub(crate) fn expect<T: PartialEq + std::fmt::Debug>(
        &self,
        unit: &Begun,
        got: Option<T>,
        own: T,
    ) {
        if got.as_ref().is_some_and(|got| *got != own) {
            let Begun { numbers, .. } = unit;
            self.ledger.wrong(format!("rows {numbers:?} got {got:?} instead of {own:?}"));
        }
    }
}

/// Writes one row and says how many that were.
pub(crate) const INSERT: &str = "insert into written (n, fine) values ($1, $2)";

/// Writes one row and returns it, so that it shows whose reply it is.
pub(crate) const INSERT_RETURNING: &str =
    "insert into written (n, fine) values ($1, $2) returning n";
