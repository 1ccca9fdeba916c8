//! What was measured, by operation and level.

use anyhow::{Context, Result};
use onetrip_measure::results::{Cell, Isolation, Results};
use onetrip_measure::spread::Ratio;

use crate::measure::Spread;

/// All cells of a run.
#[derive(Clone, Copy)]
pub(super) struct Cells<'a>(&'a [Cell]);

impl<'a> Cells<'a> {
    pub(super) fn of(results: &'a Results) -> Cells<'a> {
        Cells(&results.cells)
    }

    pub(super) fn at(self, workload: &str, level: Isolation) -> Result<&'a Cell> {
        let is_it =
            |cell: &&Cell| cell.key.workload == workload && cell.key.isolation == Some(level);
        let cell = self.0.iter().find(is_it);
        cell.with_context(|| format!("{workload} was not measured at {}", level.name()))
    }

    /// All operations of a level, the cheapest first.
    pub(super) fn sorted_at(self, level: Isolation) -> Vec<&'a Cell> {
        sorted(self.0.iter().filter(|cell| cell.key.isolation == Some(level)))
    }

    /// All levels of an operation, the cheapest first.
    pub(super) fn sorted_of(self, workload: &str) -> Vec<&'a Cell> {
        sorted(self.0.iter().filter(|cell| cell.key.workload == workload))
    }
}

fn sorted<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<&'a Cell> {
    let mut cells: Vec<_> = cells.collect();
    cells.sort_by(|a, b| time_us(a).median.total_cmp(&time_us(b).median));
    cells
}

/// Of each repetition, the time per transaction of all tasks together.
fn times_us(cell: &Cell) -> Vec<f64> {
    cell.repetitions.iter().map(|it| it.elapsed_ms * 1e3 / it.operations as f64).collect()
}

pub(super) fn time_us(cell: &Cell) -> Spread {
    Spread::of(times_us(cell))
}

/// The ratios of all pairs of repetitions, and whether the difference may be noise.
pub(super) fn ratio(cell: &Cell, base: &Cell) -> (Spread, bool) {
    let (new, base) = (times_us(cell), times_us(base));
    let ratios = new.iter().flat_map(|new| base.iter().map(move |base| new / base));
    let is_noise = Ratio::of(&new, &base).is_none_or(|ratio| ratio.is_noise());
    (Spread::of(ratios), is_noise)
}

/// As `update_single_row at read committed`.
pub(super) fn name(cell: &Cell) -> String {
    match cell.key.isolation {
        Some(level) => format!("{} at {}", cell.key.workload, level.name()),
        None => cell.key.workload.clone(),
    }
}
