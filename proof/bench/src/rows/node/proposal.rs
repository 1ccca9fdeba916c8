//! The benchmark of node-postgres's proposal to pipeline: how many more queries in a second than pg in
//! its default mode, one after the other.

use anyhow::Result;

use super::super::process::{Language, Task};
use super::super::turns::{Run, in_turns};
use super::{setup, with_node};
use crate::measure::Sample;
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::stage::Stage;
use crate::{Plan, Side};

/// The last makes a temporary table, which is seen in the catalog that the first two read.
pub const NAMES: [&str; 5] = [
    "node_proposal_param",
    "node_proposal_named",
    "node_proposal_sequence",
    "node_proposal_pipelined",
    "node_proposal_insert",
];

/// What it runs, how often in a round, and by how much the proposal was ahead.
const CASES: [(&str, u32, f64); 5] = [
    ("proposal_param", 60, 1.18),
    ("proposal_named", 60, 1.16),
    ("proposal_sequence", 150, 1.46),
    ("value", 1_000, 3.1),
    ("proposal_insert", 1_500, 2.05),
];

/// On their way at once, on our side.
const IN_FLIGHT: u32 = 100;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_node("node_proposal", || {
        let mut rows = Vec::new();
        for (name, (work, operations, bar)) in NAMES.into_iter().zip(CASES) {
            let operations = (operations / plan.shorter).max(1);
            let task = |driver, in_flight| Task {
                language: Language::Node,
                driver,
                work,
                in_flight,
                connections: 1,
                pipeline: in_flight > 1,
                named: false,
                warmth: operations,
            };
            let at_once = if work == "value" { operations } else { IN_FLIGHT };
            let (ours, peer) = (task("onetrip_pg", at_once), task("pg", 1));
            let tasks = match plan.side {
                Side::Both => vec![&ours, &peer],
                Side::Ours => vec![&ours],
                Side::Peer => vec![&peer],
            };
            let url = stage.server.url();
            let runs = in_turns(plan.rounds, Some(progress), operations, &tasks, &url)?;
            // Ours alone stands beside itself.
            if let (Some(ours), Some(peer)) = (runs.first(), runs.last()) {
                let figures = (&*rates(ours), &*rates(peer));
                let row = beside(name, "1/s", &peer.version, figures).at_least(bar);
                let note = format!(
                    "ours pipelined, {at_once} at a time; pg one after the other; {}",
                    setup::note()
                );
                rows.push(row.note(&note));
                let cpu = (&*costs(ours), &*costs(peer));
                rows.push(beside(&format!("{name}.cpu"), "µs/op", &peer.version, cpu));
            }
        }
        Ok(rows)
    })
}

fn costs(run: &Run) -> Vec<f64> {
    run.samples.iter().map(Sample::cpu_us).collect()
}

fn rates(run: &Run) -> Vec<f64> {
    run.samples.iter().map(Sample::rate).collect()
}
