//! What a cell came to, repetition by repetition.

use super::plan::{Planned, Work};
use crate::load::{Ran, Recorder};
use crate::meter::Seen;
use crate::results::{Cell, Repetition};

/// What a cell came to so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    repetitions: Vec<Repetition>,
    recorder: Recorder,
    waits: Seen,
}

impl Found {
    pub(super) fn add(&mut self, ran: Ran, waits: &Seen) {
        self.repetitions.push(ran.repetition);
        self.recorder.add(&ran.recorder);
        self.waits.add(waits);
    }

    /// As it stands in the results; None if it was not measured.
    pub(super) fn cell(self, planned: &Planned) -> Option<Cell> {
        if self.repetitions.is_empty() {
            return None;
        }
        let waits = self.waits.mean();
        let awaited = match &planned.work {
            Work::Script(plan) => plan.waits(),
            _ => Vec::new(),
        };
        let Recorder { latency, lag, retries, errors, expected_errors, .. } = self.recorder;
        Some(Cell {
            key: planned.key.clone(),
            unit: planned.unit,
            repetitions: self.repetitions,
            latency: latency.latency(),
            lag: lag.latency(),
            retries,
            errors,
            expected_errors,
            awaited,
            waits,
        })
    }
}
