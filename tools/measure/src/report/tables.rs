//! Which tables a report has: the same on the terminal, in the spreadsheet and under the charts.

use super::format;
use super::grid::{Dimension, Grid, Layout, grids, values};
use super::measure::Measure;
use super::redis;
use crate::results::{Cell, Line, Preset, Results};

/// A table with its name.
pub(super) struct Titled {
    pub(super) title: String,
    /// Where its figures are from, in words that end a sentence: ` at serializable`.
    pub(super) place: String,
    pub(super) grid: Grid,
}

/// The presets that were run, in the order of their definition.
pub(super) fn presets(results: &Results) -> Vec<Preset> {
    let mut presets: Vec<Preset> = results.cells.iter().map(|it| it.key.preset).collect();
    presets.sort_unstable();
    presets.dedup();
    presets
}

/// The cells of a preset.
pub(super) fn cells_of(results: &Results, preset: Preset) -> Vec<&Cell> {
    results.cells.iter().filter(|it| it.key.preset == preset).collect()
}

/// The tables of a preset; none where nothing of it was measured.
pub(super) fn tables(results: &Results, preset: Preset) -> Vec<Titled> {
    match preset {
        Preset::Concurrency => concurrency(results),
        Preset::Trips => trips(results),
        Preset::Fortunes | Preset::Script => throughput(results, preset),
        Preset::Redis => redis::tables(results),
    }
}

fn concurrency(results: &Results) -> Vec<Titled> {
    let (sheets, column) = (&CONCURRENCY_SHEETS, Dimension::Tasks);
    let cells = cells_of(results, Preset::Concurrency);
    let layout = Layout { sheets, column, measure: Measure::under_concurrency(&cells) };
    let is_one = values(&cells, Dimension::Rtt) < 2;
    let titled = |grid: Grid| {
        let named = grid.sheet.iter().take(if is_one { 1 } else { 2 });
        let words: Vec<String> = named.filter(|it| !it.is_empty()).cloned().collect();
        match words.is_empty() {
            true => Titled { title: "By number of tasks".to_owned(), place: String::new(), grid },
            false => {
                let words = words.join(", ");
                Titled { title: format::capital(&words), place: format!(" at {words}"), grid }
            }
        }
    };
    grids(&cells, &results.lines, &layout).into_iter().map(titled).collect()
}

/// A table of operations under concurrency is for one of each.
pub(super) const CONCURRENCY_SHEETS: [Dimension; 2] = [Dimension::Isolation, Dimension::Rtt];

fn trips(results: &Results) -> Vec<Titled> {
    round_trips_and_depths(&cells_of(results, Preset::Trips), &results.lines)
}

/// One table of all that was measured at several round trips, and one for each workload of several depths.
pub(super) fn round_trips_and_depths(cells: &[&Cell], lines: &[Line]) -> Vec<Titled> {
    let (deep, other) = by_depth(cells);
    let layout = Layout { sheets: &[], column: Dimension::Rtt, measure: Measure::Latency };
    let rest = grids(&other, lines, &layout).into_iter();
    let rest = rest.map(|grid| Titled {
        title: "Time by round trip".to_owned(),
        place: String::new(),
        grid,
    });
    let sheets = &[Dimension::Workload];
    let layout = Layout { sheets, measure: Measure::Rate, ..layout };
    let deep = grids(&deep, lines, &layout).into_iter();
    let deep = deep.map(|grid| Titled {
        title: by_depth_title(&grid.sheet[0]),
        place: String::new(),
        grid,
    });
    rest.chain(deep).collect()
}

fn by_depth_title(workload: &str) -> String {
    match workload {
        "depth" => "Throughput by depth".to_owned(),
        workload => format!("{workload} by depth"),
    }
}

fn throughput(results: &Results, preset: Preset) -> Vec<Titled> {
    let cells = cells_of(results, preset);
    let layout = Layout { sheets: &[], column: widest(&cells), measure: Measure::Rate };
    let grids = grids(&cells, &results.lines, &layout).into_iter();
    grids
        .map(|grid| Titled { title: format::capital(&grid.what), place: String::new(), grid })
        .collect()
}

/// Those of workloads whose depth was varied, and the others.
pub(super) fn by_depth<'a>(cells: &[&'a Cell]) -> (Vec<&'a Cell>, Vec<&'a Cell>) {
    let is_deep = |cell: &&&Cell| {
        let same = cells.iter().filter(|it| it.key.workload == cell.key.workload);
        values(&same.copied().collect::<Vec<_>>(), Dimension::Depth) > 1
    };
    let (deep, other): (Vec<_>, Vec<_>) = cells.iter().partition(is_deep);
    (deep, other)
}

/// What was varied most of what is a number.
pub(super) fn widest(cells: &[&Cell]) -> Dimension {
    let numbers = [Dimension::Rate, Dimension::Depth, Dimension::Rtt, Dimension::Tasks];
    // Of equals the last one is taken.
    numbers.into_iter().max_by_key(|it| values(cells, *it)).unwrap_or(Dimension::Tasks)
}

/// What a preset is called in headings.
pub(super) fn name(preset: Preset) -> &'static str {
    match preset {
        Preset::Concurrency => "Operations under concurrency",
        Preset::Trips => "What round trips cost",
        Preset::Fortunes => "A web page",
        Preset::Script => "Scripts",
        Preset::Redis => "Commands of Redis",
    }
}

/// A table's title with what its figures are.
pub(super) fn caption(titled: &Titled) -> String {
    match titled.title == format::capital(&titled.grid.what) {
        true => titled.title.clone(),
        false => format!("{}: {}", titled.title, titled.grid.what),
    }
}
