//! The results of a cell, repetition by repetition.

use super::plan::{Planned, Work};
use crate::load::{Ran, Recorder};
use crate::meter::Seen;
use crate::results::{Cell, Repetition};
use crate::timeline::Timeline;

/// The results of a cell so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    repetitions: Vec<Repetition>,
    recorder: Recorder,
    waits: Seen,
    timelines: Vec<Timeline>,
}

impl Found {
    pub(super) fn add(&mut self, ran: Ran, waits: &Seen) {
        self.repetitions.push(ran.repetition);
        self.recorder.add(&ran.recorder);
        self.waits.add(waits);
    }

    /// What one of its operations looked like on the line.
    pub(super) fn add_timeline(&mut self, timeline: Option<Timeline>) {
        self.timelines.extend(timeline);
    }

    /// The cell for the results; `None` if it was not measured.
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
        let mut cell = Cell {
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
            timeline: None,
        };
        let median = cell.us_per_operation().map(|it| it.median / 1e3);
        cell.timeline = median.and_then(|ms| nearest(self.timelines, ms));
        Some(cell)
    }
}

/// The timeline whose duration is nearest to this.
fn nearest(timelines: Vec<Timeline>, ms: f64) -> Option<Timeline> {
    let off = |it: &Timeline| (it.ends_ms() - ms).abs();
    timelines.into_iter().min_by(|a, b| off(a).total_cmp(&off(b)))
}
