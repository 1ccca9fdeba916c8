//! A million rows as a table of Arrow.

use anyhow::Result;

use super::super::turns::{Runner, beside};
use super::{setup, task, with_python, with_tables};
use crate::Plan;
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::stage::Stage;

pub const NAME: &str = "python_arrow_1m";

/// Each takes seconds.
const ROUNDS_MAX: usize = 9;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(NAME, || {
        with_tables(stage)?;
        let plan = Plan { rounds: plan.rounds.min(ROUNDS_MAX), ..plan };
        let task = |driver| task(driver, "arrow", 1);
        let bars = |cpu| Bars { cpu: Some(cpu), time: None };
        let runners = [
            Runner::ours("native", task("onetrip")),
            Runner::peer("asyncpg", task("asyncpg"), bars(0.2)),
            Runner::peer("adbc", task("adbc"), bars(1.0)),
        ];
        let note = format!(
            "fetch_arrow of 1,000,000 rows of six columns as a table of pyarrow; asyncpg: its \
             rows by columns into pyarrow; {}",
            setup::note()
        );
        beside(plan, progress, (NAME, 1), &runners, &stage.server.url(), &note)
    })
}
