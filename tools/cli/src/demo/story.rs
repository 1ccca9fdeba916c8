//! The demo's results, as tables.

use comfy_table::{Cell as Field, CellAlignment, Table, presets};
use onetrip_measure::results::{Cell, Preset, Results};
use onetrip_measure::spread::Ratio;

use super::plan::TASKS;
use super::redis;
use crate::output::thousands;

/// The tables of all that was measured, each with a title.
pub(super) fn tell(results: &Results) -> String {
    let of = |workload: &'static str| {
        let cells = results.cells.iter();
        let is_it = |cell: &&Cell| cell.key.preset == Preset::Trips;
        cells.filter(is_it).filter(move |cell| cell.key.workload == workload).collect::<Vec<_>>()
    };
    let updates = results.cells.iter().filter(|cell| cell.key.preset == Preset::Concurrency);
    let parts = [
        transfer(results, &of("transfer")),
        selects(&of("selects")),
        contention(&updates.collect::<Vec<_>>()),
    ];
    let parts = parts.into_iter().flatten().chain(redis::tell(results));
    let mut text = parts.collect::<Vec<_>>().join("\n\n");
    text += &format!(
        "\n\nMedians of {} repetitions; a trip is a write of the client after bytes of the server.",
        results.cells.iter().map(|cell| cell.repetitions.len()).max().unwrap_or(0)
    );
    text
}

/// The link to the server, as a phrase that ends a title.
pub(super) fn link(rtt_added_ms: f64) -> String {
    match rtt_added_ms {
        0.0 => String::new(),
        rtt => format!(" over a link of {} ms each way", rtt / 2.0),
    }
}

fn transfer(results: &Results, cells: &[&Cell]) -> Option<String> {
    let first = cells.first()?;
    let way = link(first.key.rtt_added_ms);
    let names = |cell: &Cell| match cell.key.mode.as_deref() {
        Some("one by one") => "BEGIN, 2 UPDATEs, COMMIT, each awaited",
        Some("transaction") => "begin, update, update, commit awaited; BEGIN rides along",
        Some("pipeline") => "one pipeline",
        _ => "a PL/pgSQL procedure",
    };
    let title = format!("A money transfer{way}, PostgreSQL {}", results.server.version);
    Some(format!("{title}\n{}", times(cells, |cell| names(cell).to_owned())))
}

fn contention(cells: &[&Cell]) -> Option<String> {
    cells.first()?;
    let names = |cell: &Cell| match cell.key.workload.as_str() {
        "update_single_row" => "all update the same row",
        _ => "each updates one of 100 rows",
    };
    let title = format!("{TASKS} transactions at once over 10 connections, read committed");
    Some(format!("{title}\n{}", times(cells, |cell| names(cell).to_owned())))
}

/// A table with a line for each cell, with its time as a bar.
pub(super) fn times(cells: &[&Cell], name: impl Fn(&Cell) -> String) -> Table {
    let mut table = table(&["", "trips", "median ms", "ratio", ""]);
    // For a transfer, the time of one; for concurrent transactions, the time of all.
    let time = |cell: &&Cell| {
        let of = if cell.key.tasks == 1 { cell.us_per_operation() } else { cell.elapsed_ms() };
        of.map_or(f64::NAN, |it| if cell.key.tasks == 1 { it.median / 1e3 } else { it.median })
    };
    let slowest = cells.iter().map(time).fold(0.0, f64::max);
    for cell in cells {
        let trips =
            cell.trips_per_operation().map_or(String::new(), |it| format!("{:.0}", it.median));
        table.add_row([
            Field::new(name(cell)),
            right(trips),
            right(format!("{:.1}", time(cell))),
            right(cells.first().map_or(String::new(), |first| ratio(cell, first))),
            Field::new(bar(time(cell) / slowest)),
        ]);
    }
    table
}

/// The ratio of the times of two cells, unless it is within the noise.
fn ratio(cell: &Cell, first: &Cell) -> String {
    let times = |cell: &Cell| -> Vec<f64> {
        cell.repetitions.iter().map(|it| it.elapsed_ms / it.operations as f64).collect()
    };
    match Ratio::of(&times(cell), &times(first)) {
        _ if std::ptr::eq(cell, first) => "1.00".to_owned(),
        Some(ratio) if !ratio.is_noise() => format!("{:.2}", ratio.median),
        _ => "within the noise".to_owned(),
    }
}

/// Operations per second.
pub(super) fn rate(cell: &Cell) -> f64 {
    cell.rate().map_or(0.0, |it| it.median)
}

/// A table with a line for each depth.
fn selects(cells: &[&Cell]) -> Option<String> {
    let mut table = table(&["in flight", "a Sync each, per s", "one Sync, per s", ""]);
    let fastest = cells.iter().map(|cell| rate(cell)).fold(0.0, f64::max);
    let mut depths: Vec<u32> = cells.iter().filter_map(|cell| cell.key.depth).collect();
    depths.sort_unstable();
    depths.dedup();
    for depth in &depths {
        let of = |mode: &str| {
            let is_it = |cell: &&&Cell| {
                cell.key.depth == Some(*depth) && cell.key.mode.as_deref() == Some(mode)
            };
            cells.iter().find(is_it).map(|cell| rate(cell))
        };
        let text = |rate: Option<f64>| right(rate.map_or(String::new(), thousands));
        let (shared, pipeline) = (of("shared"), of("pipeline"));
        let best = pipeline.or(shared).unwrap_or(0.0);
        table.add_row([
            right(depth.to_string()),
            text(shared),
            text(pipeline),
            Field::new(bar(best / fastest)),
        ]);
    }
    let title = "Point selects by primary key on one connection, no latency added";
    (!depths.is_empty()).then(|| format!("{title}\n{table}"))
}

pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    table
}

pub(super) fn right(text: String) -> Field {
    Field::new(text).set_alignment(CellAlignment::Right)
}

/// A bar of this fraction of the longest one.
pub(super) fn bar(part: f64) -> String {
    const WIDTH: f64 = 24.0;
    "█".repeat((part * WIDTH).round().max(1.0) as usize)
}
