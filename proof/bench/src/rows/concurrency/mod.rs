//! The findings of the article whose operations `--preset concurrency` repeats: each is a shape that
//! the figures of this machine have or have not, and what they lack is explained by what was seen.

mod cells;
mod shapes;
mod table;
mod why;

use std::path::Path;

use anyhow::{Result, bail};
use onetrip_measure::concurrency::{WORKLOADS, Workload};
use onetrip_measure::load::{Load, Until};
use onetrip_measure::report;
use onetrip_measure::results::{Isolation, Repetition};
use onetrip_measure::run::{self, Plan as ToolPlan, Planned, Watch};
use onetrip_measure::target::Target;

use crate::Plan;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::{Stage, one_thread};
use cells::Cells;

/// As the article has them.
const TASKS: u32 = 800;
const CONNECTIONS: u32 = 10;
const ROWS: u32 = 100;

/// How often each operation is measured; a few seconds for all of them.
const REPETITIONS_MAX: usize = 5;

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let target = Target::start(CONNECTIONS as usize)?;
    let planned = tool_plan(plan.rounds.min(REPETITIONS_MAX));
    let watch = Shown(progress);
    let running = run::run(&target, &planned, &watch, std::future::pending());
    let finished = one_thread()?.block_on(running)?;
    if let Some(failure) = finished.failure {
        bail!("{failure}");
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench-concurrency");
    report::write_all(&finished.results, &directory)?;
    let cells = Cells::of(&finished.results);
    progress.print(&table::text(&cells)?);
    shapes::rows(&cells)
}

/// Every operation at every level.
fn tool_plan(repetitions: usize) -> ToolPlan {
    let at_each_level =
        |workload: &Workload| Isolation::ALL.map(|isolation| planned(*workload, isolation));
    ToolPlan {
        cells: WORKLOADS.iter().flat_map(at_each_level).collect(),
        repetitions: repetitions as u32,
        seed: 1,
        rows: ROWS,
        scale: None,
        one_trip: false,
        force: false,
        command: Vec::new(),
        threads: 1,
    }
}

/// One transaction of each task.
fn planned(workload: Workload, isolation: Isolation) -> Planned {
    let load = Load { until: Until::Each(1), rate: None, seed: 1 };
    Planned::concurrency(workload, isolation, (TASKS, CONNECTIONS), 0.0, load)
}

/// Shows how far it is.
struct Shown<'a>(&'a Progress);

impl Watch for Shown<'_> {
    fn doing(&self, what: &str) {
        self.0.say(what);
    }

    fn progress(&self, _: &run::Progress<'_>) {}

    fn measured(&self, progress: &run::Progress<'_>, _: &Repetition) {
        self.0.tick(progress.done + 1, progress.of);
    }
}
