//! One run against another, cell by cell.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};

use super::format::{self, times};
use super::grid::{Dimension, needed, row_label};
use super::setting;
use crate::results::{Cell, Key, Repetition, Results, Server};
use crate::spread::{REPETITIONS_MIN, Ratio};

/// Run B held against run A. Shown as a table, with warnings in front.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What else the runs differ in, a line each: a difference of figures may come from it.
    pub warnings: Vec<String>,
    /// Cells that both have, in the order of A.
    pub pairs: Vec<Pair>,
    /// Cells that only A has.
    pub only_a: Vec<Key>,
    /// Cells that only B has.
    pub only_b: Vec<Key>,
}

/// A cell of both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Which it is.
    pub key: Key,
    /// Time per operation of B in multiples of A's; where operations came at a rate, the median of their
    /// latencies. None if in either of them nothing ended well.
    pub time: Option<Ratio>,
    /// The 99th percentile of latency of B in multiples of A's. It is one figure for each run, so
    /// nothing is known of its noise.
    pub p99: Option<f64>,
}

impl Pair {
    /// Whether B takes longer than this many times as long as A, and that is more than noise.
    pub fn is_above(&self, limit: f64) -> bool {
        self.time.is_some_and(|ratio| ratio.median > limit && !ratio.is_noise())
    }
}

impl Comparison {
    /// The cells of which B takes longer than this many times as long as A: those within the noise,
    /// and those that only one of them has, are not among them.
    pub fn fails_above(&self, limit: f64) -> Vec<&Pair> {
        self.pairs.iter().filter(|it| it.is_above(limit)).collect()
    }
}

/// Holds run B against run A. Cells are the same if their keys are.
pub fn compare(a: &Results, b: &Results) -> Comparison {
    let with = |cell: &&Cell, others: &Results| others.cells.iter().any(|it| it.key == cell.key);
    let only = |own: &Results, other: &Results| {
        own.cells.iter().filter(|it| !with(it, other)).map(|it| it.key.clone()).collect()
    };
    let pairs = a.cells.iter().filter_map(|one| {
        let other = b.cells.iter().find(|it| it.key == one.key)?;
        Some(pair(one, other))
    });
    let warnings = warnings(a, b);
    Comparison { warnings, pairs: pairs.collect(), only_a: only(a, b), only_b: only(b, a) }
}

fn pair(a: &Cell, b: &Cell) -> Pair {
    let times =
        |cell: &Cell| -> Vec<f64> { cell.repetitions.iter().filter_map(time_of(cell)).collect() };
    let p99 = |cell: &Cell| cell.latency.as_ref().map(|it| it.p99_us as f64).filter(|it| *it > 0.0);
    let time = Ratio::of(&times(b), &times(a));
    let p99 = p99(b).zip(p99(a)).map(|(b, a)| b / a);
    Pair { key: a.key.clone(), time, p99 }
}

/// What a repetition took: per operation; where they came at a rate, which is the same in both, the median
/// of their latencies.
fn time_of(cell: &Cell) -> impl Fn(&Repetition) -> Option<f64> {
    let is_open = cell.key.rate.is_some();
    move |it| match is_open {
        true => it.p50_us.map(|us| us as f64),
        false => Some(1.0 / it.rate()),
    }
}

fn warnings(a: &Results, b: &Results) -> Vec<String> {
    let client = |it: &Results| {
        let cpus = format::several(it.client.cpus, "CPU");
        let threads = format::several(it.client.threads, "thread");
        format!("{}, {cpus}, {threads}", it.client.system)
    };
    let product = |it: &Results| {
        let of = |it: &Server| format!("{} {}", it.product, it.version);
        setting::servers(it).into_iter().map(of).collect::<Vec<_>>().join(" and ")
    };
    let version = |it: &Results| it.onetrip_version.clone();
    let facts: [(&str, [String; 2]); 3] = [
        ("the server's version", [product(a), product(b)]),
        ("the client's machine", [client(a), client(b)]),
        ("onetrip's version", [version(a), version(b)]),
    ];
    let differing = facts.into_iter().filter(|(_, [a, b])| a != b);
    let facts = differing.map(|(what, [a, b])| format!("{what} differs: {a} in A, {b} in B"));
    facts.chain(settings(a, b)).chain(round_trips(a, b)).chain(stopped(a, b)).collect()
}

fn settings(a: &Results, b: &Results) -> Vec<String> {
    let (a, b) = (&a.server.settings, &b.server.settings);
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let value = |of: Option<&String>| of.cloned().unwrap_or_else(|| "not known".to_owned());
    let differing = names.into_iter().filter(|name| a.get(*name) != b.get(*name));
    let line = |name: &String| {
        let (a, b) = (value(a.get(name)), value(b.get(name)));
        format!("the setting {name} differs: {a} in A, {b} in B")
    };
    differing.map(line).collect()
}

/// Of the lines that both have.
fn round_trips(a: &Results, b: &Results) -> Vec<String> {
    let both = a.lines.iter().filter_map(|one| {
        let other = b.lines.iter().find(|it| it.rtt_added_ms == one.rtt_added_ms)?;
        Some((one.rtt_ms.median, other.rtt_ms.median, one.rtt_added_ms))
    });
    let differing = both.filter(|(a, b, _)| (b / a - 1.0).abs() > RTT_TOLERANCE);
    let line = |(a, b, added): (f64, f64, f64)| {
        let (a, b, added) = (format::number(a), format::number(b), format::tick_or_zero(added));
        format!("the round trip with {added} ms added differs: {a} ms in A, {b} ms in B")
    };
    differing.map(line).collect()
}

/// A round trip that differs by more is told of.
const RTT_TOLERANCE: f64 = 0.1;

fn stopped(a: &Results, b: &Results) -> Vec<String> {
    let runs = [("A", &a.stopped), ("B", &b.stopped)];
    let stopped = runs.into_iter().filter_map(|(name, why)| Some((name, why.as_ref()?)));
    stopped.map(|(name, why)| format!("{name} is not whole: {why}")).collect()
}

/// A cell's key as people read it.
pub(super) fn key_in_words(key: &Key) -> String {
    let isolation = Dimension::Isolation.label(key);
    let mut words = vec![key.workload.clone(), Dimension::Mode.label(key), isolation];
    words.push(Dimension::Tasks.label(key));
    words.push(Dimension::Connections.label(key));
    words.push(Dimension::Depth.label(key));
    words.extend(key.rate.map(|_| Dimension::Rate.label(key)));
    words.extend((key.rtt_added_ms > 0.0).then(|| Dimension::Rtt.label(key)));
    words.retain(|it| !it.is_empty());
    words.join(", ")
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        match self.pairs.is_empty() {
            true => writeln!(f, "The runs have no cell in common.")?,
            false => writeln!(f, "{}", table(&self.pairs))?,
        }
        for (name, keys) in [("A", &self.only_a), ("B", &self.only_b)] {
            for key in keys {
                writeln!(f, "only in {name}: {}", key_in_words(key))?;
            }
        }
        write!(
            f,
            "Time per operation of B in multiples of A's (with a rate, the median latency): above 1, B is \
             slower."
        )
    }
}

fn table(pairs: &[Pair]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(118);
    table.remove_style(TableComponent::HorizontalLines);
    table.remove_style(TableComponent::MiddleIntersections);
    table.set_header(["", "time B/A", "nine of ten ratios", "", "p99 B/A"]);
    let names = names(pairs);
    for pair in pairs {
        table.add_row(row(pair, &names));
    }
    for column in [1, 2, 4] {
        let column = table.column_mut(column).expect("the header has five");
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// What tells the cells from each other: what is the same for all is not repeated in each line.
fn names(pairs: &[Pair]) -> Vec<Dimension> {
    let first = pairs.first().map(|it| &it.key);
    let differs = |it: &Dimension| {
        let of = |key: &Key| it.label(key);
        *it == Dimension::Workload || pairs.iter().any(|pair| Some(of(&pair.key)) != first.map(of))
    };
    let keys: Vec<&Key> = pairs.iter().map(|pair| &pair.key).collect();
    needed(&keys, Dimension::ALL.into_iter().filter(differs).collect(), None)
}

fn row(pair: &Pair, names: &[Dimension]) -> [String; 5] {
    let ratio = pair.time;
    let verdict = match ratio {
        None => "nothing to compare",
        Some(ratio) if ratio.repetitions < REPETITIONS_MIN => "too few repetitions",
        Some(ratio) if ratio.is_noise() => "within the noise",
        Some(ratio) if ratio.median > 1.0 => "slower",
        Some(_) => "faster",
    };
    [
        row_label(names, &pair.key),
        ratio.map(|it| times(it.median)).unwrap_or_default(),
        ratio.map(|it| format!("{:.2}–{:.2}", it.low, it.high)).unwrap_or_default(),
        verdict.to_owned(),
        pair.p99.map(times).unwrap_or_default(),
    ]
}
