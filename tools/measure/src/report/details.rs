//! All that is known of a cell, as texts.

use super::format::{self, number};
use super::grid::Dimension;
use crate::results::{Cell, Latency};
use crate::spread::Spread;

/// A cell's texts.
pub(super) struct Details {
    /// Its workload, and its mode if it has one.
    pub(super) name: String,
    /// As in [`COLUMNS`].
    pub(super) texts: [String; COLUMNS.len()],
}

/// What the texts are.
pub(super) const COLUMNS: [&str; 14] = [
    "isolation",
    "with",
    "per second",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "max",
    "retries",
    "errors",
    "trips/op",
    "client CPU µs/op",
    "server CPU µs/op",
    "sessions waited for",
];

impl Details {
    pub(super) fn of(cell: &Cell) -> Details {
        let [p50, p90, p99, p999, max] = latencies(cell.latency.as_ref());
        let texts = [
            Dimension::Isolation.label(&cell.key),
            parameters(cell),
            cell.rate().map_or_else(none, |it| format::spread(&it)),
            p50,
            p90,
            p99,
            p999,
            max,
            format::codes(&cell.retries),
            errors(cell),
            median(cell.trips_per_operation()),
            median(cell.client_cpu_us()),
            median(cell.server_cpu_us()),
            waits(cell),
        ];
        Details { name: name(cell), texts }
    }
}

/// Workload and mode.
pub(super) fn name(cell: &Cell) -> String {
    match &cell.key.mode {
        Some(mode) => format!("{}, {mode}", cell.key.workload),
        None => cell.key.workload.clone(),
    }
}

/// How much of it at once, and over what.
fn parameters(cell: &Cell) -> String {
    let mut dimensions = vec![Dimension::Tasks, Dimension::Connections];
    dimensions.extend(cell.key.depth.map(|_| Dimension::Depth));
    dimensions.extend(cell.key.rate.map(|_| Dimension::Rate));
    dimensions.extend((cell.key.rtt_added_ms > 0.0).then_some(Dimension::Rtt));
    let labels = dimensions.into_iter().map(|it| it.label(&cell.key));
    labels.collect::<Vec<_>>().join(", ")
}

/// The percentiles and the maximum, in ms.
pub(super) fn latencies(latency: Option<&Latency>) -> [String; 5] {
    let of = |it: &Latency| [it.p50_us, it.p90_us, it.p99_us, it.p999_us, it.max_us];
    match latency {
        Some(latency) => of(latency).map(|us| number(us as f64 / 1e3)),
        None => std::array::from_fn(|_| none()),
    }
}

/// Those that were meant to be, too.
pub(super) fn errors(cell: &Cell) -> String {
    let expected = format::codes(&cell.expected_errors);
    let expected = if expected.is_empty() { expected } else { format!("{expected} (expected)") };
    let each = [format::codes(&cell.errors), expected];
    each.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(", ")
}

/// What most sessions did when they were looked at, and how many in the mean: those that matter.
fn waits(cell: &Cell) -> String {
    /// Less than a tenth of a session explains nothing.
    const LEAST: f64 = 0.1;
    const MOST: usize = 4;
    let mut waits: Vec<(&String, &f64)> = cell.waits.iter().filter(|it| *it.1 >= LEAST).collect();
    waits.sort_by(|a, b| b.1.total_cmp(a.1));
    let each = waits.iter().take(MOST).map(|(what, sessions)| format!("{what} {sessions:.1}"));
    each.collect::<Vec<_>>().join(", ")
}

pub(super) fn median(spread: Option<Spread>) -> String {
    spread.map_or_else(none, |it| number(it.median))
}

pub(super) fn none() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::grid::tests::cell;

    #[test]
    fn waits_that_matter_are_told_the_most_first() {
        let mut cell = cell(1, 1, 1, "shared");
        let seen = [("IO:WALSync", 0.75), ("Lock:tuple", 6.94), ("running", 0.04)];
        cell.waits = seen.map(|(what, sessions)| (what.to_owned(), sessions)).into();
        assert_eq!(waits(&cell), "Lock:tuple 6.9, IO:WALSync 0.8");
    }
}
