//! Several clients in turns: forwards in one round, backwards in the next, so that what a machine does
//! meanwhile meets all of them.

use anyhow::{Result, ensure};

use super::process::{Process, Task};
use crate::measure::{Pairs, Sample, Spread};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::{Plan, Side};

/// One that takes part.
pub struct Runner {
    /// In the names of rows.
    pub short: &'static str,
    pub task: Task,
    /// None for one of ours.
    pub peer: Option<Bars>,
    /// Of one of ours: whether the bars hold for it.
    is_barred: bool,
}

impl Runner {
    pub fn ours(short: &'static str, task: Task) -> Runner {
        Runner { short, task, peer: None, is_barred: true }
    }

    /// One of ours without bars.
    pub fn aside(short: &'static str, task: Task) -> Runner {
        Runner { is_barred: false, ..Runner::ours(short, task) }
    }

    pub fn peer(short: &'static str, task: Task, bars: Bars) -> Runner {
        Runner { short, task, peer: Some(bars), is_barred: false }
    }
}

/// What one of them took, round by round.
pub struct Run {
    pub version: String,
    pub samples: Vec<Sample>,
}

impl Run {
    pub fn cpu(&self) -> f64 {
        Spread::of(self.samples.iter().map(Sample::cpu_us)).median
    }
}

/// Rounds of so many operations of each, after one that does not count. All must have read the same.
pub fn in_turns(
    rounds: usize,
    progress: Option<&Progress>,
    operations: u32,
    tasks: &[&Task],
    url: &str,
) -> Result<Vec<Run>> {
    let mut processes = Vec::new();
    let mut runs = Vec::new();
    for task in tasks {
        let process = Process::start(task, url)?;
        runs.push(Run { version: process.version.clone(), samples: Vec::new() });
        processes.push(process);
    }
    for round in 0..=rounds {
        let mut order: Vec<usize> = (0..processes.len()).collect();
        if round % 2 == 0 {
            order.reverse();
        }
        let mut checksum = None;
        for index in order {
            let sample = processes[index].round(operations)?;
            let same = *checksum.get_or_insert(sample.checksum) == sample.checksum;
            ensure!(same, "{} read other values than the rest", runs[index].version);
            if round > 0 {
                runs[index].samples.push(sample);
            }
        }
        if let Some(progress) = progress {
            progress.tick(round, rounds);
        }
    }
    Ok(runs)
}

/// Each of ours beside each peer. The names of rows tell the others of ours from the first.
pub fn beside(
    plan: Plan,
    progress: &Progress,
    (name, operations): (&str, u32),
    runners: &[Runner],
    url: &str,
    note: &str,
) -> Result<Vec<Row>> {
    let takes_part = |runner: &&Runner| match plan.side {
        Side::Both => true,
        Side::Ours => runner.peer.is_none(),
        Side::Peer => runner.peer.is_some(),
    };
    let runners: Vec<&Runner> = runners.iter().filter(takes_part).collect();
    let tasks: Vec<&Task> = runners.iter().map(|it| &it.task).collect();
    let runs = in_turns(plan.rounds, Some(progress), operations, &tasks, url)?;
    let sides: Vec<(&Runner, &Run)> = runners.iter().copied().zip(&runs).collect();
    if plan.side == Side::Ours {
        return Ok(sides.iter().flat_map(|(ours, run)| alone(name, ours, run, note)).collect());
    }
    let mut rows = Vec::new();
    let mut is_first = true;
    for (ours, run) in sides.iter().filter(|(runner, _)| runner.peer.is_none()) {
        for (peer, peers_run) in &sides {
            let Some(bars) = peer.peer else { continue };
            let pairs = Pairs { ours: run.samples.clone(), peer: peers_run.samples.clone() };
            let name = match is_first {
                true => format!("{name}.{}", peer.short),
                false => format!("{name}.{}.{}", ours.short, peer.short),
            };
            let bars = if ours.is_barred { bars } else { Bars::default() };
            rows.extend(compared(&name, &peers_run.version, &pairs, bars, note));
        }
        is_first = false;
    }
    Ok(rows)
}

/// The rows of one of ours beside which there is no peer.
fn alone(name: &str, ours: &Runner, run: &Run, note: &str) -> Vec<Row> {
    let pairs = Pairs { ours: run.samples.clone(), peer: run.samples.clone() };
    let name = format!("{name}.{}", ours.short);
    compared(&name, &run.version, &pairs, Bars::default(), note)
}

/// The task that takes less CPU, found in trials.
pub fn cheaper(tasks: [Task; 2], operations: u32, url: &str) -> Result<Task> {
    let runs = in_turns(TRIALS, None, operations, &[&tasks[0], &tasks[1]], url)?;
    let [first, second] = tasks;
    Ok(if runs[0].cpu() <= runs[1].cpu() { first } else { second })
}

/// Rounds of each of two modes before one is chosen.
const TRIALS: usize = 5;
