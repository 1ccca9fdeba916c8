//! Reads on replicas from Node: how many more there are, and what the guard costs.

use anyhow::Result;

use super::super::process::{Language, Task};
use super::super::{replica_stale, replicas};
use super::{setup, with_node};
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;
use crate::{Plan, Side};

pub const RATE: &str = "node_replica_reads";
pub const GUARD: &str = "node_replica_guard";
pub const STALE: &str = "node_replica_stale";

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    with_node(RATE, || replicas::of_language(plan, progress, [RATE, GUARD], task, &setup::note()))
}

pub fn stale(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    with_node(STALE, || replica_stale::of_language(STALE, plan, progress, task, &setup::note()))
}

fn task(driver: &'static str, work: &'static str) -> Task {
    Task {
        language: Language::Node,
        driver,
        work,
        in_flight: 1,
        connections: 1,
        pipeline: true,
        named: false,
        warmth: 0,
    }
}
