//! The report on a terminal: what was measured, tables by preset, and how to read them.

use comfy_table::{
    Cell as Text, CellAlignment, ColumnConstraint, ContentArrangement, Table, TableComponent,
    presets as borders,
};

use super::details;
use super::format;
use super::grid::{Dimension, Grid, varying};
use super::setting;
use super::summary;
use super::tables::{self, cells_of, presets};
use crate::load::Codes;
use crate::results::{Cell, Isolation, Preset, Results};

/// What is wider is wrapped.
const WIDTH: u16 = 118;

/// A run as it is shown on a terminal: at most 118 columns wide, no colours, ends without a line end.
pub fn terminal(results: &Results) -> String {
    let mut parts = vec![header(results)];
    if results.cells.is_empty() {
        return parts.concat();
    }
    for preset in presets(results) {
        parts.push(format!("== {} ==", tables::name(preset)));
        parts.extend(tables::tables(results, preset).iter().map(grid));
        parts.push(cells(results, preset));
    }
    parts.push(footer());
    parts.join("\n\n")
}

fn header(results: &Results) -> String {
    let mut facts = setting::facts(results);
    facts.push(("Round trip", setting::round_trips(&results.lines)));
    if let Some(beside) = &results.beside {
        facts.push(("… beside it", setting::round_trips(&beside.lines)));
    }
    facts.push(("Settings", settings(results)));
    let told = facts.into_iter().filter(|(_, value)| !value.is_empty());
    let lines = told.map(|(name, value)| wrapped(&format!("{name:<11} {value}"), "            "));
    let mut lines: Vec<String> = lines.collect();
    if let Some(why) = &results.stopped {
        let text = format!("This is not all that was to be measured: {why}");
        lines.push(format!("\n{}", wrapped(&text, "")));
    }
    lines.extend(summary::found(results).iter().map(|it| format!("\n{}", wrapped(it, ""))));
    lines.join("\n")
}

fn settings(results: &Results) -> String {
    let told = TOLD.iter().filter_map(|name| results.server.settings.get_key_value(*name));
    let each = told.map(|(name, value)| match value.as_str() {
        "" => format!("{name}=none"),
        value => format!("{name}={value}"),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The settings that most decide what is measured; all of them are in the files.
const TOLD: [&str; 10] = [
    "fsync",
    "synchronous_commit",
    "shared_buffers",
    "max_connections",
    "default_transaction_isolation",
    "autovacuum",
    "appendonly",
    "save",
    "maxmemory",
    "io-threads",
];

fn footer() -> String {
    let mut lines: Vec<String> = setting::READING.iter().map(|it| wrapped(it, "")).collect();
    lines.push(
        "What failed was tried again, but for what stands in brackets (it was meant to fail) or behind ! \
         (it failed for good)."
            .to_owned(),
    );
    lines.push("In the tables ± is how far the farther quartile lies from the median.".to_owned());
    lines.join("\n")
}

/// In lines that fit, each but the first with this in front.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        let is_full = line.chars().count() + word.chars().count() >= WIDTH.into();
        if is_full && !line.trim().is_empty() {
            lines.push(format!("{indent}{word}"));
        } else {
            let gap = if line.is_empty() { "" } else { " " };
            line.push_str(&format!("{gap}{word}"));
        }
    }
    lines.join("\n")
}

fn new_table(header: impl IntoIterator<Item = String>, names: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(borders::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.set_header(header);
    table.remove_style(TableComponent::HorizontalLines);
    table.remove_style(TableComponent::MiddleIntersections);
    for (i, column) in table.column_iter_mut().enumerate() {
        if i < names {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
        column.set_padding((0, 1));
        if i >= names {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn grid(titled: &tables::Titled) -> String {
    let grid: &Grid = &titled.grid;
    let names = grid.columns.iter().map(|it| it.label.clone());
    let mut table = new_table([grid.corner.clone()].into_iter().chain(names), 1);
    for row in &grid.rows {
        let figures = row.figures.iter().map(|it| match it {
            Some(figure) => format::short_spread(&figure.spread),
            None => details::none(),
        });
        table.add_row([row.label.clone()].into_iter().chain(figures).map(Text::new));
    }
    format!("{}\n{table}", tables::caption(titled))
}

/// All cells of a preset, a table for each isolation level.
fn cells(results: &Results, preset: Preset) -> String {
    let cells = cells_of(results, preset);
    let mut levels: Vec<Option<Isolation>> = cells.iter().map(|it| it.key.isolation).collect();
    levels.sort_unstable();
    levels.dedup();
    let table = |level: Option<Isolation>| {
        let cells: Vec<&Cell> =
            cells.iter().copied().filter(|it| it.key.isolation == level).collect();
        let place = level.map_or(String::new(), |it| format!(" at {}", it.name()));
        format!("Each of them{place}: {LEGEND}\n{}", cell_table(&cells))
    };
    levels.into_iter().map(table).collect::<Vec<_>>().join("\n\n")
}

const LEGEND: &str = "latency in ms, CPU of client/server in µs per operation";

/// With what tells cells from each other in front.
fn cell_table(cells: &[&Cell]) -> Table {
    let differing: Vec<Dimension> =
        varying(cells).into_iter().filter(|it| !NAMED.contains(it)).collect();
    let names = ["operation".to_owned()].into_iter();
    let names: Vec<String> =
        names.chain(differing.iter().map(|it| short(*it).to_owned())).collect();
    let count = names.len();
    let is_open = cells.iter().any(|cell| cell.key.rate.is_some());
    let open = OPEN.iter().filter(|_| is_open).map(|it| (*it).to_owned());
    let header = names.into_iter().chain(FIGURES.map(str::to_owned)).chain(open);
    let mut table = new_table(header, count);
    for (i, column) in table.column_iter_mut().enumerate() {
        // They alone are wrapped where the table gets too wide.
        if i != count + EVENTS {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    for cell in cells {
        let names = [details::name(cell)].into_iter();
        let names = names.chain(differing.iter().map(|it| brief(*it, cell)));
        let open = open_loop(cell).into_iter().filter(|_| is_open);
        table.add_row(names.chain(figures(cell)).chain(open).map(Text::new));
    }
    table
}

/// They stand in the first column, or over the table.
const NAMED: [Dimension; 3] = [Dimension::Workload, Dimension::Mode, Dimension::Isolation];

const FIGURES: [&str; 9] =
    ["per s", "p50", "p90", "p99", "p99.9", "max", "failed", "trips", "CPU c/s"];

/// Of open loops: operations per second that were due, and how late they began.
const OPEN: [&str; 2] = ["due/s", "lag p99"];

fn open_loop(cell: &Cell) -> [String; 2] {
    let lag = cell.lag.as_ref().map(|it| format::number(it.p99_us as f64 / 1e3));
    [cell.key.rate.map(format::number), lag].map(|it| it.unwrap_or_else(details::none))
}

/// Where retries and errors stand among them.
const EVENTS: usize = 6;

fn short(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Tasks => "tasks",
        Dimension::Connections => "conns",
        Dimension::Depth => "depth",
        Dimension::Rate => "rate",
        Dimension::Rtt => "+ms",
        Dimension::Workload | Dimension::Mode | Dimension::Isolation => "",
    }
}

fn brief(dimension: Dimension, cell: &Cell) -> String {
    let key = &cell.key;
    match dimension {
        Dimension::Tasks => format::count(key.tasks.into()),
        Dimension::Connections => format::count(key.connections.into()),
        Dimension::Depth => key.depth.map_or_else(details::none, |it| format::count(it.into())),
        Dimension::Rate => key.rate.map_or_else(details::none, format::tick),
        _ => format::tick_or_zero(key.rtt_added_ms),
    }
}

fn figures(cell: &Cell) -> Vec<String> {
    let mut texts = vec![details::median(cell.rate())];
    texts.extend(details::latencies(cell.latency.as_ref()));
    texts.push(events(cell));
    texts.push(details::median(cell.trips_per_operation()));
    let cpu = [cell.client_cpu_us(), cell.server_cpu_us()]
        .map(|it| it.map_or_else(details::none, |it| format::coarse(it.median)));
    texts.push(cpu.join("/"));
    texts
}

/// `40001×1,234` for attempts that were tried again, `(23503×400)` for what failed as it was meant to, and
/// `!22012×3` for what failed for good.
fn events(cell: &Cell) -> String {
    let retries = counted(&cell.retries).into_iter();
    let expected = counted(&cell.expected_errors).into_iter().map(|it| format!("({it})"));
    let errors = counted(&cell.errors).into_iter().map(|it| format!("!{it}"));
    retries.chain(expected).chain(errors).collect::<Vec<_>>().join(" ")
}

fn counted(codes: &Codes) -> Vec<String> {
    codes.iter().map(|(code, times)| format!("{code}×{}", format::count(*times))).collect()
}
