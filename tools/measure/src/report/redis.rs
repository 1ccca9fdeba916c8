//! Tables and charts of commands of Redis: by round trip, by depth with ten times depth 1 as a line, and the
//! experiment of Redis' documentation beside what was published of it.

use super::chart::LINES_MAX;
use super::charts::{Group, over_rtt, tails_by_workload};
use super::format::{self, times};
use super::grid::{Column, Dimension, Figure, Grid, Layout, Row, grids};
use super::headlines;
use super::measure::Measure;
use super::plots::{Around, View};
use super::tables::{Titled, by_depth, cells_of, round_trips_and_depths};
use crate::redis::{PINGS, PUBLISHED_MS};
use crate::results::{Cell, Preset, Results};
use crate::spread::Spread;

/// The experiment, and all other cells.
fn split(results: &Results) -> (Vec<&Cell>, Vec<&Cell>) {
    let cells = cells_of(results, Preset::Redis).into_iter();
    cells.partition(|cell| cell.key.workload == "pings")
}

pub(super) fn tables(results: &Results) -> Vec<Titled> {
    let (pings, other) = split(results);
    let mut tables = round_trips_and_depths(&other, results.lines_of(Preset::Redis));
    let title = format!("{} PINGs", format::count(PINGS.into()));
    let place = String::new;
    tables.extend(pings_grid(&pings).map(|grid| Titled { title, place: place(), grid }));
    tables
}

pub(super) fn groups(results: &Results) -> Vec<Group> {
    let (pings, other) = split(results);
    let (deep, other) = by_depth(&other);
    let lines = results.lines_of(Preset::Redis);
    let group = |title: &str, views| Group { title: title.to_owned(), views };
    vec![
        group("Time by round trip", over_rtt(lines, &other)),
        group("Throughput by depth", over_depth(results, &deep)),
        group("10,000 PINGs", pings_view(&pings).into_iter().collect()),
        group("Percentiles", tails_by_workload(&other)),
    ]
}

fn over_depth(results: &Results, cells: &[&Cell]) -> Vec<View> {
    let sheets = &[Dimension::Workload, Dimension::Mode];
    let layout = Layout { sheets, column: Dimension::Depth, measure: Measure::Rate };
    let charts = grids(cells, results.lines_of(Preset::Redis), &layout).into_iter();
    charts.flat_map(|grid| grid.split(LINES_MAX)).map(depth_view).collect()
}

fn depth_view(grid: Grid) -> View {
    let headline = format!("{}: {}", grid.sheet[1], headlines::gain(&grid));
    let tenfold = tenfold(&grid);
    let note = tenfold.and_then(|_| reached(&grid));
    View::new(headline, grid, &Around { tenfold, ..Around::default() }).with_note(note.as_deref())
}

/// Ten times what the first line does at depth 1.
fn tenfold(grid: &Grid) -> Option<f64> {
    let first = grid.rows.first()?.figures.first()?.as_ref()?;
    (grid.columns.first()?.at == 1.0).then_some(10.0 * first.spread.median)
}

/// From which depth on the first line does ten times what it does at depth 1, and what it does at its best.
fn reached(grid: &Grid) -> Option<String> {
    let row = grid.rows.first()?;
    let first = row.figures.first()?.as_ref()?;
    let gains = row.known().filter_map(|(i, it)| Some((i, it.ratio(first)?.median)));
    let gains: Vec<(usize, f64)> = gains.collect();
    let best = times(gains.iter().map(|it| it.1).fold(0.0, f64::max));
    let whose = if grid.rows.len() > 1 { Dimension::place(&row.label) } else { String::new() };
    let reached = match gains.iter().find(|it| it.1 >= 10.0) {
        Some((i, _)) => format!("is reached at {}", grid.columns[*i].label),
        None => "is not reached".to_owned(),
    };
    Some(format!("Ten times depth 1{whose} {reached}; the best is {best}."))
}

/// What was found of the experiment, and what was published of it.
fn pings_grid(cells: &[&Cell]) -> Option<Grid> {
    let found = cells.iter().filter_map(|cell| {
        let values: Vec<f64> = cell.repetitions.iter().map(|it| it.elapsed_ms).collect();
        Some((cell.key.mode.clone()?, values))
    });
    let published = ["one by one, published", "pipeline, published"].into_iter().zip(PUBLISHED_MS);
    let published = published.map(|(name, ms)| (name.to_owned(), vec![ms]));
    let row = |(label, values): (String, Vec<f64>)| {
        let spread = Spread::of(values.iter().copied())?;
        let workload = "pings".to_owned();
        Some(Row { label, workload, figures: vec![Some(Figure { spread, values })] })
    };
    (!cells.is_empty()).then(|| Grid {
        sheet: Vec::new(),
        what: "ms for all".to_owned(),
        is_time: true,
        across: "experiment",
        corner: "mode".to_owned(),
        columns: vec![Column { label: format!("{} PINGs", format::count(PINGS.into())), at: 0.0 }],
        rows: found.chain(published).filter_map(row).collect(),
    })
}

fn pings_view(cells: &[&Cell]) -> Option<View> {
    let grid = pings_grid(cells)?;
    let ours = grid.only(|row| !row.label.ends_with("published"));
    let headline = headlines::contrast(&ours, &|column| format!(" for {column}"));
    Some(View::new(headline, grid, &Around::default()).with_note(Some(PUBLISHED)))
}

const PUBLISHED: &str = "Published: in Redis' own documentation (“Using pipelining to speedup Redis queries”), with a \
     Ruby client over loopback on a machine that it does not name.";

/// The experiment in a sentence.
pub(super) fn told(results: &Results) -> Option<String> {
    let (pings, _) = split(results);
    let of = |mode: &str| pings.iter().find(|it| it.key.mode.as_deref() == Some(mode));
    let (slow, fast) = (of("one by one")?, of("pipeline")?);
    let [long, short] = [slow, fast].map(|it| it.elapsed_ms().map(|it| it.median));
    let ratio = Measure::Elapsed.of(slow)?.ratio(&Measure::Elapsed.of(fast)?)?;
    if ratio.is_noise() {
        return None;
    }
    let [long_published, short_published] = PUBLISHED_MS.map(format::duration_ms);
    Some(format!(
        "{} PINGs take {} one after the other and {} as one pipeline, which is {} as fast ({long_published} and \
         {short_published} in Redis' own documentation).",
        format::count(PINGS.into()),
        format::duration_ms(long?),
        format::duration_ms(short?),
        times(ratio.median),
    ))
}
