//! Tasks that lock rows beside tasks that read, and reads and updates of many tasks, over a pool of
//! 10 connections in Python.

use anyhow::Result;

use super::super::process::Task;
use super::super::turns::beside;
use super::super::{pool_locks, pool_select};
use super::{OURS, beside_asyncpg, setup, task, with_python};
use crate::Plan;
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::stage::Stage;

pub const MIXED: &str = "python_pool_mixed_100";

/// Statements of one round.
const ROUND: u32 = 10_000;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(pool_locks::PYTHON, || {
        // One of its rounds warms it up.
        let task = |driver| Task { connections: 10, ..task(driver, pool_locks::WORK, 1) };
        let ours = OURS.iter().map(|(short, driver)| (*short, task(driver))).collect();
        let how = format!("asyncpg resets a connection behind each use; {}", setup::note());
        let row = (pool_locks::PYTHON, &*how);
        pool_locks::of_processes(stage, plan, progress, row, ours, task("asyncpg"))
    })
}

/// A fifth of the statements are updates, of rows that are seldom the same.
pub fn mixed(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(MIXED, || {
        pool_select::with_counters(stage)?;
        let operations = ROUND / plan.shorter;
        let task = |driver| Task {
            in_flight: 100,
            connections: 10,
            ..task(driver, "mixed", operations / 2)
        };
        let runners = beside_asyncpg(task, Bars { cpu: Some(0.7), time: Some(1.0) });
        let note = format!(
            "100 tasks on 10 connections, every fifth statement an update; asyncpg resets a \
             connection behind each; {}",
            setup::note()
        );
        let row = (MIXED, operations);
        beside(plan, progress, row, &runners, &stage.server.url(), &note)
    })
}
