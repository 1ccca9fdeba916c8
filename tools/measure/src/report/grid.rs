//! Cells laid out in two dimensions: what tables, sheets and charts have in common.

use std::cmp::Ordering;

use super::format;
use super::measure::Measure;
use crate::results::{Cell, Isolation, Key, Line};
use crate::spread::{Ratio, Spread};

/// What cells can differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dimension {
    Workload,
    Mode,
    Isolation,
    Tasks,
    Connections,
    Depth,
    Rate,
    Rtt,
}

/// How a grid is to be laid out.
pub(super) struct Layout<'a> {
    /// One grid for each of their values.
    pub(super) sheets: &'a [Dimension],
    pub(super) column: Dimension,
    pub(super) measure: Measure,
}

/// One measure of cells that differ in two things. All other dimensions in which they differ are in
/// the names of the rows.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// What all cells have in common of what the layout has sheets for.
    pub(super) sheet: Vec<String>,
    /// What the figures are, with their unit.
    pub(super) what: String,
    /// Whether more is worse.
    pub(super) is_time: bool,
    /// What the columns' names say.
    pub(super) across: &'static str,
    /// What the rows' names say.
    pub(super) corner: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) label: String,
    /// Where it stands on an axis.
    pub(super) at: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) label: String,
    /// The workload of its cells: the first one, if they have several.
    pub(super) workload: String,
    pub(super) figures: Vec<Option<Figure>>,
}

/// A measure of one cell.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) spread: Spread,
    /// One for each repetition.
    pub(super) values: Vec<f64>,
}

impl Figure {
    /// This one in multiples of another.
    pub(super) fn ratio(&self, base: &Figure) -> Option<Ratio> {
        Ratio::of(&self.values, &base.values)
    }
}

impl Row {
    /// The figures that there are, with their columns' numbers.
    pub(super) fn known(&self) -> impl Iterator<Item = (usize, &Figure)> {
        self.figures.iter().enumerate().filter_map(|(i, it)| Some((i, it.as_ref()?)))
    }
}

impl Grid {
    /// Whether there is a figure in it.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.known().next().is_none())
    }

    /// The same with some of the rows only.
    pub(super) fn only(&self, keep: impl Fn(&Row) -> bool) -> Grid {
        let rows = self.rows.iter().filter(|row| keep(row)).cloned().collect();
        Grid { rows, ..self.clone() }
    }

    /// The last column in which there are this many figures.
    pub(super) fn last_column(&self, figures_min: usize) -> Option<usize> {
        let figures =
            |column: usize| self.rows.iter().filter(move |row| row.figures[column].is_some());
        (0..self.columns.len()).rev().find(|column| figures(*column).count() >= figures_min)
    }

    /// Grids of at most this many rows, as even as can be.
    pub(super) fn split(&self, rows_max: usize) -> Vec<Grid> {
        let parts = self.rows.len().div_ceil(rows_max).max(1);
        let each = self.rows.len().div_ceil(parts).max(1);
        let part = |rows: &[Row]| Grid { rows: rows.to_vec(), ..self.clone() };
        self.rows.chunks(each).map(part).collect()
    }
}

/// Grids of these cells, in the order in which the cells come.
pub(super) fn grids(cells: &[&Cell], lines: &[Line], layout: &Layout<'_>) -> Vec<Grid> {
    let mut sheets: Vec<(Vec<String>, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let name: Vec<String> = layout.sheets.iter().map(|it| it.label(&cell.key)).collect();
        match sheets.iter_mut().find(|(known, _)| *known == name) {
            Some((_, cells)) => cells.push(cell),
            None => sheets.push((name, vec![cell])),
        }
    }
    let of = |(name, cells): (Vec<String>, Vec<&Cell>)| grid(name, &cells, lines, layout);
    let grids = sheets.into_iter().filter_map(of);
    grids.filter(|grid| !grid.is_empty()).collect()
}

fn grid(sheet: Vec<String>, cells: &[&Cell], lines: &[Line], layout: &Layout<'_>) -> Option<Grid> {
    let columns = columns(cells, lines, layout.column);
    let names = row_dimensions(cells, layout);
    let mut rows: Vec<Row> = Vec::new();
    for cell in sorted(cells, &names) {
        let label = row_label(&names, &cell.key);
        let column = layout.column.label(&cell.key);
        let column = columns.iter().position(|it| it.label == column)?;
        let row = rows.iter().position(|row| row.label == label).unwrap_or_else(|| {
            let figures = vec![None; columns.len()];
            rows.push(Row { label, workload: cell.key.workload.clone(), figures });
            rows.len() - 1
        });
        rows[row].figures[column] = layout.measure.of(cell);
    }
    let unit = cells.first()?.unit;
    let unit = cells.iter().all(|cell| cell.unit == unit).then_some(unit);
    Some(Grid {
        sheet,
        what: layout.measure.heading(unit),
        is_time: layout.measure.is_time(),
        across: layout.column.heading(),
        corner: names.iter().map(|it| it.heading()).collect::<Vec<_>>().join(", "),
        columns,
        rows,
    })
}

fn columns(cells: &[&Cell], lines: &[Line], dimension: Dimension) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for cell in cells {
        let label = dimension.label(&cell.key);
        if columns.iter().all(|it| it.label != label) {
            columns.push(Column { label, at: dimension.number(&cell.key, lines) });
        }
    }
    columns.sort_by(|a, b| a.at.total_cmp(&b.at));
    columns
}

/// What the cells of a grid differ in beside its column; their workload if in nothing else. A number
/// that follows from the rest is left out: it would give each cell a row of its own.
fn row_dimensions(cells: &[&Cell], layout: &Layout<'_>) -> Vec<Dimension> {
    let free = |it: &Dimension| *it != layout.column && !layout.sheets.contains(it);
    let names: Vec<Dimension> = varying(cells).into_iter().filter(free).collect();
    let names = needed(&keys(cells), names, Some(layout.column));
    let fallback = [Dimension::Workload, Dimension::Mode, Dimension::Isolation, Dimension::Tasks];
    match names.is_empty() {
        true => fallback.into_iter().find(free).into_iter().collect(),
        false => names,
    }
}

/// Without numbers that are not needed to tell these keys from each other.
pub(super) fn needed(
    keys: &[&Key],
    names: Vec<Dimension>,
    column: Option<Dimension>,
) -> Vec<Dimension> {
    let distinct = |names: &[Dimension]| {
        let all = || names.iter().chain(&column);
        let label = |key: &&Key| all().map(|it| it.label(key)).collect::<Vec<_>>();
        let mut labels: Vec<Vec<String>> = keys.iter().map(label).collect();
        labels.sort_unstable();
        labels.dedup();
        labels.len()
    };
    let full = distinct(&names);
    NUMBERS.into_iter().fold(names, |names, number| {
        let without: Vec<Dimension> = names.iter().copied().filter(|it| *it != number).collect();
        if distinct(&without) == full { without } else { names }
    })
}

fn keys<'a>(cells: &[&'a Cell]) -> Vec<&'a Key> {
    cells.iter().map(|cell| &cell.key).collect()
}

/// The first one is what is missed least.
const NUMBERS: [Dimension; 5] =
    [Dimension::Connections, Dimension::Tasks, Dimension::Rate, Dimension::Depth, Dimension::Rtt];

/// The dimensions in which cells differ.
pub(super) fn varying(cells: &[&Cell]) -> Vec<Dimension> {
    let differs = |it: &Dimension| values(cells, *it) > 1;
    Dimension::ALL.into_iter().filter(differs).collect()
}

/// How many values cells have in a dimension.
pub(super) fn values(cells: &[&Cell], dimension: Dimension) -> usize {
    let mut labels: Vec<String> = cells.iter().map(|it| dimension.label(&it.key)).collect();
    labels.sort_unstable();
    labels.dedup();
    labels.len()
}

/// By what is a number or a level; names stay in the order in which they come.
fn sorted<'a>(cells: &[&'a Cell], names: &[Dimension]) -> Vec<&'a Cell> {
    let mut sorted = cells.to_vec();
    sorted.sort_by(|a, b| {
        let each = names.iter().map(|it| it.order(&a.key, &b.key));
        each.fold(Ordering::Equal, Ordering::then)
    });
    sorted
}

/// What tells these cells from each other.
pub(super) fn row_names(cells: &[&Cell]) -> Vec<String> {
    let differing = needed(&keys(cells), varying(cells), None);
    let names = if differing.is_empty() { vec![Dimension::Workload] } else { differing };
    cells.iter().map(|cell| row_label(&names, &cell.key)).collect()
}

/// A cell in these dimensions only.
pub(super) fn row_label(names: &[Dimension], key: &Key) -> String {
    let labels = names.iter().map(|it| it.label(key)).filter(|it| !it.is_empty());
    labels.collect::<Vec<_>>().join(", ")
}

impl Dimension {
    pub(super) const ALL: [Dimension; 8] = [
        Dimension::Workload,
        Dimension::Mode,
        Dimension::Isolation,
        Dimension::Depth,
        Dimension::Tasks,
        Dimension::Connections,
        Dimension::Rate,
        Dimension::Rtt,
    ];

    /// A cell's value in words.
    pub(super) fn label(self, key: &Key) -> String {
        match self {
            Dimension::Workload => key.workload.clone(),
            Dimension::Mode => key.mode.clone().unwrap_or_default(),
            Dimension::Isolation => key.isolation.map_or("", Isolation::name).to_owned(),
            Dimension::Tasks => format::several(key.tasks as usize, "task"),
            Dimension::Connections => format::several(key.connections as usize, "connection"),
            Dimension::Depth => {
                key.depth.map_or(String::new(), |it| format!("depth {}", format::count(it.into())))
            }
            Dimension::Rate => key
                .rate
                .map_or("as fast as it can".to_owned(), |it| format!("{}/s", format::tick(it))),
            Dimension::Rtt => format!("+{} ms", format::tick_or_zero(key.rtt_added_ms)),
        }
    }

    /// Where that is, in words that end a sentence: ` with 800 tasks`, ` with 5 ms added`.
    pub(super) fn place(label: &str) -> String {
        match label.strip_prefix('+') {
            Some(added) => format!(" with {added} added"),
            None => format!(" with {label}"),
        }
    }

    /// What its values are.
    pub(super) fn heading(self) -> &'static str {
        match self {
            Dimension::Workload => "operation",
            Dimension::Mode => "mode",
            Dimension::Isolation => "isolation level",
            Dimension::Tasks => "tasks at once",
            Dimension::Connections => "connections",
            Dimension::Depth => "in flight at once (depth)",
            Dimension::Rate => "intended operations per second",
            Dimension::Rtt => "round trip",
        }
    }

    /// Where a cell stands on an axis: 0 for what has no number.
    fn number(self, key: &Key, lines: &[Line]) -> f64 {
        match self {
            Dimension::Tasks => key.tasks.into(),
            Dimension::Connections => key.connections.into(),
            Dimension::Depth => key.depth.unwrap_or_default().into(),
            Dimension::Rate => key.rate.unwrap_or_default(),
            Dimension::Rtt => rtt_ms(key, lines),
            Dimension::Isolation => key.isolation.map_or(0.0, |it| it as u8 as f64),
            Dimension::Workload | Dimension::Mode => 0.0,
        }
    }

    pub(super) fn order(self, a: &Key, b: &Key) -> Ordering {
        self.number(a, &[]).total_cmp(&self.number(b, &[]))
    }
}

/// The round trip of a cell as it was measured; as it was added, where it was not.
pub(super) fn rtt_ms(key: &Key, lines: &[Line]) -> f64 {
    let line = lines.iter().find(|it| it.rtt_added_ms == key.rtt_added_ms);
    line.map_or(key.rtt_added_ms, |it| it.rtt_ms.median)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::results::{Preset, Unit};

    pub(in crate::report) fn cell(tasks: u32, depth: u32, connections: u32, mode: &str) -> Cell {
        let key = Key {
            preset: Preset::Trips,
            workload: "selects".to_owned(),
            mode: Some(mode.to_owned()),
            isolation: None,
            tasks,
            connections,
            depth: Some(depth),
            rate: None,
            rtt_added_ms: 0.0,
        };
        let repetition = |elapsed_ms| crate::results::Repetition {
            elapsed_ms,
            operations: 10,
            ..Default::default()
        };
        Cell {
            key,
            unit: Unit::Statement,
            repetitions: vec![repetition(1.0), repetition(2.0)],
            latency: None,
            lag: None,
            retries: Default::default(),
            errors: Default::default(),
            expected_errors: Default::default(),
            awaited: Vec::new(),
            waits: Default::default(),
            timeline: None,
        }
    }

    #[test]
    fn a_number_that_follows_from_the_rest_makes_no_rows() {
        let cells = [
            cell(1, 1, 1, "shared"),
            cell(8, 8, 1, "shared"),
            cell(1, 1, 4, "pipeline"),
            cell(1, 8, 4, "pipeline"),
        ];
        let cells: Vec<&Cell> = cells.iter().collect();
        let (sheets, column) = (&[Dimension::Workload], Dimension::Depth);
        let grids = grids(&cells, &[], &Layout { sheets, column, measure: Measure::Rate });
        let rows: Vec<&str> = grids[0].rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(rows, ["shared", "pipeline"]);
        assert_eq!(grids[0].columns.len(), 2);
        assert!(grids[0].rows.iter().all(|row| row.known().count() == 2));
    }
}
