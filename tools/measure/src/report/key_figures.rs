//! The most telling figures. Differences that may be noise are left out.

use super::format::{self, times};
use super::headlines::PAIRS;
use super::measure::Measure;
use super::tables::cells_of;
use crate::results::{Cell, Preset, Results};

/// A figure in large, with what it is.
pub(super) struct KeyFigure {
    /// What it was the other way.
    pub(super) from: Option<String>,
    pub(super) value: String,
    pub(super) unit: &'static str,
    pub(super) what: String,
}

/// The figures in reading order. Those that were not measured are missing.
pub(super) fn key_figures(results: &Results) -> Vec<KeyFigure> {
    let [slow, fast] = ["one by one", "pipeline"].map(|mode| transfer(results, mode));
    let pair = slow.zip(fast);
    let figures = [
        pair.and_then(|(slow, fast)| trips(slow, fast)),
        pair.and_then(|(slow, fast)| time(slow, fast)),
        selects(results),
        pings(results).or_else(|| contention(results)),
    ];
    figures.into_iter().flatten().collect()
}

/// The one that was recorded over the longest round trip.
fn transfer<'a>(results: &'a Results, mode: &str) -> Option<&'a Cell> {
    let cells = cells_of(results, Preset::Trips).into_iter();
    let cells = cells.filter(|it| it.timeline.is_some() && it.key.mode.as_deref() == Some(mode));
    cells.max_by(|a, b| a.key.rtt_added_ms.total_cmp(&b.key.rtt_added_ms))
}

fn trips(slow: &Cell, fast: &Cell) -> Option<KeyFigure> {
    let [from, to] = [slow, fast].map(|it| it.trips_per_operation().map(|it| it.median));
    let value = format::coarse(to?);
    Some(KeyFigure {
        from: Some(format::coarse(from?)),
        unit: if value == "1" { "trip" } else { "trips" },
        value,
        what: "to the server and back for a transfer, as one pipeline".to_owned(),
    })
}

fn time(slow: &Cell, fast: &Cell) -> Option<KeyFigure> {
    let [before, after] = [slow, fast].map(|it| Measure::Latency.of(it));
    let (before, after) = (before?, after?);
    if before.ratio(&after)?.is_noise() {
        return None;
    }
    Some(KeyFigure {
        from: Some(format::number(before.spread.median)),
        value: format::number(after.spread.median),
        unit: "ms",
        what: format!("for each, with {} ms of round trip", format::tick(slow.key.rtt_added_ms)),
    })
}

/// The deepest pipeline against statements one by one, where no latency was added.
fn selects(results: &Results) -> Option<KeyFigure> {
    let cells = cells_of(results, Preset::Trips).into_iter();
    let cells = cells.filter(|it| it.key.workload == "selects" && it.key.rtt_added_ms == 0.0);
    let cells: Vec<&Cell> = cells.collect();
    let at = |mode: &str, depth: Option<u32>| {
        let is_it = |it: &&&Cell| it.key.mode.as_deref() == Some(mode) && it.key.depth == depth;
        cells.iter().find(is_it).copied()
    };
    let depth = cells.iter().filter_map(|it| it.key.depth).max().filter(|depth| *depth > 1)?;
    let (one, many) = (at("shared", Some(1))?, at("pipeline", Some(depth))?);
    let ratio = Measure::Rate.of(many)?.ratio(&Measure::Rate.of(one)?)?;
    (!ratio.is_noise()).then(|| KeyFigure {
        from: None,
        value: times(ratio.median),
        unit: "",
        what: format!(
            "the selects per second with {} in flight, no latency added",
            format::count(depth.into())
        ),
    })
}

fn pings(results: &Results) -> Option<KeyFigure> {
    let cells = cells_of(results, Preset::Redis);
    let of = |mode: &str| {
        let is_it =
            |it: &&&Cell| it.key.workload == "pings" && it.key.mode.as_deref() == Some(mode);
        Measure::Elapsed.of(cells.iter().find(is_it)?)
    };
    let (slow, fast) = (of("one by one")?, of("pipeline")?);
    let ratio = slow.ratio(&fast)?;
    (!ratio.is_noise()).then(|| KeyFigure {
        from: None,
        value: times(ratio.median),
        unit: "",
        what: format!(
            "as fast: {} PINGs of Redis as one pipeline, no latency added",
            format::count(crate::redis::PINGS.into())
        ),
    })
}

/// The cost of contention on one row.
fn contention(results: &Results) -> Option<KeyFigure> {
    let cells = cells_of(results, Preset::Concurrency);
    let measure = Measure::under_concurrency(&cells);
    let (same, other) = PAIRS[0];
    let of = |name: &str| cells.iter().rev().find(|it| it.key.workload == name).copied();
    let (same, other) = (of(same)?, of(other)?);
    let ratio = measure.of(same)?.ratio(&measure.of(other)?)?;
    let is_same_but_row =
        same.key.tasks == other.key.tasks && same.key.isolation == other.key.isolation;
    (is_same_but_row && !ratio.is_noise()).then(|| KeyFigure {
        from: None,
        value: times(ratio.median),
        unit: "",
        what: format!("as long: {} transactions that all update one row", same.key.tasks),
    })
}
