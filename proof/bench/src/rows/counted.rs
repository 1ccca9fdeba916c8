//! What may not rise at all, and is counted rather than timed: allocations, calls of the system and
//! instructions in Rust; calls into the module and the bytes that are copied to and from its memory in Node.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::node::{self, setup};
use super::redis::with_server;
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;
use crate::{Plan, Side};

pub const NAME: &str = "counted";

/// Counts are alike from round to round, but for what grows now and then.
const ROUNDS: usize = 3;

/// Operations of which calls of the system and instructions are counted: strace and valgrind take
/// their time.
const TRACED: u32 = 500;

const OPERATIONS: u32 = 2_000;

/// What Rust does, one after the other but for `burst`: 100 at once.
const WORKS: [&str; 4] = ["query", "pool_query", "burst", "transaction"];

/// What Node does: the driver, the work, and how many at a time.
const NODE: [(&str, &str, u32); 5] = [
    ("onetrip_pg", "value", 1),
    ("onetrip_pg", "item", 1),
    ("onetrip_pg", "value", 100),
    ("onetrip", "value", 1),
    ("onetrip", "value", 100),
];

/// There is nothing to hold it against but another build.
pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side != Side::Ours {
        return Ok(Vec::new());
    }
    let url = stage.server.url();
    let mut rows = Vec::new();
    for work in WORKS {
        rows.extend(in_rust(work, &url, progress)?);
    }
    rows.extend(with_server(NAME, |redis| in_rust("redis_get", &redis.url(), progress))?);
    rows.extend(node::with_node(NAME, || in_node(stage, progress))?);
    Ok(rows)
}

fn in_rust(work: &str, url: &str, progress: &Progress) -> Result<Vec<Row>> {
    let mut counts = [const { Vec::new() }; 4];
    for round in 0..ROUNDS {
        let [allocations, bytes] = allocated(work, url)?;
        counts[0].push(allocations);
        counts[1].push(bytes);
        counts[2].extend(more_in_more(|operations| traced(work, url, operations)));
        counts[3].extend(more_in_more(|operations| instructions(work, url, operations)));
        progress.tick(round, ROUNDS);
    }
    let kinds =
        [("allocations", ""), ("allocated", "bytes"), ("system_calls", ""), ("instructions", "")];
    let rows = kinds.into_iter().zip(counts).filter(|(_, counts)| !counts.is_empty());
    Ok(rows.map(|((kind, unit), counts)| row(&format!("{work}.{kind}"), unit, counts)).collect())
}

fn row(name: &str, unit: &'static str, rounds: Vec<f64>) -> Row {
    let spread = Spread::of(rounds.iter().copied());
    Row { rounds, ..Row::alone(&format!("{NAME}.{name}"), unit, spread, None) }
        .note("for each operation")
}

/// Beside this program, where `make bench-against` has built it.
fn program() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("counted"))
}

fn allocated(work: &str, url: &str) -> Result<[f64; 2]> {
    let mut counted = Command::new(program()?);
    let said = setup::said(counted.args([work, url, &OPERATIONS.to_string()]));
    let said = said.with_context(|| format!("cannot count what {work} takes"))?;
    let counts: [u64; 2] = serde_json::from_str(&said).context("cannot read what was counted")?;
    Ok(counts.map(|count| count as f64 / f64::from(OPERATIONS)))
}

/// What so many operations more take more, so that the start does not count; none without the
/// program that counts.
fn more_in_more(count: impl Fn(u32) -> Result<f64>) -> Option<f64> {
    let (few, many) = (count(TRACED).ok()?, count(3 * TRACED).ok()?);
    Some((many - few) / f64::from(2 * TRACED))
}

/// The instructions of the client, as valgrind runs it. They are alike on each machine with the same
/// compiler, to half a percent: the client reads more or less often.
fn instructions(work: &str, url: &str, operations: u32) -> Result<f64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let output = valgrind.arg(program()?).args([work, url, &operations.to_string()]).output();
    let output = output.context("there is no valgrind")?;
    ensure!(output.status.success(), "valgrind failed");
    let said = String::from_utf8_lossy(&output.stderr);
    // ==1234== Collected : 123456
    let counted = said.lines().find_map(|line| line.split_once("Collected : "));
    counted.and_then(|(_, count)| count.trim().parse().ok()).context("valgrind counts nothing")
}

fn traced(work: &str, url: &str, operations: u32) -> Result<f64> {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "--"]).arg(program()?).args([work, url, &operations.to_string()]);
    let output = strace.output().context("there is no strace")?;
    ensure!(output.status.success(), "strace failed");
    let said = String::from_utf8_lossy(&output.stderr);
    // % time     seconds  usecs/call     calls    errors syscall
    let total = said.lines().find(|line| line.ends_with(" total"));
    let calls = total.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    calls.context("strace counts nothing")
}

fn in_node(stage: &Stage, progress: &Progress) -> Result<Vec<Row>> {
    node::with_items(stage)?;
    let mut rows = Vec::new();
    for (driver, work, in_flight) in NODE {
        let mut counts = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            let [calls, bytes] = counted_in_node(stage, driver, work, in_flight)?;
            counts[0].push(calls);
            counts[1].push(bytes);
            progress.tick(round, ROUNDS);
        }
        let burst = if in_flight > 1 { ".burst" } else { "" };
        let name = format!("node.{driver}.{work}{burst}");
        let [calls, bytes] = counts;
        rows.push(row(&format!("{name}.calls"), "", calls));
        rows.push(row(&format!("{name}.copied"), "bytes", bytes));
    }
    Ok(rows)
}

fn counted_in_node(stage: &Stage, driver: &str, work: &str, in_flight: u32) -> Result<[f64; 2]> {
    let mut node = Command::new("node");
    node.arg(node::directory().join("counted.js"))
        .args([driver, work, &in_flight.to_string(), &OPERATIONS.to_string()])
        .env("ONETRIP_BENCH_URL", stage.server.url());
    let said = setup::said(&mut node).with_context(|| format!("cannot count {driver}'s {work}"))?;
    serde_json::from_str(&said).context("cannot read what was counted")
}
