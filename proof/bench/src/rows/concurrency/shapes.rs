//! The findings, each with a bar that was chosen before anything was measured.

use anyhow::{Context, Result};
use onetrip_measure::results::{Cell, Isolation};

use super::cells::{Cells, name, ratio, time_us};
use super::why::why;
use crate::measure::Spread;
use crate::report::Row;

/// One row that all tasks change, against a row of a hundred.
const SINGLE_OVER_RANDOM_MIN: f64 = 2.0;

/// The slowest level against the fastest: what is called flat. The difference of a level is none if
/// it is less than that of two operations.
const FLAT_MAX: f64 = 1.5;

/// One of the three cheapest of eleven.
const RANK_MAX: f64 = 3.0;

/// What does not get slower at a stricter level.
const FLAT: [&str; 3] =
    ["simple_insert", "select_for_update_skip_locked", "select_for_update_skip_locked_many"];

const WITH_FK: &str = "select_for_update_with_fk";

const NOTE: &str = "800 tasks over 10 connections, one transaction each, on a server that flushes its \
    commits; time of all tasks per transaction, ratios of all pairs of repetitions";

pub(super) fn rows(cells: &Cells<'_>) -> Result<Vec<Row>> {
    let mut rows = vec![single_over_random(cells)?];
    for workload in FLAT {
        rows.push(flat(cells, workload)?);
    }
    rows.push(random_at_serializable(cells)?);
    for level in Isolation::ALL {
        rows.push(with_fk(cells, level)?);
    }
    for level in Isolation::ALL {
        rows.push(select_single(cells, level)?);
    }
    Ok(rows)
}

fn single_over_random(cells: &Cells<'_>) -> Result<Row> {
    let level = Isolation::ReadCommitted;
    let pair = (cells.at("update_single_row", level)?, cells.at("update_random_row", level)?);
    let row = pair_row("single_over_random", pair).at_least(SINGLE_OVER_RANDOM_MIN);
    Ok(explained(row, pair))
}

fn flat(cells: &Cells<'_>, workload: &str) -> Result<Row> {
    let levels = cells.sorted_of(workload);
    let (Some(fastest), Some(slowest)) = (levels.first(), levels.last()) else {
        anyhow::bail!("{workload} was not measured");
    };
    let pair = (*slowest, *fastest);
    let row = at_most(pair_row(&format!("flat.{workload}"), pair), FLAT_MAX);
    Ok(explained(row, pair))
}

/// Slower, and by more than noise.
fn random_at_serializable(cells: &Cells<'_>) -> Result<Row> {
    let at = |level| cells.at("update_random_row", level);
    let pair = (at(Isolation::Serializable)?, at(Isolation::ReadCommitted)?);
    let mut row = pair_row("random_at_serializable", pair).at_least(1.0);
    row.holds = Some(row.holds == Some(true) && !ratio(pair.0, pair.1).1);
    Ok(explained(row, pair))
}

/// The slowest of all, against the slowest of the others; at serializable it is not.
fn with_fk(cells: &Cells<'_>, level: Isolation) -> Result<Row> {
    let sorted = cells.sorted_at(level);
    let other = sorted.iter().rev().find(|cell| cell.key.workload != WITH_FK);
    let pair = (cells.at(WITH_FK, level)?, *other.context("there is nothing beside it")?);
    let row = pair_row(&format!("with_fk.{}", level.name().replace(' ', "_")), pair);
    let row = match level {
        Isolation::Serializable => at_most(row, 1.0),
        _ => row.at_least(1.0),
    };
    Ok(explained(row, pair))
}

/// Its place among all operations of a level.
fn select_single(cells: &Cells<'_>, level: Isolation) -> Result<Row> {
    let sorted = cells.sorted_at(level);
    let rank = sorted.iter().position(|cell| cell.key.workload == "select_single");
    let rank = rank.context("select_single was not measured")?;
    let place = rank as f64 + 1.0;
    let figure = Spread { low: place, median: place, high: place };
    let row_name = format!("concurrency.select_single.{}", level.name().replace(' ', "_"));
    let row = Row::alone(&row_name, "th cheapest", figure, Some(RANK_MAX));
    Ok(explained(row, (sorted[rank], sorted[RANK_MAX as usize - 1])))
}

/// The time of one cell in multiples of another's.
fn pair_row(row_name: &str, (cell, base): (&Cell, &Cell)) -> Row {
    let (ratio, _) = ratio(cell, base);
    Row {
        peer: Some(time_us(base).median),
        peer_version: Some(name(base)),
        ratio: Some(ratio.median),
        spread: Some([ratio.low, ratio.high]),
        ..Row::alone(&format!("concurrency.{row_name}"), "µs/op", time_us(cell), None)
    }
}

fn at_most(mut row: Row, bar: f64) -> Row {
    row.bar = Some(bar);
    row.holds = row.ratio.map(|ratio| ratio <= bar);
    row
}

/// A row that misses says what differs.
fn explained(row: Row, (cell, base): (&Cell, &Cell)) -> Row {
    match row.holds {
        Some(false) => row.note(&why(cell, base)),
        _ => row.note(NOTE),
    }
}
