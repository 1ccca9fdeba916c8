//! The measures of cells that tables and charts show.

use super::grid::Figure;
use crate::results::{Cell, Repetition, Unit};
use crate::spread::Spread;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Milliseconds until each task had done one operation, in the mean where each did several.
    Elapsed,
    /// Operations per second.
    Rate,
    /// Milliseconds that one operation takes one task, in the mean of a repetition; the median of all
    /// operations where they came at a rate.
    Latency,
}

impl Measure {
    /// None of a cell in which nothing ended well.
    pub(super) fn of(self, cell: &Cell) -> Option<Figure> {
        if let (Measure::Latency, Some(_)) = (self, cell.key.rate) {
            let medians = cell.repetitions.iter().filter_map(|it| it.p50_us);
            return figure(medians.map(|us| us as f64 / 1e3).collect());
        }
        let done = cell.repetitions.iter().filter(|it| it.operations > 0);
        figure(done.map(|it| self.value(it, cell)).collect())
    }

    fn value(self, repetition: &Repetition, cell: &Cell) -> f64 {
        match self {
            Measure::Rate => repetition.rate(),
            Measure::Elapsed | Measure::Latency => {
                let tasks: f64 = cell.key.tasks.max(1).into();
                repetition.elapsed_ms * tasks / repetition.operations as f64
            }
        }
    }

    /// What is shown of operations under concurrency: how long all tasks take for one each; where they
    /// came at a rate that says nothing, and how long one took is shown.
    pub(super) fn under_concurrency(cells: &[&Cell]) -> Measure {
        match cells.iter().any(|cell| cell.key.rate.is_some()) {
            true => Measure::Latency,
            false => Measure::Elapsed,
        }
    }

    /// What a figure is, with its unit: for axes and captions.
    pub(super) fn heading(self, unit: Option<Unit>) -> String {
        let name = |several| match (unit, several) {
            (Some(unit), several) => unit.name(several),
            (None, true) => "operations",
            (None, false) => "operation",
        };
        match self {
            Measure::Elapsed => "ms until each task had done one".to_owned(),
            Measure::Rate => format!("{} per second", name(true)),
            Measure::Latency => format!("ms per {}", name(false)),
        }
    }

    /// Whether more is worse.
    pub(super) fn is_time(self) -> bool {
        self != Measure::Rate
    }
}

fn figure(values: Vec<f64>) -> Option<Figure> {
    let values: Vec<f64> = values.into_iter().filter(|it| it.is_finite() && *it > 0.0).collect();
    Some(Figure { spread: Spread::of(values.iter().copied())?, values })
}
