//! Rows, the table that people read, and `target/bench.json` for programs.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use comfy_table::{Cell, CellAlignment, Color, Table, presets};
use serde::Serialize;

use crate::environment::Environment;
use crate::measure::{Pairs, Sample, Spread};

/// One figure beside what it is compared with.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub name: String,
    /// Of `ours` and `peer`.
    pub unit: &'static str,
    pub ours: f64,
    pub peer: Option<f64>,
    pub peer_version: Option<String>,
    /// Median of ours ÷ peer's, pair by pair.
    pub ratio: Option<f64>,
    /// Quartiles of the ratio; of `ours` where there is no ratio.
    pub spread: Option<[f64; 2]>,
    /// The bar for `ratio`, or for `ours` if there is no ratio.
    pub bar: Option<f64>,
    /// `max`: at most the bar; `min`: at least.
    pub bar_is: &'static str,
    pub holds: Option<bool>,
    /// How each side was run, and why a figure is missing.
    pub note: String,
    /// `ours` round by round, where there were rounds.
    #[serde(skip)]
    pub rounds: Vec<f64>,
}

impl Row {
    /// A figure of ours alone; `bar` is the most that it may be.
    pub fn alone(name: &str, unit: &'static str, ours: Spread, bar: Option<f64>) -> Row {
        Row {
            name: name.to_owned(),
            unit,
            ours: ours.median,
            peer: None,
            peer_version: None,
            ratio: None,
            spread: Some([ours.low, ours.high]),
            bar,
            bar_is: "max",
            holds: bar.map(|bar| ours.median <= bar),
            note: String::new(),
            rounds: Vec::new(),
        }
    }

    /// A figure of ours in multiples of one that is given.
    pub fn multiple(
        name: &str,
        unit: &'static str,
        (ours, of): (Spread, f64),
        what: &str,
        bar: f64,
    ) -> Row {
        let ratio = ours.map(|ours| ours / of);
        Row {
            peer: Some(of),
            peer_version: Some(what.to_owned()),
            ratio: Some(ratio.median),
            spread: Some([ratio.low, ratio.high]),
            bar: Some(bar),
            holds: Some(ratio.median <= bar),
            ..Row::alone(name, unit, ours, None)
        }
    }

    /// A row that could not be measured, and why.
    pub fn skipped(name: &str, why: &str) -> Row {
        let nothing = Spread { low: f64::NAN, median: f64::NAN, high: f64::NAN };
        Row { spread: None, ..Row::alone(name, "", nothing, None) }.note(&format!("skipped: {why}"))
    }

    /// The bar is the most that the figure may be.
    pub fn at_most(mut self, bar: f64) -> Row {
        self.bar = Some(bar);
        self.holds = Some(self.ratio.unwrap_or(self.ours) <= bar);
        self
    }

    /// The bar is the least that the figure may be.
    pub fn at_least(mut self, bar: f64) -> Row {
        self.bar = Some(bar);
        self.bar_is = "min";
        self.holds = Some(self.ratio.unwrap_or(self.ours) >= bar);
        self
    }

    pub fn note(mut self, note: &str) -> Row {
        self.note = note.to_owned();
        self
    }
}

/// Bars of a comparison.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bars {
    pub cpu: Option<f64>,
    pub time: Option<f64>,
}

/// The rows of a comparison: CPU and time.
pub fn compared(name: &str, peer: &str, pairs: &Pairs, bars: Bars, note: &str) -> Vec<Row> {
    let row = |kind: &str, measure: fn(&Sample) -> f64, bar: Option<f64>| {
        let (ours, peers, ratio) = pairs.compare(measure);
        Row {
            name: format!("{name}.{kind}"),
            unit: "µs/op",
            ours,
            peer: Some(peers),
            peer_version: Some(peer.to_owned()),
            ratio: Some(ratio.median),
            spread: Some([ratio.low, ratio.high]),
            bar,
            bar_is: "max",
            holds: bar.map(|bar| ratio.median <= bar),
            note: note.to_owned(),
            rounds: pairs.ours.iter().map(measure).collect(),
        }
    };
    vec![row("cpu", Sample::cpu_us, bars.cpu), row("time", Sample::wall_us, bars.time)]
}

/// Operations per second, of which more is better.
pub fn rate(name: &str, peer: &str, pairs: &Pairs) -> Row {
    let rates = |samples: &[Sample]| -> Vec<f64> { samples.iter().map(Sample::rate).collect() };
    beside(&format!("{name}.rate"), "1/s", peer, (&rates(&pairs.ours), &rates(&pairs.peer)))
}

/// Figures that were taken in turns, ours and a peer's; without a bar.
pub fn beside(name: &str, unit: &'static str, peer: &str, (ours, peers): (&[f64], &[f64])) -> Row {
    let ratio = Spread::of(ours.iter().zip(peers).map(|(ours, peer)| ours / peer));
    let median = |values: &[f64]| Spread::of(values.iter().copied());
    Row {
        peer: Some(median(peers).median),
        peer_version: Some(peer.to_owned()),
        ratio: Some(ratio.median),
        spread: Some([ratio.low, ratio.high]),
        rounds: ours.to_vec(),
        ..Row::alone(name, unit, median(ours), None)
    }
}

/// Everything that was measured in one sitting.
#[derive(Debug)]
pub struct Report {
    environment: Environment,
    rows: Vec<Row>,
}

impl Report {
    pub fn new(environment: Environment) -> Report {
        Report { environment, rows: Vec::new() }
    }

    /// Keeps the rows that were asked for; a name may also ask for a whole group.
    pub fn add(&mut self, rows: Vec<Row>, only: &str) {
        let (named, others): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.name.contains(only));
        self.rows.extend(if named.is_empty() { others } else { named });
    }

    /// Writes `target/bench.json` of the repository, and what it was measured on beside it.
    pub fn write(&self) -> Result<PathBuf> {
        write("bench-environment.json", &self.environment)?;
        write("bench.json", &self.rows)
    }
}

/// Writes a file of JSON into `target` of the repository.
pub fn write(name: &str, what: &impl Serialize) -> Result<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let (path, text) = (target.join(name), serde_json::to_string_pretty(what)?);
    let written = std::fs::create_dir_all(&target).and_then(|()| std::fs::write(&path, text));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.canonicalize().unwrap_or(path))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["", "ours", "peer", "unit", "ratio", "quartiles", "bar", "", "peer is"];
        let table = table(&header, &[1, 2, 4, 5, 6], self.rows.iter().map(cells));
        writeln!(f, "{}\n{table}", self.environment)?;
        // The figures of one run share their note.
        for rows in self.rows.chunk_by(|a, b| a.note == b.note) {
            if let [row, ..] = rows
                && !row.note.is_empty()
            {
                writeln!(f, "{}: {}", row.name, row.note)?;
            }
        }
        let judged = self.rows.iter().filter(|row| row.holds.is_some()).count();
        let held = self.rows.iter().filter(|row| row.holds == Some(true)).count();
        write!(f, "{held} of {judged} bars hold")
    }
}

/// A table whose columns of figures stand to the right.
pub fn table(header: &[&str], right: &[usize], rows: impl Iterator<Item = Vec<Cell>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(header.iter().copied());
    table.add_rows(rows);
    for column in right {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(row: &Row) -> Vec<Cell> {
    let figure = |value: Option<f64>| value.map_or(String::new(), short);
    let bar = row.bar.map_or(String::new(), |bar| {
        format!("{} {bar:.2}", if row.bar_is == "min" { "≥" } else { "≤" })
    });
    let holds = match row.holds {
        Some(true) => Cell::new("holds").fg(Color::Green),
        Some(false) => Cell::new("MISSED").fg(Color::Red),
        None => Cell::new(""),
    };
    let spread = row.spread.filter(|[low, _]| low.is_finite() && row.bar.or(row.ratio).is_some());
    vec![
        Cell::new(&row.name),
        Cell::new(short(row.ours)),
        Cell::new(figure(row.peer)),
        Cell::new(row.unit),
        Cell::new(row.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"))),
        Cell::new(spread.map_or(String::new(), |[low, high]| format!("{low:.2}–{high:.2}"))),
        Cell::new(bar),
        holds,
        Cell::new(row.peer_version.as_deref().unwrap_or_default()),
    ]
}

/// Three significant figures or so.
pub fn short(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "–".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
