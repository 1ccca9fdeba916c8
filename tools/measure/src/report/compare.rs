//! Compares two runs, cell by cell.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};

use super::format::{self, times};
use super::grid::{Dimension, needed, row_label};
use super::setting;
use crate::results::{Cell, Key, Repetition, Results, Server};
use crate::spread::{REPETITIONS_MIN, Ratio};

/// Run B compared with run A. Displays as a table, with warnings in front.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Other differences between the runs that may explain a difference of figures, a line each.
    pub warnings: Vec<String>,
    /// Cells that both runs have, in the order of A, and cells that differ only in the workload's
    /// name.
    pub pairs: Vec<Pair>,
    /// Cells that only A has.
    pub only_a: Vec<Key>,
    /// Cells that only B has.
    pub only_b: Vec<Key>,
}

/// A cell of both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Which it is, as A has it.
    pub key: Key,
    /// The name of its workload in B, if only that differs.
    pub name_in_b: Option<String>,
    /// Time per operation of B as a multiple of A's; with a rate, the ratio of the median
    /// latencies. `None` if no operation succeeded in either.
    pub time: Option<Ratio>,
    /// The 99th percentile of latency of B as a multiple of A's. It is one figure for each run, so
    /// its noise is unknown.
    pub p99: Option<f64>,
}

impl Pair {
    /// Whether B takes longer than this many times as long as A, and that is more than noise.
    pub fn is_above(&self, limit: f64) -> bool {
        self.time.is_some_and(|ratio| ratio.median > limit && !ratio.is_noise())
    }
}

impl Comparison {
    /// The cells in which B takes more than this many times as long as A. Cells within the noise,
    /// and those that only one run has, are left out.
    pub fn fails_above(&self, limit: f64) -> Vec<&Pair> {
        self.pairs.iter().filter(|it| it.is_above(limit)).collect()
    }

    /// One line that says which cells the runs have, if they have none in common.
    pub fn nothing_in_common(&self) -> Option<String> {
        let has = |keys: &[Key]| match keys {
            [] => "nothing".to_owned(),
            [only] => key_in_words(only),
            [first, rest @ ..] => format!("{} and {} more", key_in_words(first), rest.len()),
        };
        let (a, b) = (has(&self.only_a), has(&self.only_b));
        let why = || format!("the runs have no cell in common: A has {a}; B has {b}");
        self.pairs.is_empty().then(why)
    }
}

/// Compares run B with run A. Cells correspond if their keys are equal. Of the remaining cells, two
/// are compared if they differ only in the name of their workload and the match is unambiguous.
pub fn compare(a: &Results, b: &Results) -> Comparison {
    let mut pairs = Vec::new();
    let (mut only_a, mut only_b) = (Vec::new(), Vec::new());
    for cell in &a.cells {
        match partner(cell, &a.cells, &b.cells) {
            Some(other) => pairs.push(pair(cell, other)),
            None => only_a.push(cell.key.clone()),
        }
    }
    for cell in &b.cells {
        if partner(cell, &b.cells, &a.cells).is_none() {
            only_b.push(cell.key.clone());
        }
    }
    Comparison { warnings: warnings(a, b), pairs, only_a, only_b }
}

/// The cell of the other run that a cell is compared with.
fn partner<'a>(cell: &Cell, own: &[Cell], others: &'a [Cell]) -> Option<&'a Cell> {
    if let Some(same) = others.iter().find(|it| it.key == cell.key) {
        return Some(same);
    }
    let alike = |it: &Cell| {
        let renamed = Key { workload: cell.key.workload.clone(), ..it.key.clone() };
        it.unit == cell.unit && renamed == cell.key
    };
    let is_left = |it: &Cell, others: &[Cell]| others.iter().all(|other| other.key != it.key);
    let mut theirs = others.iter().filter(|it| alike(it) && is_left(it, own));
    let ours = own.iter().filter(|it| alike(it) && is_left(it, others));
    match (theirs.next(), theirs.next(), ours.count()) {
        (Some(only), None, 1) => Some(only),
        _ => None,
    }
}

fn pair(a: &Cell, b: &Cell) -> Pair {
    let times =
        |cell: &Cell| -> Vec<f64> { cell.repetitions.iter().filter_map(time_of(cell)).collect() };
    let p99 = |cell: &Cell| cell.latency.as_ref().map(|it| it.p99_us as f64).filter(|it| *it > 0.0);
    let time = Ratio::of(&times(b), &times(a));
    let p99 = p99(b).zip(p99(a)).map(|(b, a)| b / a);
    let name_in_b = (a.key.workload != b.key.workload).then(|| b.key.workload.clone());
    Pair { key: a.key.clone(), name_in_b, time, p99 }
}

/// The time of a repetition per operation. With a rate, which is the same in both runs, the median
/// latency.
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
    let version = |it: &Results| it.onetrip_version.clone();
    let facts: [(&str, [String; 2]); 3] = [
        ("the server's version", [products(a, b), products(b, a)]),
        ("the client's machine", [client(a), client(b)]),
        ("onetrip's version", [version(a), version(b)]),
    ];
    let differing = facts.into_iter().filter(|(_, [a, b])| a != b);
    let facts = differing.map(|(what, [a, b])| format!("{what} differs: {a} in A, {b} in B"));
    facts.chain(settings(a, b)).chain(round_trips(a, b)).chain(stopped(a, b)).collect()
}

/// The servers of a run, without a Redis or a PostgreSQL where the other run measured none: then the
/// cells of it say so.
fn products(run: &Results, other: &Results) -> String {
    let others = setting::servers(other);
    let is_postgres = |it: &Server| it.product == "PostgreSQL";
    let is_of_both = |it: &&Server| others.iter().any(|that| is_postgres(that) == is_postgres(it));
    let of = |it: &Server| format!("{} {}", it.product, it.version);
    let both = setting::servers(run).into_iter().filter(is_of_both).map(of);
    both.collect::<Vec<_>>().join(" and ")
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

/// The differing round trips of the lines that both runs have.
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

/// A round trip that differs by more than this gives a warning.
const RTT_TOLERANCE: f64 = 0.1;

fn stopped(a: &Results, b: &Results) -> Vec<String> {
    let runs = [("A", &a.stopped), ("B", &b.stopped)];
    let stopped = runs.into_iter().filter_map(|(name, why)| Some((name, why.as_ref()?)));
    stopped.map(|(name, why)| format!("{name} is not whole: {why}")).collect()
}

/// A cell's key as readable text.
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
        if let Some(why) = self.nothing_in_common() {
            return f.write_str(&why);
        }
        writeln!(f, "{}", table(&self.pairs))?;
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

/// The dimensions in which the cells differ; others are not repeated in each line.
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
    let name = match &pair.name_in_b {
        Some(name) => format!("{} → {name}", pair.key.workload),
        None => pair.key.workload.clone(),
    };
    [
        row_label(names, &Key { workload: name, ..pair.key.clone() }),
        ratio.map(|it| times(it.median)).unwrap_or_default(),
        ratio.map(|it| format!("{:.2}–{:.2}", it.low, it.high)).unwrap_or_default(),
        verdict.to_owned(),
        pair.p99.map(times).unwrap_or_default(),
    ]
}
