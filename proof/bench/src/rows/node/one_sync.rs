//! Pipelines of 1,000 selects with one Sync each, beside pg, which sends as many Syncs as queries.

use anyhow::Result;

use super::super::process::{Language, Task};
use super::super::turns::{Runner, beside};
use super::{setup, with_node};
use crate::Plan;
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::stage::Stage;

pub const NAME: &str = "node_one_sync";

/// Pipelines of one round.
pub const PIPELINES: u32 = 12;

/// Selects of each; proof/bench/js/works knows it as well.
pub const SIZE: u32 = 1_000;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_node(NAME, || {
        if !setup::has("modern") {
            return Ok(vec![Row::skipped(NAME, "the package has no pipelines yet")]);
        }
        let operations = PIPELINES / plan.shorter * SIZE;
        let task = |driver| Task {
            language: Language::Node,
            driver,
            work: "group",
            in_flight: 1,
            connections: 1,
            pipeline: true,
            named: driver == "pg",
            warmth: 2 * SIZE,
        };
        let bars = Bars { cpu: Some(0.25), time: Some(0.25) };
        let runners =
            [Runner::ours("modern", task("onetrip")), Runner::peer("pg", task("pg"), bars)];
        let note = format!("pipelines of {SIZE}, one after the other; {}", setup::note());
        beside(plan, progress, (NAME, operations), &runners, &stage.server.url(), &note)
    })
}
