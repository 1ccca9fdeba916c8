//! Runs the simulation over many seeds, or one of them with a trace.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

use onetrip_lab::sim::{
    Clustered, FailedSeed, MIGRATIONS_OPTION, Postgres, Redis, Report, Run, SENTINEL_OPTION, Side,
    Trace, run, run_migrations, run_sentinel, sweep, sweep_migrations, sweep_sentinel,
};

const USAGE: &str = "\
usage: onetrip-sim [--redis | --cluster | --sentinel | --migrations] [--seeds N] [--from S]
         runs N seeds (default 2000) from S (default 1) on
       onetrip-sim [--redis | --cluster | --sentinel | --migrations] --seed S [--trace]
         runs one seed; --trace prints all that happens in it

--redis, --cluster, --sentinel and --migrations choose one simulation. Without them, --seeds runs all
five, and --seed runs that of PostgreSQL.";

struct Arguments {
    seeds: u64,
    from: u64,
    seed: Option<u64>,
    trace: bool,
    /// The one simulation to run, if one was named.
    only: Option<Kind>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Postgres,
    Redis,
    Cluster,
    Sentinel,
    Migrations,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(what) => {
            eprintln!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let shown = ALL.into_iter().try_for_each(|kind| match kind {
        _ if !arguments.asks_for(kind) => Ok(()),
        Kind::Postgres => show::<Postgres>(&arguments),
        Kind::Redis => show::<Redis>(&arguments),
        Kind::Cluster => show::<Clustered>(&arguments),
        Kind::Sentinel => show_run(&arguments, &SENTINEL),
        Kind::Migrations => show_run(&arguments, &MIGRATIONS),
    });
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("{failed}");
            ExitCode::FAILURE
        }
    }
}

const ALL: [Kind; 5] =
    [Kind::Postgres, Kind::Redis, Kind::Cluster, Kind::Sentinel, Kind::Migrations];

impl Arguments {
    fn asks_for(&self, kind: Kind) -> bool {
        match (self.only, self.seed) {
            (Some(only), _) => only == kind,
            (None, Some(_)) => kind == Kind::Postgres,
            (None, None) => true,
        }
    }
}

/// Hears how many seeds are done.
type Progress<'a> = dyn Fn(u64) + Sync + 'a;

/// A simulation.
struct Simulation {
    name: &'static str,
    option: &'static str,
    one: fn(u64, Trace) -> Run,
    many: fn(u64, u64, &Progress<'_>) -> Result<Report, FailedSeed>,
}

const SENTINEL: Simulation = Simulation {
    name: "Redis Sentinel",
    option: SENTINEL_OPTION,
    one: |seed, trace| run_sentinel(seed, None, trace),
    many: |from, seeds, progress| sweep_sentinel(from, seeds, progress),
};

const MIGRATIONS: Simulation = Simulation {
    name: "PostgreSQL, with migrations",
    option: MIGRATIONS_OPTION,
    one: |seed, trace| run_migrations(seed, None, trace),
    many: |from, seeds, progress| sweep_migrations(from, seeds, progress),
};

fn show<S: Side>(arguments: &Arguments) -> Result<(), FailedSeed> {
    let simulation = Simulation {
        name: S::NAME,
        option: S::OPTION,
        one: |seed, trace| run::<S>(seed, None, trace),
        many: |from, seeds, progress| sweep::<S>(from, seeds, progress),
    };
    show_run(arguments, &simulation)
}

/// Runs one simulation as the arguments say, and prints what happened in it.
fn show_run(arguments: &Arguments, simulation: &Simulation) -> Result<(), FailedSeed> {
    let started = Instant::now();
    let report = match arguments.seed {
        Some(seed) => one(simulation, seed, arguments.trace),
        None => many(simulation, arguments.from, arguments.seeds),
    }?;
    let (seconds, runs) = (started.elapsed().as_secs_f64(), report.of("runs"));
    print!("{report}");
    let rate = runs as f64 / seconds;
    println!("{}: {runs} runs in {seconds:.1} s, {rate:.0} a second; all is well", simulation.name);
    Ok(())
}

/// Parses the arguments; `None` if help was asked for.
fn parse(mut given: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut arguments = Arguments { seeds: 2000, from: 1, seed: None, trace: false, only: None };
    while let Some(name) = given.next() {
        let mut number = || {
            let value = given.next().ok_or_else(|| format!("{name} needs a number"))?;
            value.parse::<u64>().map_err(|_| format!("{name} needs a number, not {value}"))
        };
        match name.as_str() {
            "--seeds" => arguments.seeds = number()?,
            "--from" => arguments.from = number()?,
            "--seed" => arguments.seed = Some(number()?),
            "--trace" => arguments.trace = true,
            "--redis" => arguments.only = Some(Kind::Redis),
            "--cluster" => arguments.only = Some(Kind::Cluster),
            "--sentinel" => arguments.only = Some(Kind::Sentinel),
            "--migrations" => arguments.only = Some(Kind::Migrations),
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("unknown argument {name}; see --help")),
        }
    }
    if arguments.trace && arguments.seed.is_none() {
        return Err("--trace goes with --seed".to_owned());
    }
    Ok(Some(arguments))
}

fn one(simulation: &Simulation, seed: u64, trace: bool) -> Result<Report, FailedSeed> {
    // The reader may have closed the pipe.
    let lines = |line: &str| drop(writeln!(std::io::stdout(), "{line}"));
    let trace: Trace = if trace { Some(Box::new(lines)) } else { None };
    let run = (simulation.one)(seed, trace);
    if run.findings.is_empty() {
        Ok(run.report)
    } else {
        Err(FailedSeed { seed, findings: run.findings, option: simulation.option })
    }
}

fn many(simulation: &Simulation, from: u64, seeds: u64) -> Result<Report, FailedSeed> {
    let terminal = std::io::stderr().is_terminal();
    // On a terminal the progress is updated a hundred times; otherwise there is a line for each
    // tenth.
    let step = (seeds / if terminal { 100 } else { 10 }).max(1);
    let progress = |done| {
        if done % step == 0 || done == seeds {
            let mut out = std::io::stderr().lock();
            let _ = match terminal {
                true => write!(out, "\r{done} of {seeds} seeds"),
                false => writeln!(out, "{done} of {seeds} seeds"),
            };
        }
    };
    let result = (simulation.many)(from, seeds, &progress);
    if terminal {
        eprintln!();
    }
    result
}
