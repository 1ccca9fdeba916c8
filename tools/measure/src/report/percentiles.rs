//! Latency by percentile, out of whole distributions.

use super::format::{duration_ms, times};
use super::grid::{Column, Figure, Grid, Row};
use crate::results::{Cell, Latency};
use crate::spread::Spread;

/// One distribution with its name.
pub(super) struct Curve {
    pub(super) name: String,
    /// Parts of all operations, and the milliseconds that these took at most.
    pub(super) points: Vec<(f64, f64)>,
}

/// Percentiles that are marked and stand in tables.
const MARKED: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

/// The places of a curve between two marks.
const STEPS: u32 = 8;

/// The highest part that a distribution of this many has: one operation may be above it.
fn highest(count: u64) -> f64 {
    (1.0 - 1.0 / count.max(2) as f64).min(0.9999)
}

/// Of fewer operations the slowest percent is less than one, and a curve would be the chance of a
/// few.
const COUNT_MIN: u64 = 100;

/// Whether no curve rises enough to be worth a look; so it is where there is none.
pub(super) fn are_flat(curves: &[Curve]) -> bool {
    /// What the slowest of any measurement take longer.
    const RISE_MIN: f64 = 1.5;
    let rise = |curve: &Curve| Some(curve.points.last()?.1 / curve.points.first()?.1);
    curves.iter().filter_map(rise).all(|it| it < RISE_MIN)
}

/// Of cells that have a distribution, by name.
pub(super) fn curves<'a>(cells: impl Iterator<Item = (String, &'a Cell)>) -> Vec<Curve> {
    let of = |(name, cell): (String, &Cell)| {
        let latency = cell.latency.as_ref().filter(|it| it.count >= COUNT_MIN)?;
        Some(Curve { name, points: points(latency)? })
    };
    cells.filter_map(of).collect()
}

fn points(latency: &Latency) -> Option<Vec<(f64, f64)>> {
    let histogram = latency.decoded()?;
    let highest = highest(histogram.len());
    let at = |part: f64| (part, histogram.value_at_quantile(part) as f64 / 1e3);
    let inside = parts().into_iter().filter(|part| *part < highest - 1e-9);
    Some(inside.chain([highest]).map(at).collect())
}

/// From a half on, evenly on an axis of nines; with all that are marked.
fn parts() -> Vec<f64> {
    let steps = (0..4 * STEPS).map(|step| 1.0 - 10f64.powf(-f64::from(step) / f64::from(STEPS)));
    let mut parts: Vec<f64> = steps.filter(|it| *it > 0.5).chain(MARKED).collect();
    parts.sort_unstable_by(f64::total_cmp);
    parts.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    parts
}

/// Whether a mark is drawn there.
pub(super) fn is_marked(part: f64) -> bool {
    MARKED.iter().any(|it| (it - part).abs() < 1e-9)
}

/// The highest part of all curves.
pub(super) fn reach(curves: &[Curve]) -> f64 {
    curves.iter().filter_map(|it| Some(it.points.last()?.0)).fold(0.5, f64::max)
}

/// The marked percentiles as a table.
pub(super) fn table(curves: &[Curve]) -> Grid {
    let names = ["50 %", "90 %", "99 %", "99.9 %", "99.99 %"];
    let column = |(label, at): (&&str, f64)| Column { label: (*label).to_owned(), at };
    let row = |curve: &Curve| Row {
        label: curve.name.clone(),
        workload: curve.name.clone(),
        figures: MARKED.iter().map(|part| figure(curve, *part)).collect(),
    };
    Grid {
        sheet: Vec::new(),
        what: "latency, ms".to_owned(),
        is_time: true,
        across: "percentile",
        corner: "operation".to_owned(),
        columns: names.iter().zip(MARKED).map(column).collect(),
        rows: curves.iter().map(row).collect(),
    }
}

fn figure(curve: &Curve, part: f64) -> Option<Figure> {
    let (_, ms) = curve.points.iter().find(|it| (it.0 - part).abs() < 1e-9)?;
    Some(Figure { spread: Spread::of([*ms])?, values: vec![*ms] })
}

/// The longest tail, in multiples of its median; `subject` stands in front, `place` says where it
/// is. None without a curve.
pub(super) fn headline(curves: &[Curve], subject: &str, place: &str) -> Option<String> {
    let at = |curve: &Curve, part: f64| figure(curve, part).map(|it| it.spread.median);
    let tail = |curve: &Curve| Some((curve.name.clone(), at(curve, 0.99)?, at(curve, 0.5)?));
    let tails = curves.iter().filter_map(tail);
    let (name, tail, median) = tails.max_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)))?;
    let the = if subject.is_empty() { "The" } else { "the" };
    Some(format!(
        "{subject}{the} slowest 1 % of {name} take {} or more{place}, {} the median",
        duration_ms(tail),
        times(tail / median)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_goes_no_higher_than_its_operations_allow() {
        assert_eq!(highest(100), 0.99);
        assert_eq!(highest(10_000_000), 0.9999);
        assert_eq!(highest(0), 0.5);
    }

    #[test]
    fn the_marked_percentiles_are_among_the_places() {
        let parts = parts();
        for marked in MARKED {
            assert!(parts.iter().any(|it| (it - marked).abs() < 1e-12), "{marked}");
        }
        assert!(parts.windows(2).all(|it| it[0] < it[1]), "{parts:?}");
    }
}
