//! `onetrip bench`: measures what latency, concurrency and isolation cost on a server, and what is
//! saved by one trip.

mod args;
mod choose;
mod compare;
mod plan;

use clap::{Args, Subcommand};
use onetrip_measure::report;

use crate::measuring::{Measuring, ended};
use crate::output::{End, print, tell};
use args::RunArgs;
use compare::CompareArgs;

/// Measure what latency, concurrency and isolation cost, and what pipelining saves.
///
/// It measures a private PostgreSQL server that it starts and stops (with --preset redis: Redis or
/// Valkey), or the server of --url. On your own server it changes only its schema, onetrip_bench,
/// which it drops at the end, or keys that begin with onetrip-bench: and a random part, which it
/// removes at the end. A --script changes what its statements change, in both of its forms. Ctrl-C
/// ends the run with the results so far.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, allow_negative_numbers = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand, Debug)]
enum BenchCommand {
    Compare(CompareArgs),
}

/// Measures, prints the tables, and writes the files that were asked for.
///
/// # Errors
/// One line: what failed, where, and what to do. Or a comparison found a slower cell.
pub(crate) fn run(args: BenchArgs) -> Result<(), End> {
    match args.command {
        Some(BenchCommand::Compare(args)) => compare::run(&args),
        None => {
            let args = args.run.without_repeats();
            measure(&args).map_err(|end| explained(end, &args).within("bench"))
        }
    }
}

/// A script that names a table of its author's does not find it on a private server.
fn explained(end: End, args: &RunArgs) -> End {
    match end {
        End::Failed(line) if args.url.is_none() && line.contains(NO_TABLE) => {
            End::Failed(format!("{line}; {ONLY_PGBENCH}"))
        }
        other => other,
    }
}

const NO_TABLE: &str = "(SQLSTATE 42P01)";
const ONLY_PGBENCH: &str =
    "the private server has pgbench's tables alone: name the server that has yours by --url";

fn measure(args: &RunArgs) -> Result<(), End> {
    let plan = args.plan()?;
    if let Some(out) = &args.out {
        report::check_writable(out).map_err(|error| format!("--out: {error}"))?;
    }
    let (measuring, url) = (Measuring::begin()?, args.url.as_deref());
    let finished = match args.is_on_redis() {
        true => measuring.redis(&plan, url)?,
        false => measuring.postgres(&plan, url)?,
    };
    // The files are written first, because standard output may be closed.
    if let Some(out) = &args.out {
        for path in report::write_all(&finished.results, out).map_err(|error| error.to_string())? {
            tell(&format!("written: {}", path.display()));
        }
    }
    if !finished.results.cells.is_empty() {
        print(&report::terminal(&finished.results))?;
    }
    ended(&finished)
}
