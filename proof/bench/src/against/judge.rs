//! What a row of both builds comes to, and the table.

use std::fmt;

use comfy_table::{Cell, Color};
use serde::Serialize;

use crate::environment::Environment;
use crate::measure::Spread;
use crate::report::{short, table};
use crate::turns::Figure;

/// A lower quartile of the ratio above it is a failure, if it is seen twice.
const RATIO_MAX: f64 = 1.05;

/// The same of what is counted.
const COUNTED_MAX: f64 = 1.01;

/// Counts for each operation that differ by less are alike: now and then a table or a buffer grows.
const ALIKE: f64 = 0.05;

/// One figure of both builds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub name: String,
    unit: String,
    new: f64,
    old: f64,
    /// Median of new ÷ old, pair by pair; of old ÷ new where more is better.
    ratio: f64,
    quartiles: [f64; 2],
    /// What the lower quartile may be; none where the row is only shown.
    bar: Option<f64>,
    pub holds: Option<bool>,
    /// The quartiles of the second run, where the first one failed.
    repeated: Option<[f64; 2]>,
    note: String,
}

impl Row {
    pub fn of(new: &Figure, old: &Figure) -> Row {
        let median = |figure: &Figure| Spread::of(figure.rounds.iter().copied()).median;
        let more_is_better = new.unit.ends_with("/s") || new.unit.starts_with('×');
        let is_count = bar(&new.name, &new.unit) == Some(COUNTED_MAX);
        let ratio = |(new, old): (&f64, &f64)| match more_is_better {
            _ if is_count && (new - old).abs() < ALIKE => 1.0,
            true => old / new,
            false => new / old,
        };
        let ratio = Spread::of(new.rounds.iter().zip(&old.rounds).map(ratio));
        let bar = bar(&new.name, &new.unit);
        Row {
            name: new.name.clone(),
            unit: new.unit.clone(),
            new: median(new),
            old: median(old),
            ratio: ratio.median,
            quartiles: [ratio.low, ratio.high],
            bar,
            holds: bar.map(|bar| ratio.low <= bar),
            repeated: None,
            note: new.note.clone(),
        }
    }

    /// A row that failed has failed if it does so again.
    pub fn repeated(self, again: &Row) -> Row {
        match self.holds {
            Some(false) => Row { holds: again.holds, repeated: Some(again.quartiles), ..self },
            _ => self,
        }
    }
}

/// CPU decides, and what is counted. Time is also the server's, and that of all else that runs.
fn bar(name: &str, unit: &str) -> Option<f64> {
    match unit {
        "trips" => Some(COUNTED_MAX),
        // The bytes of what is allocated are those of buffers, which grow by doubling; and how many calls
        // many replies take depends on when they come.
        _ if name.ends_with(".allocated") || name.ends_with(".burst.calls") => None,
        _ if name.ends_with(".burst.system_calls") => None,
        _ if name.starts_with("counted.") => Some(COUNTED_MAX),
        _ => name.ends_with(".cpu").then_some(RATIO_MAX),
    }
}

/// Everything that was compared.
#[derive(Debug, Serialize)]
pub struct Report {
    /// That of the old build.
    revision: String,
    rounds: usize,
    environment: Environment,
    pub rows: Vec<Row>,
    /// Groups that one of the builds could not run, and why.
    pub failed: Vec<String>,
}

impl Report {
    pub fn new(environment: Environment, revision: &str, rounds: usize) -> Report {
        let revision = revision.to_owned();
        Report { revision, rounds, environment, rows: Vec::new(), failed: Vec::new() }
    }

    pub fn worse(&self) -> usize {
        self.rows.iter().filter(|row| row.holds == Some(false)).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["", "new", "old", "unit", "ratio", "quartiles", "bar", "", "again"];
        let table = table(&header, &[1, 2, 4, 5, 6, 8], self.rows.iter().map(cells));
        let judged = self.rows.iter().filter(|row| row.holds.is_some()).count();
        writeln!(f, "{}\n{table}", self.environment)?;
        write!(f, "old is {}; ", self.revision)?;
        write!(f, "{} of {judged} rows that decide got no worse", judged - self.worse())
    }
}

fn cells(row: &Row) -> Vec<Cell> {
    let spread = |[low, high]: [f64; 2]| format!("{low:.3}–{high:.3}");
    let holds = match row.holds {
        Some(true) => Cell::new("holds").fg(Color::Green),
        Some(false) => Cell::new("WORSE").fg(Color::Red),
        None => Cell::new(""),
    };
    vec![
        Cell::new(&row.name),
        Cell::new(short(row.new)),
        Cell::new(short(row.old)),
        Cell::new(&row.unit),
        Cell::new(format!("{:.3}", row.ratio)),
        Cell::new(spread(row.quartiles)),
        Cell::new(row.bar.map_or(String::new(), |bar| format!("≤ {bar:.2}"))),
        holds,
        Cell::new(row.repeated.map_or(String::new(), spread)),
    ]
}
