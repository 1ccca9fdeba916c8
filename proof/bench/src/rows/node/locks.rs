//! Tasks that lock rows beside tasks that read, and reads and updates of many tasks, over a pool of
//! 10 connections in Node.

use anyhow::Result;

use super::super::process::{Language, Task};
use super::super::turns::{Runner, beside, cheaper};
use super::super::{pool_locks, pool_select};
use super::{setup, with_items, with_node};
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::stage::Stage;
use crate::{Plan, Side};

pub const MIXED: &str = "node_pool_mixed_100";

/// Statements of one round.
const ROUND: u32 = 10_000;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_node(pool_locks::NODE, || {
        // One of its rounds warms it up.
        let task = |driver| Task { named: driver == "pg", ..task(driver, pool_locks::WORK, 1) };
        let mut ours = vec![("drop_in", task("onetrip_pg"))];
        if setup::has("modern") {
            ours.push(("modern", task("onetrip")));
        }
        let row = (pool_locks::NODE, &*setup::note());
        pool_locks::of_processes(stage, plan, progress, row, ours, task("pg"))
    })
}

/// A fifth of the statements are updates, of rows that are seldom the same.
pub fn mixed(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_node(MIXED, || {
        with_items(stage)?;
        pool_select::with_counters(stage)?;
        let (url, operations) = (stage.server.url(), ROUND / plan.shorter);
        let task = |driver| task(driver, "mixed", operations / 2);
        let pg = [task("pg"), Task { named: true, ..task("pg") }];
        let pg = match plan.side {
            Side::Ours => task("pg"),
            _ => cheaper(pg, operations / 2, &url)?,
        };
        let how = if pg.named { "with" } else { "without" };
        let note = format!(
            "100 tasks on 10 connections, every fifth statement an update; pg: {how} names for \
             statements; {}",
            setup::note()
        );
        let mut runners = vec![Runner::ours("drop_in", task("onetrip_pg"))];
        if setup::has("modern") {
            runners.push(Runner::ours("modern", task("onetrip")));
        }
        runners.push(Runner::peer("pg", pg, Bars { cpu: Some(0.7), time: Some(1.0) }));
        beside(plan, progress, (MIXED, operations), &runners, &url, &note)
    })
}

fn task(driver: &'static str, work: &'static str, warmth: u32) -> Task {
    Task {
        language: Language::Node,
        driver,
        work,
        in_flight: 100,
        connections: 10,
        pipeline: true,
        named: false,
        warmth,
    }
}
