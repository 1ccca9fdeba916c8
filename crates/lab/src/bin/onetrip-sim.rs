//! Runs the simulation over many seeds, or one of them with a trace.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

use onetrip_lab::sim::{FailedSeed, Report, Simulation, run, sweep};

const USAGE: &str = "\
usage: onetrip-sim [--seeds N] [--from S]     N seeds (default 2000) from S (default 1) on
       onetrip-sim --seed S [--trace]         one seed, with all that happens in it";

struct Arguments {
    seeds: u64,
    from: u64,
    seed: Option<u64>,
    trace: bool,
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
    let started = Instant::now();
    let result = match arguments.seed {
        Some(seed) => one(seed, arguments.trace),
        None => many(arguments.from, arguments.seeds),
    };
    match result {
        Ok(report) => {
            let seconds = started.elapsed().as_secs_f64();
            let runs = report.of("runs");
            print!("{report}");
            println!(
                "{runs} runs in {seconds:.1} s, {:.0} a second; all is well",
                runs as f64 / seconds
            );
            ExitCode::SUCCESS
        }
        Err(failed) => {
            eprintln!("{failed}");
            ExitCode::FAILURE
        }
    }
}

/// The arguments; none if help is asked for.
fn parse(mut given: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut arguments = Arguments { seeds: 2000, from: 1, seed: None, trace: false };
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
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("there is no argument {name}")),
        }
    }
    if arguments.trace && arguments.seed.is_none() {
        return Err("--trace goes with --seed".to_owned());
    }
    Ok(Some(arguments))
}

fn one(seed: u64, trace: bool) -> Result<Report, FailedSeed> {
    // Whoever reads it may have seen enough.
    let lines = |line: &str| drop(writeln!(std::io::stdout(), "{line}"));
    let run = run(seed, None, if trace { Some(Box::new(lines)) } else { None });
    if run.findings.is_empty() {
        Ok(run.report)
    } else {
        Err(FailedSeed { seed, findings: run.findings, simulation: Simulation::Postgres })
    }
}

fn many(from: u64, seeds: u64) -> Result<Report, FailedSeed> {
    let terminal = std::io::stderr().is_terminal();
    // A line for each tenth where nobody watches, a hundred updates where someone does.
    let step = (seeds / if terminal { 100 } else { 10 }).max(1);
    let result = sweep(from, seeds, |done| {
        if done % step == 0 || done == seeds {
            let mut out = std::io::stderr().lock();
            let _ = match terminal {
                true => write!(out, "\r{done} of {seeds} seeds"),
                false => writeln!(out, "{done} of {seeds} seeds"),
            };
        }
    });
    if terminal {
        eprintln!();
    }
    result
}
