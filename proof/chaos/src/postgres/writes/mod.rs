//! One task: it writes until it is told to stop, each time in another way. Each file has the ways
//! of one kind. Each way records what it wrote and what the client said of it.

mod batches;
mod pipelines;
mod singles;
mod streams;
mod transactions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onetrip::{Client, Statement};

use crate::writer::Writer;

/// A task with a statement that is prepared once and used on any later connection.
pub(crate) type PostgresWriter = Writer<Client, Option<Statement>>;

impl PostgresWriter {
    pub(crate) async fn write_until(mut self, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) {
            self.write().await;
            // A write that failed at once must not starve the other tasks.
            tokio::task::yield_now().await;
        }
    }

    async fn write(&mut self) {
        match self.random.below(18) {
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
            15 => self.copy().await,
            16 => self.run().await,
            _ => self.session().await,
        }
    }
}

/// Writes one row; the result is the number of rows.
pub(crate) const INSERT: &str = "insert into written (n, fine) values ($1, $2)";

/// Writes one row and returns it, so that it shows whose reply it is.
pub(crate) const INSERT_RETURNING: &str =
    "insert into written (n, fine) values ($1, $2) returning n";
