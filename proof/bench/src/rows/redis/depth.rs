//! How many GETs a second, by how many are in flight on one connection; and what redis-benchmark
//! reaches, which waits for each batch of its pipeline.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use onetrip_lab::redis::{Installation, Server};

use super::clients::Ours;
use super::load::{Operation, closed_loop};
use super::server::{named, with_server};
use crate::measure::{Spread, timed};
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::spinners::Spinners;
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

const NAME: &str = "redis_depth";

const DEPTHS: [usize; 5] = [1, 10, 100, 1_000, 10_000];

/// The best depth is so many times as fast as one command after the other.
const TIMES_MIN: f64 = 10.0;

/// Rates of each depth, taken in turns.
const TURNS: usize = 7;

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    with_server(NAME, |server| {
        let spinners = Spinners::start();
        let benchmark = Benchmark::find(server);
        let note = match &benchmark {
            Some(_) => "redis-benchmark -P, one connection, one key",
            None => "there is no redis-benchmark",
        };
        let note = format!(
            "GET, a task for each in flight; {}; {note}; {}",
            named(server),
            spinners.note()
        );
        let rates = measure(server, benchmark.as_ref(), plan, progress)?;
        Ok(rows(&rates).into_iter().map(|row| row.note(&note)).collect())
    })
}

/// Commands a second at one depth, turn by turn.
#[derive(Debug)]
struct Rates {
    depth: usize,
    ours: Vec<f64>,
    /// Empty where it is missing.
    benchmark: Vec<f64>,
}

fn measure(
    server: &Server,
    benchmark: Option<&Benchmark>,
    plan: Plan,
    progress: &Progress,
) -> Result<Vec<Rates>> {
    let mut all = DEPTHS.map(|depth| Rates { depth, ours: Vec::new(), benchmark: Vec::new() });
    let runtime = one_thread()?;
    let ours = runtime.block_on(Ours::connect(&server.url()))?;
    for turn in 0..=TURNS {
        for rates in &mut all {
            let count = commands(rates.depth) / plan.shorter as usize;
            let each = (count / rates.depth).max(1);
            let work = closed_loop(&ours, Operation::Get, (rates.depth, each), turn);
            let sample = runtime.block_on(timed((each * rates.depth) as u64, work))?;
            let benchmark = benchmark.map(|it| it.rate(server, rates.depth, count)).transpose()?;
            if turn > 0 {
                rates.ours.push(sample.rate());
                rates.benchmark.extend(benchmark);
            }
        }
        progress.tick(turn, TURNS);
    }
    Ok(all.into())
}

/// Of one turn: some 0.2 s; more where so many tasks are started.
fn commands(depth: usize) -> usize {
    match depth {
        1 => 5_000,
        10 => 50_000,
        10_000 => 1_000_000,
        _ => 200_000,
    }
}

fn rows(all: &[Rates]) -> Vec<Row> {
    let median = |rates: &Rates| Spread::of(rates.ours.iter().copied());
    let best = all.iter().max_by(|a, b| median(a).median.total_cmp(&median(b).median));
    let times = all.first().zip(best).map(|(first, best)| {
        let what = format!("depth 1; the best is depth {}", best.depth);
        let both = (median(best), median(first).median);
        Row::multiple(NAME, "1/s", both, &what, TIMES_MIN).at_least(TIMES_MIN)
    });
    let each = all.iter().map(|rates| {
        let name = format!("{NAME}.in_flight_{}", rates.depth);
        match rates.benchmark.is_empty() {
            true => Row::alone(&name, "1/s", median(rates), None),
            false => beside(&name, "1/s", "redis-benchmark -P", (&rates.ours, &rates.benchmark)),
        }
    });
    times.into_iter().chain(each).collect()
}

/// The load generator that comes with Redis or Valkey.
struct Benchmark(PathBuf);

impl Benchmark {
    /// Beside the server's program, or on the PATH.
    fn find(server: &Server) -> Option<Benchmark> {
        let name = match server.installation().product() {
            "Valkey" => "valkey-benchmark",
            _ => "redis-benchmark",
        };
        let installed = Installation::look().ok().flatten();
        let beside = installed.and_then(|it| Some(it.path().parent()?.join(name)));
        let program = beside.filter(|path| path.exists()).unwrap_or_else(|| name.into());
        let runs = Command::new(&program).arg("--version").output().is_ok();
        runs.then_some(Benchmark(program))
    }

    /// GETs a second with so many in one batch. It rounds to whole batches by itself.
    fn rate(&self, server: &Server, depth: usize, count: usize) -> Result<f64> {
        let output = Command::new(&self.0)
            .args(["-h", "127.0.0.1", "-p", &server.port().to_string(), "-a", server.password()])
            .args(["-c", "1", "-P", &depth.to_string(), "-n", &count.to_string()])
            .args(["-t", "get", "-d", "64", "--csv"])
            .output()
            .context("cannot run redis-benchmark")?;
        ensure!(output.status.success(), "redis-benchmark failed");
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.starts_with("\"GET\""));
        let rate = line.and_then(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok());
        rate.context("redis-benchmark tells no rate")
    }
}
