//! Tables as charts: lines over the columns, or bars where there are one or two columns only.

use super::chart::{Axis, Bar, Bars, Line, Lines, Point, Words};
use super::format;
use super::grid::{Figure, Grid, Row};
use super::headlines;
use super::percentiles::{self, Curve};

/// A chart with what it shows and the figures that it is made of.
pub(super) struct View {
    /// What it shows, in a sentence.
    pub(super) headline: String,
    /// What one has to know to read it.
    pub(super) notes: Vec<String>,
    pub(super) grid: Grid,
    drawing: Drawing,
}

enum Drawing {
    Lines(Lines),
    Bars(Bars),
}

/// What a chart has beside its own lines.
#[derive(Default)]
pub(super) struct Around<'a> {
    /// All values that the vertical axis has to reach; the chart's own, if empty.
    pub(super) reach: &'a [f64],
    /// Lines to be drawn behind.
    pub(super) others: &'a [Row],
    /// Draws the round trip itself: the columns stand where it is.
    pub(super) is_over_rtt: bool,
    /// Draws ten times depth 1, which is here.
    pub(super) tenfold: Option<f64>,
}

impl View {
    pub(super) fn new(headline: String, grid: Grid, around: &Around<'_>) -> View {
        let columns = (0..grid.columns.len()).filter(|it| has_figures(&grid, *it)).count();
        if columns < COLUMNS_MIN {
            let drawing = Drawing::Bars(bars(&grid));
            return View { headline, notes: Vec::new(), grid, drawing };
        }
        let (lines, note) = lines(&grid, around);
        let mut notes: Vec<String> = note.into_iter().collect();
        if !around.others.is_empty() {
            notes.push("Grey: the other operations.".to_owned());
        }
        View { headline, notes, grid, drawing: Drawing::Lines(lines) }
    }

    /// Bars of which each is so many blocks of this size, in the order of the rows, and a rest.
    pub(super) fn blocks(headline: String, grid: Grid, size: f64, counts: &[f64]) -> View {
        let mut bars = bars(&grid);
        for (row, count) in grid.rows.iter().zip(counts).filter(|it| *it.1 < BLOCKS_MAX) {
            // A trip that a few of the runs have saved or made more is no block.
            let ends = (1..=count.round() as u32).map(|number| f64::from(number) * size);
            for bar in bars.bars.iter_mut().filter(|it| it.name == row.label) {
                bar.cuts = ends.clone().filter(|end| *end < bar.value).collect();
            }
        }
        let has_blocks = bars.bars.iter().any(|it| !it.cuts.is_empty());
        let notes = has_blocks.then(|| "Each block is one round trip.".to_owned());
        let notes = notes.into_iter().collect();
        View { headline, notes, grid, drawing: Drawing::Bars(bars) }
    }

    /// Whether there is more in it than one value, which its table says as well.
    pub(super) fn is_worth_it(&self) -> bool {
        self.grid.rows.iter().flat_map(Row::known).count() > 1
    }

    pub(super) fn percentiles(headline: String, curves: Vec<Curve>) -> View {
        let grid = percentiles::table(&curves);
        let (names, note) = headlines::short(&grid);
        let lines = Lines {
            x: Axis::percentiles(percentiles::reach(&curves)),
            y: Axis::logarithmic(&grid.what, &values_of(&curves)),
            lines: curves.iter().zip(names).map(|(curve, name)| curve_line(curve, name)).collect(),
            others: Vec::new(),
            bound: None,
        };
        View {
            headline,
            notes: note.map(without).into_iter().collect(),
            grid,
            drawing: Drawing::Lines(lines),
        }
    }

    /// The same, with one more thing to know.
    pub(super) fn with_note(mut self, note: Option<&str>) -> View {
        self.notes.extend(note.map(str::to_owned));
        self
    }

    /// The chart as an element of a page, with this id.
    pub(super) fn svg(self, id: &str) -> String {
        let description = description(&self.grid);
        let words = Words { id, title: &self.headline, description: &description };
        match self.drawing {
            Drawing::Lines(lines) => lines.svg(&words),
            Drawing::Bars(bars) => bars.svg(&words),
        }
    }
}

fn without(prefix: String) -> String {
    format!("Names without their common beginning, “{}”.", prefix.trim_end())
}

fn description(grid: &Grid) -> String {
    let names: Vec<String> = grid.rows.iter().map(|row| row.label.clone()).collect();
    let what = format::capital(&grid.what);
    format!(
        "{what} by {}, of {}. The figures are in the table below.",
        grid.across,
        format::list(&names)
    )
}

fn has_figures(grid: &Grid, column: usize) -> bool {
    grid.rows.iter().any(|row| row.figures[column].is_some())
}

/// The middle half, where that is more than a point.
fn range(figure: &Figure) -> Option<(f64, f64)> {
    let spread = figure.spread;
    (spread.values > 1 && spread.low < spread.high).then_some((spread.low, spread.high))
}

fn lines(grid: &Grid, around: &Around<'_>) -> (Lines, Option<String>) {
    let places = places(grid);
    let (names, prefix) = headlines::short(grid);
    let own = values(&grid.rows);
    let bound = bound(around, &places);
    let bounds = bound.iter().flat_map(|it: &Line| it.points.iter().map(|point| point.y));
    let reach: Vec<f64> = around.reach.iter().copied().chain(own).chain(bounds).collect();
    let line = |row: &Row, name: String| Line { name, points: points(row, &places) };
    let lines = Lines {
        x: Axis::at(&axis_label(grid, around), &marks(grid, &places, around), !has_numbers(grid)),
        y: Axis::logarithmic(&grid.what, &reach),
        lines: grid.rows.iter().zip(names).map(|(row, name)| line(row, name)).collect(),
        others: around.others.iter().map(|row| line(row, String::new())).collect(),
        bound,
    };
    (lines, prefix.map(without))
}

fn axis_label(grid: &Grid, around: &Around<'_>) -> String {
    match around.is_over_rtt {
        true => format!("{}, ms (as measured)", grid.across),
        false => grid.across.to_owned(),
    }
}

/// Whether the columns stand at numbers.
fn has_numbers(grid: &Grid) -> bool {
    grid.columns.iter().all(|it| it.at > 0.0)
}

/// Where the columns stand: at their numbers, or side by side where they have none.
fn places(grid: &Grid) -> Vec<f64> {
    match has_numbers(grid) {
        true => grid.columns.iter().map(|it| it.at).collect(),
        false => (0..grid.columns.len()).map(|i| 2f64.powi(i as i32)).collect(),
    }
}

fn marks(grid: &Grid, places: &[f64], around: &Around<'_>) -> Vec<(f64, String)> {
    let label = |(column, at): (&super::grid::Column, &f64)| match column.at > 0.0 {
        true if around.is_over_rtt => (*at, format::coarse(column.at)),
        true if *at == column.at => (*at, format::tick(column.at)),
        _ => (*at, column.label.clone()),
    };
    grid.columns.iter().zip(places).map(label).collect()
}

fn bound(around: &Around<'_>, places: &[f64]) -> Option<Line> {
    let line = |name: &str, y: &dyn Fn(f64) -> f64| {
        let point = |at: &f64| Point { x: *at, y: y(*at), range: None, is_marked: false };
        Line { name: name.to_owned(), points: places.iter().map(point).collect() }
    };
    match around.tenfold {
        Some(tenfold) => Some(line("10 × depth 1", &|_| tenfold)),
        None => around.is_over_rtt.then(|| line("1 round trip", &|at| at)),
    }
}

fn points(row: &Row, places: &[f64]) -> Vec<Point> {
    let point = |(i, figure): (usize, &Figure)| {
        let (y, range) = (figure.spread.median, range(figure));
        Point { x: places[i], y, range, is_marked: true }
    };
    row.known().map(point).collect()
}

/// All figures of rows, with what their bars reach.
pub(super) fn values(rows: &[Row]) -> Vec<f64> {
    let figures = rows.iter().flat_map(Row::known);
    figures.flat_map(|(_, it)| [it.spread.low, it.spread.median, it.spread.high]).collect()
}

/// Those of a row side by side; of one column the largest on top.
fn bars(grid: &Grid) -> Bars {
    let known = |it: &usize| has_figures(grid, *it);
    let columns: Vec<usize> = (0..grid.columns.len()).filter(known).collect();
    let mut bars: Vec<Bar> =
        grid.rows.iter().flat_map(|row| bars_of(row, grid, &columns)).collect();
    match columns[..] {
        [only] => {
            bars.sort_by(|a, b| b.value.total_cmp(&a.value));
            Bars { label: format!("{} ({})", grid.what, grid.columns[only].label), bars }
        }
        _ => Bars { label: grid.what.clone(), bars },
    }
}

fn bars_of(row: &Row, grid: &Grid, columns: &[usize]) -> Vec<Bar> {
    let bar = |(at, figure): (usize, &Figure)| {
        let kind = columns.iter().position(|it| *it == at).unwrap_or_default();
        let name = match columns.len() {
            1 => row.label.clone(),
            _ => format!("{}, {}", row.label, grid.columns[at].label),
        };
        let value = figure.spread.median;
        let (range, text) = (range(figure), format::number(value));
        Bar { name, value, range, text, kind, cuts: Vec::new() }
    };
    row.known().map(bar).collect()
}

/// Fewer are bars: a line through two points says no more than these.
const COLUMNS_MIN: usize = 3;

/// More of them would be thinner than the lines between them.
const BLOCKS_MAX: f64 = 40.0;

fn values_of(curves: &[Curve]) -> Vec<f64> {
    curves.iter().flat_map(|curve| curve.points.iter().map(|it| it.1)).collect()
}

fn curve_line(curve: &Curve, name: String) -> Line {
    let point = |(part, ms): &(f64, f64)| Point {
        x: *part,
        y: *ms,
        range: None,
        is_marked: percentiles::is_marked(*part),
    };
    Line { name, points: curve.points.iter().map(point).collect() }
}
