//! Failovers of a cluster under Patroni: what the clients for Rust, Node and Python say of each
//! row, and how soon writers go on once another node takes writes, beside libpq, pgx and JDBC. See
//! proof/chaos.

mod pauses;
mod programs;

use std::time::Duration;

use anyhow::Result;
use onetrip_chaos::failover::{self, Guest, Options};
use onetrip_chaos::{Kind, Report};
use onetrip_lab::postgres::patroni;

use self::programs::Programs;
use super::pauses::{RUST, of_language};
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;
use crate::{Plan, Side};

const NAME: &str = "failover";

/// Five kills of the primary, of its whole node or of PostgreSQL alone, five switchovers, and two
/// cuts.
const FAULTS: [(Kind, u32); 4] = [
    (Kind::NodeKilled, 3),
    (Kind::PostmasterKilled, 2),
    (Kind::SwitchedOver, 5),
    (Kind::NodeCut, 2),
];

/// Of each language. All write through the same faults, each to a table of its own.
const TASKS: u32 = 200;

/// The longest pause of a task in Node or Python between two writes: two cores carry three ledgers
/// and three servers.
const PAUSE_OF_GUESTS: Duration = Duration::from_secs(1);

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    if patroni::Programs::look()?.is_none() {
        return Ok(vec![Row::skipped(NAME, "there is no Patroni (scripts/setup cluster)")]);
    }
    let programs = Programs::build(progress);
    let seed = onetrip_chaos::Options::new(Duration::ZERO).seed;
    progress.say(&format!("{NAME}, ONETRIP_SEED={seed}"));
    let (of_ledgers, wrong) = ledgers(seed, plan, &programs.guests);
    progress.say(&format!("{NAME}: pauses"));
    let (of_pauses, also_wrong) = pauses::run(seed, plan, &programs.writers)?;
    let mut rows = vec![figure(RUST, "wrong", "findings", wrong + also_wrong).at_most(0.0)];
    rows.extend(of_ledgers);
    rows.extend(of_pauses);
    let missing = programs.missing.iter();
    rows.extend(missing.map(|(name, why)| Row::skipped(&format!("{NAME}.{name}"), why)));
    Ok(rows)
}

fn some(faults: [(Kind, u32); 4], plan: Plan) -> Vec<Kind> {
    let count = |(kind, count): (Kind, u32)| (0..count.div_ceil(plan.shorter)).map(move |_| kind);
    faults.into_iter().flat_map(count).collect()
}

/// Their rows, and the number of all findings.
fn ledgers(seed: u64, plan: Plan, guests: &[Guest]) -> (Vec<Row>, usize) {
    let (faults, guests) = (some(FAULTS, plan), guests.to_vec());
    let names: Vec<_> = guests.iter().map(|guest| guest.name).collect();
    let outcome = failover::run(&Options { seed, faults, tasks: TASKS, guests }, |_| ());
    let mut rows = vec![figure(RUST, "takeovers", "faults", outcome.takeovers.len())];
    rows.push(acknowledged(RUST, &outcome.report));
    let mut wrong = outcome.report.findings.len();
    for (name, report) in names.into_iter().zip(&outcome.guests) {
        let findings = report.findings.len();
        wrong += findings;
        let row = figure(name, "wrong", "findings", findings).at_most(0.0);
        rows.extend([row.note(&note(name, report)), acknowledged(name, report)]);
    }
    let all = std::iter::once(&outcome.report).chain(&outcome.guests);
    for finding in all.flat_map(|report| &report.findings) {
        eprintln!("{NAME}: {finding}");
    }
    (rows, wrong)
}

fn acknowledged(name: &str, report: &Report) -> Row {
    let rows = report.tally.acknowledged as usize;
    figure(name, "acknowledged", "rows", rows).at_least(1.0).note(&note(name, report))
}

fn note(name: &str, report: &Report) -> String {
    let pause = PAUSE_OF_GUESTS.as_millis();
    match name {
        RUST => format!("{TASKS} tasks; {report}"),
        _ => format!("{TASKS} tasks, each of which pauses for up to {pause} ms; {report}"),
    }
}

fn figure(of: &str, what: &str, unit: &'static str, count: usize) -> Row {
    let name = of_language(&format!("{NAME}.{what}"), of);
    Row::alone(&name, unit, Spread::of([count as f64]), None)
}
