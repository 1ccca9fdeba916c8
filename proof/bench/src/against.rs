//! This build beside one of another revision, in turns on one server. README.md says what fails.

mod builds;
mod judge;

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::Plan;
use crate::environment;
use crate::progress::Progress;
use crate::report::write;
use crate::rows::Group;
use crate::stage::Stage;
use builds::Builds;
use judge::{Report, Row};

/// These say whether something holds under faults or loads, and have no figure of their own.
const LEFT_OUT: [&str; 13] = [
    "cancel_10000",
    "overload_rss",
    "kill_1000_in_flight",
    "chaos",
    "chaos_sessions",
    "failover",
    "redis_chaos",
    "redis_cluster",
    "redis_crashes",
    "redis_sentinel",
    "concurrency",
    "proxy_delay_error",
    "python_cancels",
];

/// Rows with this in their names are of ours in ways that other rows have too.
const FLOOR: &str = "floor_";

pub fn run(
    program: &Path,
    revision: &str,
    (groups, only): (&[&Group], &str),
    plan: Plan,
) -> Result<()> {
    let progress = Progress::start();
    progress.say("starting a private PostgreSQL server");
    let stage = Stage::set()?;
    let this = std::env::current_exe().context("cannot find this program")?;
    let builds =
        Builds { programs: [&this, program], server: &stage.server, plan, progress: &progress };
    let mut report = Report::new(environment::describe(&stage, plan.rounds), revision, plan.rounds);
    let takes_part =
        |it: &&&Group| !it.names[0].contains(FLOOR) && !LEFT_OUT.contains(&it.names[0]);
    for group in groups.iter().filter(takes_part) {
        match rows(&builds, group, only) {
            Ok(rows) => report.rows.extend(rows),
            Err(error) => report.failed.push(format!("{}: {error:#}", group.names[0])),
        }
    }
    progress.end();
    println!("{report}");
    println!("written to {}", write("bench-against.json", &report)?.display());
    ensure!(report.failed.is_empty(), "not compared: {}", report.failed.join("; "));
    ensure!(!report.rows.is_empty(), "there is nothing to compare: no row has a figure of ours");
    ensure!(report.worse() == 0, "{} rows got worse than {revision}", report.worse());
    Ok(())
}

/// The rows of a group that are asked for; a group of which one failed runs again.
fn rows(builds: &Builds<'_>, group: &Group, only: &str) -> Result<Vec<Row>> {
    let mut rows = compared(builds, group, "")?;
    if rows.iter().any(|row| row.name.contains(only)) {
        rows.retain(|row| row.name.contains(only));
    }
    if rows.iter().all(|row| row.holds != Some(false)) {
        return Ok(rows);
    }
    let again = compared(builds, group, ", again")?;
    let named = |name: &str| again.iter().find(|it| it.name == name);
    Ok(rows.into_iter().map(|row| named(&row.name).into_iter().fold(row, Row::repeated)).collect())
}

fn compared(builds: &Builds<'_>, group: &Group, again: &str) -> Result<Vec<Row>> {
    builds.progress.begin(format!("{}{again}", group.names.join(", ")));
    let [new, old] = builds.in_turns(group)?;
    let old = |name: &str| old.iter().find(|it| it.name == name);
    Ok(new.iter().filter_map(|new| Some(Row::of(new, old(&new.name)?))).collect())
}
