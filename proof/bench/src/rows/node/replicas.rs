//! Reads on replicas from Node: how many more there are, and what the guard costs.

use anyhow::Result;

use super::super::process::{Language, Task};
use super::super::replicas::of_language;
use super::{setup, with_node};
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;
use crate::{Plan, Side};

pub const RATE: &str = "node_replica_reads";
pub const GUARD: &str = "node_replica_guard";

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    with_node(RATE, || {
        let task = |driver, work| Task {
            language: Language::Node,
            driver,
            work,
            in_flight: 1,
            connections: 1,
            pipeline: true,
            named: false,
            warmth: 0,
        };
        of_language(plan, progress, [RATE, GUARD], task, &setup::note())
    })
}
