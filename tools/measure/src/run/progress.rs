//! The progress of a run.

use std::time::Duration;

use crate::load::Snapshot;
use crate::results::Repetition;

/// Receives the progress of a run.
pub trait Watch: Sync {
    /// A new step begins; `what` names it.
    fn doing(&self, what: &str);

    /// Several times a second while a repetition runs.
    fn progress(&self, progress: &Progress<'_>);

    /// A repetition has ended.
    fn measured(&self, progress: &Progress<'_>, repetition: &Repetition);
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// What is being measured.
    pub label: &'a str,
    /// Repetitions of all cells that have ended.
    pub done: usize,
    /// Repetitions of all cells.
    pub of: usize,
    /// The progress of the current repetition.
    pub snapshot: Snapshot,
    /// How long the rest will take, estimated from earlier repetitions. `None` before the first has
    /// ended.
    pub left: Option<Duration>,
}

/// How long the rest will take.
#[derive(Debug)]
pub(super) struct Estimate {
    /// The last repetition of each cell, with what was done around it.
    took: Vec<Option<Duration>>,
}

impl Estimate {
    pub(super) fn new(cells: usize) -> Estimate {
        Estimate { took: vec![None; cells] }
    }

    pub(super) fn note(&mut self, cell: usize, took: Duration) {
        self.took[cell] = Some(took);
    }

    /// The time that the remaining repetitions of these cells will take. The first one has the
    /// progress of the snapshot. A cell that was not measured yet is taken to need the mean time of
    /// the others; the very first is estimated from its own progress.
    pub(super) fn left(&self, cells: &[usize], snapshot: &Snapshot) -> Option<Duration> {
        let known: Vec<Duration> = self.took.iter().flatten().copied().collect();
        let mean = known.iter().sum::<Duration>().checked_div(known.len() as u32);
        let mean = mean.or_else(|| whole(snapshot))?;
        let time = |cell: &usize| self.took[*cell].unwrap_or(mean);
        let (first, rest) = cells.split_first()?;
        let first = time(first).mul_f64(1.0 - snapshot.part.clamp(0.0, 1.0));
        Some(first + rest.iter().map(time).sum::<Duration>())
    }
}

/// How long a repetition with this progress will take; `None` while that can't be estimated.
fn whole(snapshot: &Snapshot) -> Option<Duration> {
    /// Before that it is a guess.
    const PART_MIN: f64 = 0.1;
    (snapshot.part >= PART_MIN).then(|| snapshot.elapsed.div_f64(snapshot.part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_yet_takes_as_long_as_the_others() {
        let mut estimate = Estimate::new(3);
        let begun = Snapshot::default();
        assert_eq!(estimate.left(&[0, 1, 2], &begun), None);
        estimate.note(0, Duration::from_secs(1));
        estimate.note(1, Duration::from_secs(3));
        assert_eq!(estimate.left(&[1, 2], &begun), Some(Duration::from_secs(5)));
    }

    #[test]
    fn the_time_left_passes_while_a_repetition_runs() {
        let mut estimate = Estimate::new(2);
        let half = Snapshot { part: 0.5, elapsed: Duration::from_secs(2), ..Snapshot::default() };
        assert_eq!(estimate.left(&[0, 1], &half), Some(Duration::from_secs(6)));
        estimate.note(0, Duration::from_secs(6));
        assert_eq!(estimate.left(&[0], &half), Some(Duration::from_secs(3)));
    }
}
