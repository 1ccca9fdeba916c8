//! One task: it writes until it is told to stop, each time in another way. Each file has the ways
//! of one kind. Each way records what it wrote and what the client said of it.

mod blocking;
mod lists;
mod sessions;
mod singles;
mod streams;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onetrip::redis::{Client, Script};

use super::book::Book;
use super::keys::Keys;
use crate::ledger::Begun;
use crate::writer::Writer;

/// What a task has besides its client.
pub(crate) struct Own {
    pub(crate) keys: Keys,
    /// Whether many writes are followed by WAIT.
    pub(crate) waits: bool,
    pub(crate) book: Arc<Book>,
    pub(crate) script: Script,
}

pub(crate) type RedisWriter = Writer<Client, Own>;

impl RedisWriter {
    pub(crate) async fn write_until(mut self, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) {
            self.write().await;
            // A write that failed at once must not starve the other tasks.
            tokio::task::yield_now().await;
        }
    }

    async fn write(&mut self) {
        if self.own.waits && self.random.one_in(3) {
            return self.copied().await;
        }
        match self.random.below(20) {
            0..2 => self.singles().await,
            2 => self.pushes().await,
            3..5 => self.counts().await,
            5 => self.echo().await,
            6 => self.rejected_single().await,
            7 => self.hurried_single().await,
            8 => self.forgotten_single().await,
            9 => self.repeated_single().await,
            10..12 => self.pipeline().await,
            12 => self.pipeline_given_up().await,
            13..15 => self.atomic().await,
            15 => self.script().await,
            16 => self.stream().await,
            17 => self.session().await,
            18 => self.watching().await,
            _ => self.blocking().await,
        }
    }

    /// A random tag.
    fn tag(&mut self) -> u64 {
        self.random.below(self.own.keys.tags)
    }

    /// Ends a unit of one number with its result. The command must have answered the number plus
    /// one.
    fn answered(&self, mut unit: Begun, result: &Result<i64, onetrip::Error>) {
        unit.claim(result);
        self.expect(&unit, result.as_ref().ok().copied(), unit.numbers.start + 1);
        self.end(unit);
    }
}
