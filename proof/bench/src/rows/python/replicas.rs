//! Reads on replicas from Python: how many more there are, and what the guard costs.

use anyhow::Result;

use super::super::{replica_stale, replicas};
use super::{setup, task, with_python};
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;
use crate::{Plan, Side};

pub const RATE: &str = "python_replica_reads";
pub const GUARD: &str = "python_replica_guard";
pub const STALE: &str = "python_replica_stale";

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    with_python(RATE, || {
        let task = |driver, work| task(driver, work, 0);
        replicas::of_language(plan, progress, [RATE, GUARD], task, &setup::note())
    })
}

pub fn stale(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    with_python(STALE, || {
        let task = |driver, work| task(driver, work, 0);
        replica_stale::of_language(STALE, plan, progress, task, &setup::note())
    })
}
