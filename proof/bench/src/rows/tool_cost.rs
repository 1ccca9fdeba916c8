//! What the measuring tool itself costs: point selects as `onetrip bench` does them, beside pgbench
//! with the same script on the same tables.

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use onetrip_measure::load::{Load, Until};
use onetrip_measure::results::{Cell, Key, Preset, Repetition, Unit};
use onetrip_measure::run::{self, Plan as ToolPlan, Planned, Watch, Work};
use onetrip_measure::target::Target;
use onetrip_measure::{schema, script};

use crate::measure::cpu_time_of_children;
use crate::pgbench::{self, Pgbench};
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::stage::{Server, Stage, one_thread};
use crate::{Plan, Side};

const NAME: &str = "tool_cost";

/// Of our rate to pgbench's.
const RATIO_MIN: f64 = 1.0;

/// Statements that leave together.
const DEPTHS: [u32; 2] = [1, 100];

/// A round of each depth takes two seconds.
const ROUNDS_MAX: usize = 11;

/// Of one side; pgbench counts whole seconds.
const TIME: Duration = Duration::from_secs(1);

/// pgbench's built-in `select-only`.
const SELECT: &str = "\\set aid random(1, 100000 * :scale)\n\
    select abalance from pgbench_accounts where aid = :aid;\n";

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let pgbench = match (plan.side, Pgbench::find()) {
        (Side::Ours, _) => None,
        (_, Ok(pgbench)) => Some(pgbench),
        (_, Err(error)) => return Ok(vec![Row::skipped(NAME, &format!("{error:#}"))]),
    };
    let target = Target::start(1)?;
    let server = Server::of(target.private().context("the server is not a private one")?);
    let found = Mutex::new(Ok(Vec::new()));
    let beside = Beside { pgbench: pgbench.as_ref(), server: &server, found, progress };
    let planned = tool_plan(plan.rounds.min(ROUNDS_MAX))?;
    let running = run::run(&target, &planned, &beside, std::future::pending());
    let finished = one_thread()?.block_on(running)?;
    if let Some(failure) = finished.failure {
        bail!("{failure}");
    }
    let theirs = beside.found.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    let version = pgbench.map_or(String::new(), |pgbench| pgbench.version);
    Ok(finished.results.cells.iter().flat_map(|cell| rows(cell, &theirs, &version)).collect())
}

/// One round more than is asked for: the first does not count.
fn tool_plan(rounds: usize) -> Result<ToolPlan> {
    Ok(ToolPlan {
        cells: DEPTHS.into_iter().map(planned).collect::<Result<_>>()?,
        repetitions: rounds as u32 + 1,
        seed: 1,
        rows: 0,
        scale: Some(1),
        one_trip: false,
        force: false,
        command: Vec::new(),
        threads: 1,
    })
}

fn planned(depth: u32) -> Result<Planned> {
    let parsed = script::Script::parse("select", &script_of(depth))?;
    let work = Work::Script(script::Plan::new(&parsed.into(), script::Settings::default())?);
    let key = Key {
        preset: Preset::Script,
        workload: "select".to_owned(),
        mode: Some("prepared".to_owned()),
        isolation: None,
        tasks: 1,
        connections: 1,
        depth: Some(depth),
        rate: None,
        rtt_added_ms: 0.0,
    };
    let load = Load { until: Until::Elapsed(TIME), rate: None, seed: 1 };
    Ok(Planned { key, unit: Unit::Transaction, work, load })
}

/// The same for both sides.
fn script_of(depth: u32) -> String {
    match depth {
        1 => SELECT.to_owned(),
        _ => format!("\\startpipeline\n{}\\endpipeline\n", SELECT.repeat(depth as usize)),
    }
}

/// What a second of one side came to.
#[derive(Clone, Copy, Debug)]
struct Second {
    /// Statements per second.
    rate: f64,
    /// Of the client, in microseconds per statement.
    cpu_us: f64,
}

impl Second {
    fn ours(repetition: &Repetition, depth: u32) -> Second {
        let statements = repetition.operations as f64 * f64::from(depth);
        let cpu_ms = repetition.client_cpu_ms.unwrap_or(f64::NAN);
        Second { rate: repetition.rate() * f64::from(depth), cpu_us: cpu_ms * 1e3 / statements }
    }

    fn pgbenchs(pgbench: &Pgbench, server: &Server, depth: u32) -> Result<Second> {
        let run = |length: &str| run_pgbench(pgbench.on(server), length, depth);
        let (_, start) = run("--transactions=1")?;
        let (said, cpu) = run(&format!("--time={}", TIME.as_secs()))?;
        let transactions = figure(&said, "number of transactions actually processed: ")?;
        let tps = figure(&said, "tps = ")?;
        let (depth, cpu) = (f64::from(depth), cpu.saturating_sub(start));
        let cpu_us = cpu.as_secs_f64() * 1e6 / (transactions * depth);
        Ok(Second { rate: tps * depth, cpu_us })
    }
}

/// What it says at its end, and its CPU with that of its start.
fn run_pgbench(mut pgbench: Command, length: &str, depth: u32) -> Result<(String, Duration)> {
    pgbench
        .args(["--protocol=prepared", "--file=-", length])
        .env("PGOPTIONS", schema::search_path());
    let before = cpu_time_of_children()?;
    let output = pgbench::finish(pgbench, &script_of(depth))?;
    let cpu = cpu_time_of_children()? - before;
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), cpu))
}

/// The number behind a word of pgbench's summary.
fn figure(said: &str, word: &str) -> Result<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix(word));
    let number = line.and_then(|line| line.split([' ', '/']).next()?.parse().ok());
    number.with_context(|| format!("pgbench does not tell its {word}{said}"))
}

/// Runs pgbench after each of the tool's repetitions.
struct Beside<'a> {
    pgbench: Option<&'a Pgbench>,
    server: &'a Server,
    /// What pgbench came to, with the depth, and the first that went wrong.
    found: Mutex<Result<Vec<(u32, Second)>>>,
    progress: &'a Progress,
}

impl Watch for Beside<'_> {
    fn doing(&self, what: &str) {
        self.progress.say(what);
    }

    fn progress(&self, _: &run::Progress<'_>) {}

    fn measured(&self, progress: &run::Progress<'_>, _: &Repetition) {
        self.progress.tick(progress.done + 1, progress.of);
        let is_named = |depth: &u32| progress.label.ends_with(&format!(" depth {depth}"));
        let (Some(pgbench), Some(depth)) = (self.pgbench, DEPTHS.into_iter().find(is_named)) else {
            return;
        };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(seconds) = &mut *found {
            match Second::pgbenchs(pgbench, self.server, depth) {
                Ok(second) => seconds.push((depth, second)),
                Err(error) => *found = Err(error),
            }
        }
    }
}

/// Rate and CPU of one depth.
fn rows(cell: &Cell, theirs: &[(u32, Second)], version: &str) -> [Row; 2] {
    let depth = cell.key.depth.unwrap_or(1);
    let ours = cell.repetitions.iter().map(|it| Second::ours(it, depth)).skip(1);
    let ours: Vec<Second> = ours.collect();
    let theirs = theirs.iter().filter(|(of, _)| *of == depth).map(|(_, second)| *second);
    let theirs: Vec<Second> = theirs.skip(1).collect();
    let row = |name: String, unit, take: fn(&Second) -> f64| {
        let take = |seconds: &[Second]| seconds.iter().map(take).collect::<Vec<f64>>();
        beside(&name, unit, version, (&take(&ours), &take(&theirs)))
    };
    let note = "onetrip bench --script with one task on one connection, its meters running, in turns with \
        pgbench -M prepared, a second each: point selects by random key; depth 100 has 100 of them \
        between \\startpipeline and \\endpipeline; without the CPU of pgbench's start";
    [
        row(format!("{NAME}.depth_{depth}"), "1/s", |it| it.rate).at_least(RATIO_MIN).note(note),
        row(format!("{NAME}.depth_{depth}.cpu"), "µs", |it| it.cpu_us).note(note),
    ]
}
