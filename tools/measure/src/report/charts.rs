//! Which charts a report has.

use super::answer;
use super::chart::LINES_MAX;
use super::grid::{self, Dimension, Grid, Layout, Row, grids, values};
use super::headlines::{self, Place};
use super::measure::Measure;
use super::percentiles;
use super::plots::{self, Around, View};
use super::redis;
use super::tables::{self, Titled, by_depth, cells_of, widest};
use crate::results::{Cell, Line, Preset, Results, Unit};

/// Charts that belong together.
pub(super) struct Group {
    pub(super) title: String,
    pub(super) views: Vec<View>,
}

/// The charts of a preset.
pub(super) fn groups(results: &Results, preset: Preset) -> Vec<Group> {
    let groups = match preset {
        Preset::Concurrency => concurrency(results),
        Preset::Trips => trips(results),
        Preset::Fortunes => fortunes(results),
        Preset::Script => scripts(results),
        Preset::Redis => redis::groups(results),
    };
    let worth_it = |mut group: Group| {
        group.views.retain(View::is_worth_it);
        (!group.views.is_empty()).then_some(group)
    };
    groups.into_iter().filter_map(worth_it).collect()
}

fn concurrency(results: &Results) -> Vec<Group> {
    let tables = tables::tables(results, Preset::Concurrency);
    let reach: Vec<f64> = tables.iter().flat_map(|it| plots::values(&it.grid.rows)).collect();
    let mut groups: Vec<Group> = tables
        .iter()
        .map(|it| {
            let mut views = by_family(it, &reach);
            views.extend(longest_tails(results, it));
            Group { title: it.title.clone(), views }
        })
        .collect();
    groups.extend(across_levels(results));
    groups
}

/// One chart for each kind of operation, with the others behind it.
fn by_family(table: &Titled, reach: &[f64]) -> Vec<View> {
    let grid = &table.grid;
    let place: Place<'_> = &|column| Dimension::place(column) + &table.place;
    if grid.columns.len() == 1 {
        let headline = headlines::contrast(grid, place);
        return vec![View::new(headline, grid.clone(), &Around::default())];
    }
    let families = FAMILIES.into_iter().map(|family| grid.only(|row| family == of_family(row)));
    let charts = families.filter(|it| !it.rows.is_empty()).flat_map(|it| it.split(LINES_IN_FAMILY));
    charts.map(|part| in_family(grid, part, reach, place)).collect()
}

fn in_family(all: &Grid, part: Grid, reach: &[f64], place: Place<'_>) -> View {
    let is_other = |row: &&Row| part.rows.iter().all(|own| own.label != row.label);
    let others: Vec<Row> = all.rows.iter().filter(is_other).cloned().collect();
    let around = Around { reach, others: &others, ..Around::default() };
    View::new(headlines::contrast(&part, place), part, &around)
}

const LINES_IN_FAMILY: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Writes,
    Locks,
    ForeignKeys,
    Reads,
}

const FAMILIES: [Family; 4] = [Family::Writes, Family::Locks, Family::ForeignKeys, Family::Reads];

fn of_family(row: &Row) -> Family {
    match row.workload.as_str() {
        name if name.contains("_fk") => Family::ForeignKeys,
        name if name.starts_with("select_for_") => Family::Locks,
        name if name.starts_with("select") => Family::Reads,
        _ => Family::Writes,
    }
}

/// Latency of those operations of the last column whose slowest took longest.
fn longest_tails(results: &Results, table: &Titled) -> Option<View> {
    let grid = &table.grid;
    let column = &grid.columns[grid.last_column(1)?].label;
    let is_there = |cell: &&Cell| {
        let sheet = tables::CONCURRENCY_SHEETS.map(|it| it.label(&cell.key));
        Dimension::Tasks.label(&cell.key) == *column && sheet[..] == grid.sheet[..]
    };
    let cells = cells_of(results, Preset::Concurrency).into_iter().filter(is_there);
    let mut cells: Vec<&Cell> = cells.collect();
    cells.sort_by_key(|cell| std::cmp::Reverse(cell.latency.as_ref().map(|it| it.p99_us)));
    cells.truncate(TAILS);
    percentiles(&cells, "", &(Dimension::place(column) + &table.place))
}

const TAILS: usize = 5;

const ROWS: &str = "The latency is that of a call, which may carry many rows.";

fn percentiles(cells: &[&Cell], subject: &str, place: &str) -> Option<View> {
    let names = grid::row_names(cells);
    let curves = percentiles::curves(names.into_iter().zip(cells.iter().copied()));
    if percentiles::are_flat(&curves) {
        return None;
    }
    let headline = percentiles::headline(&curves, subject, place)?;
    let has_rows = cells.iter().any(|it| it.unit == Unit::Row);
    Some(View::percentiles(headline, curves).with_note(has_rows.then_some(ROWS)))
}

/// A group for each round trip that was added.
fn across_levels(results: &Results) -> Vec<Group> {
    let cells = cells_of(results, Preset::Concurrency);
    if values(&cells, Dimension::Isolation) < 2 {
        return Vec::new();
    }
    let sheets = &[Dimension::Rtt, Dimension::Workload];
    let layout =
        Layout { sheets, column: Dimension::Tasks, measure: Measure::under_concurrency(&cells) };
    let is_one = values(&cells, Dimension::Rtt) < 2;
    let mut groups: Vec<Group> = Vec::new();
    for grid in grids(&cells, &results.lines, &layout) {
        let place = if is_one { String::new() } else { Dimension::place(&grid.sheet[0]) };
        let title = format!("Each operation across isolation levels{place}");
        let views = grid.split(LINES_MAX).into_iter().map(|it| across(it, &place));
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.views.extend(views),
            None => groups.push(Group { title, views: views.collect() }),
        }
    }
    groups
}

fn across(grid: Grid, place: &str) -> View {
    let place: Place<'_> = &|column| Dimension::place(column) + place;
    let headline = format!("{}: {}", grid.sheet[1], headlines::against_first(&grid, place));
    View::new(headline, grid, &Around::default())
}

fn trips(results: &Results) -> Vec<Group> {
    let (deep, other) = by_depth(&cells_of(results, Preset::Trips));
    let time =
        Group { title: "Time by round trip".to_owned(), views: over_rtt(&results.lines, &other) };
    let depth =
        Group { title: "Throughput by depth".to_owned(), views: over_depth(results, &deep) };
    let tails = Group { title: "Percentiles".to_owned(), views: tails_by_workload(&other) };
    vec![time, depth, tails]
}

pub(super) fn over_rtt(lines: &[Line], cells: &[&Cell]) -> Vec<View> {
    let sheets = &[Dimension::Workload];
    let layout = Layout { sheets, column: Dimension::Rtt, measure: Measure::Latency };
    let all = grids(cells, lines, &layout).into_iter();
    let charts = all.flat_map(|grid| grid.split(LINES_MAX));
    let view = |grid: Grid| {
        let headline = headlines::contrast(&grid, &Dimension::place);
        let headline = format!("{}: {headline}", grid.sheet[0]);
        let around = Around { is_over_rtt: true, ..Around::default() };
        View::new(headline, grid, &around)
    };
    charts.map(view).collect()
}

fn over_depth(results: &Results, cells: &[&Cell]) -> Vec<View> {
    let sheets = &[Dimension::Workload, Dimension::Mode];
    let layout = Layout { sheets, column: Dimension::Depth, measure: Measure::Rate };
    let charts = grids(cells, &results.lines, &layout).into_iter();
    let charts = charts.flat_map(|grid| grid.split(LINES_MAX));
    let view = |grid: Grid| {
        let name = grid.sheet.iter().filter(|it| !it.is_empty()).cloned().collect::<Vec<_>>();
        let headline = format!("{}: {}", name.join(", "), headlines::gain(&grid));
        View::new(headline, grid, &Around::default())
    };
    charts.map(view).collect()
}

/// At the round trip in the middle, where neither the server nor the line is all of it.
pub(super) fn tails_by_workload(cells: &[&Cell]) -> Vec<View> {
    let mut rtts: Vec<f64> = cells.iter().map(|it| it.key.rtt_added_ms).collect();
    rtts.sort_unstable_by(f64::total_cmp);
    rtts.dedup();
    let Some(rtt) = rtts.get(rtts.len() / 2) else { return Vec::new() };
    let mut workloads: Vec<&str> = Vec::new();
    for cell in cells {
        // The cells of a workload need not stand side by side.
        if !workloads.contains(&cell.key.workload.as_str()) {
            workloads.push(&cell.key.workload);
        }
    }
    let of = |workload: &str| {
        let is_there = |it: &&Cell| it.key.workload == workload && it.key.rtt_added_ms == *rtt;
        let cells: Vec<&Cell> = cells.iter().copied().filter(is_there).take(LINES_MAX).collect();
        let place = Dimension::place(&Dimension::Rtt.label(&cells.first()?.key));
        percentiles(&cells, &format!("{workload}: "), &place)
    };
    workloads.into_iter().filter_map(of).collect()
}

fn fortunes(results: &Results) -> Vec<Group> {
    let cells = cells_of(results, Preset::Fortunes);
    let column = widest(&cells);
    let mut views = rates(results, &cells, column);
    views.extend(last_tails(&cells, column));
    vec![Group { title: "Throughput and percentiles".to_owned(), views }]
}

fn rates(results: &Results, cells: &[&Cell], column: Dimension) -> Vec<View> {
    let layout = Layout { sheets: &[], column, measure: Measure::Rate };
    let all = grids(cells, &results.lines, &layout).into_iter();
    let view = |grid: Grid| {
        let headline = headlines::contrast(&grid, &Dimension::place);
        View::new(headline, grid, &Around::default())
    };
    all.flat_map(|grid| grid.split(LINES_MAX)).map(view).collect()
}

/// What pipelining gives back comes first.
fn scripts(results: &Results) -> Vec<Group> {
    let title = "Each statement awaited, and pipelined".to_owned();
    let answers = Group { title, views: answer::views(results) };
    let cells = cells_of(results, Preset::Script);
    let column = widest(&cells);
    let group = |title: &str, views| Group { title: title.to_owned(), views };
    let rest = match column {
        // Where nothing but the form was varied, it would say the same once more.
        _ if grid::varying(&cells) == [Dimension::Mode] => Vec::new(),
        Dimension::Rtt if values(&cells, column) > 1 => {
            vec![group("Time by round trip", over_rtt(&results.lines, &cells))]
        }
        _ => vec![group("Throughput", rates(results, &cells, column))],
    };
    let tails = group("Percentiles", last_tails(&cells, column).into_iter().collect());
    [answers].into_iter().chain(rest).chain([tails]).collect()
}

fn last_tails(cells: &[&Cell], column: Dimension) -> Option<View> {
    let last = cells.iter().max_by(|a, b| column.order(&a.key, &b.key))?;
    let last = column.label(&last.key);
    let is_there = |it: &&Cell| column.label(&it.key) == last;
    let cells: Vec<&Cell> = cells.iter().copied().filter(is_there).take(LINES_MAX).collect();
    percentiles(&cells, "", &Dimension::place(&last))
}
