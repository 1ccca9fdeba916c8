//! onetrip beside its peers: each row is measured in turns on one machine in one sitting, and a
//! ratio says how it went. See README.md for how to read the table.

mod against;
mod child;
mod environment;
mod item;
mod libpq;
mod measure;
mod pgbench;
mod progress;
mod report;
mod rows;
mod spinners;
mod stage;
mod turns;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use progress::Progress;
use report::Report;
use stage::Stage;

/// Compares onetrip with other clients on a private PostgreSQL server.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
struct Arguments {
    /// Run only what has this in its name.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Alternations of ours and the peer's per row.
    #[arg(long, value_name = "N", default_value_t = ROUNDS)]
    rounds: usize,
    /// A look in a minute: few and short rounds, figures to be taken with a grain of salt.
    #[arg(long)]
    quick: bool,
    /// Run one side only, again and again: for a profiler. Nothing is compared or written.
    #[arg(long, value_enum, value_name = "SIDE", default_value_t = Side::Both)]
    side: Side,
    /// Compares with this program, which was built of another revision: CPU rows may not get worse.
    #[arg(long, value_name = "PROGRAM", hide = true, requires = "revision")]
    against: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "NAME")]
    revision: Option<String>,
    /// Runs this group, a round at a time, when the process that has started this one says so.
    #[arg(long, value_name = "GROUP", hide = true, requires = "server")]
    turns: Option<String>,
    /// The server for that, as JSON, and the name of a database of its own.
    #[arg(long, hide = true, num_args = 2, value_names = ["SERVER", "DATABASE"])]
    server: Option<Vec<String>>,
    /// One row in a process of its own, so that its memory is only its own.
    #[arg(long, hide = true, value_name = "URL")]
    memory_of: Option<String>,
    #[arg(long, hide = true, default_value_t = 0)]
    sync_every: usize,
    /// The same of a row for a server that stalls.
    #[arg(long, hide = true, value_name = "URL")]
    overload_of: Option<String>,
    #[arg(long, hide = true, default_value_t = 1)]
    connections: usize,
    #[arg(long, hide = true, default_value_t = 0)]
    millis: u64,
    /// Which row that is, if it is none of a pipeline's.
    #[arg(long, hide = true, value_name = "NAME")]
    memory_row: Option<String>,
    #[arg(long, hide = true, default_value_t = 0)]
    commands: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Ours,
    Peer,
    Both,
}

/// How much to measure.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rounds: usize,
    /// Divides the work of one round.
    shorter: u32,
    side: Side,
}

/// The least that a median with a spread can be taken of is 15.
const ROUNDS: usize = 25;
const QUICK_ROUNDS: usize = 5;

fn main() {
    if let Err(error) = run(Arguments::parse()) {
        eprintln!("bench: {error:#}");
        std::process::exit(1);
    }
}

fn run(arguments: Arguments) -> Result<()> {
    if let (Some(url), Some(rows::redis::stream::NAME)) =
        (&arguments.memory_of, arguments.memory_row.as_deref())
    {
        return rows::redis::stream::in_child(url, arguments.commands);
    }
    if let (Some(url), Some(row)) = (&arguments.memory_of, &arguments.memory_row) {
        return rows::memory::in_child(url, row);
    }
    if let Some(url) = &arguments.memory_of {
        return rows::long_pipeline::in_child(url, arguments.sync_every);
    }
    if let Some(url) = &arguments.overload_of {
        let duration = Duration::from_millis(arguments.millis);
        return rows::overload::in_child(url, arguments.connections, duration);
    }
    let plan = Plan {
        rounds: if arguments.quick { QUICK_ROUNDS } else { arguments.rounds.max(1) },
        shorter: if arguments.quick { 4 } else { 1 },
        side: arguments.side,
    };
    if let (Some(group), Some(server)) = (&arguments.turns, &arguments.server) {
        return turns::run(group, server, Plan { side: Side::Ours, ..plan });
    }
    let only = arguments.only.as_deref().unwrap_or_default();
    let chosen = chosen(only)?;
    if let (Some(program), Some(revision)) = (&arguments.against, &arguments.revision) {
        return against::run(program, revision, (&chosen, only), plan);
    }
    let progress = Progress::start();
    progress.say("starting a private PostgreSQL server");
    let stage = Stage::set()?;
    let mut report = Report::new(environment::describe(&stage, plan.rounds));
    for group in chosen {
        progress.begin(group.names.join(", "));
        let rows = (group.run)(&stage, plan, &progress);
        report.add(rows.with_context(|| format!("{} failed", group.names.join(", ")))?, only);
    }
    progress.end();
    if plan.side == Side::Both {
        println!("{report}");
        println!("written to {}", report.write()?.display());
    }
    Ok(())
}

/// The groups with this in their names, or in those of their figures.
fn chosen(only: &str) -> Result<Vec<&'static rows::Group>> {
    let mut chosen: Vec<_> = rows::all().filter(|group| group.is_named(only)).collect();
    // The name of one may begin with that of another.
    if chosen.iter().any(|group| group.names.contains(&only)) {
        chosen.retain(|group| group.names.iter().any(|name| name.contains(only)));
    }
    if chosen.is_empty() {
        let names: Vec<_> = rows::all().flat_map(|group| group.names).copied().collect();
        anyhow::bail!("nothing is called {only:?}; there are {}", names.join(", "));
    }
    Ok(chosen)
}
