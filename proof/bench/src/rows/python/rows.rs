//! Selects of 100,000 rows of six columns.

use anyhow::Result;

use super::super::turns::beside;
use super::{beside_asyncpg, setup, task, with_python, with_tables};
use crate::Plan;
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::stage::Stage;

pub const NAME: &str = "python_rows_100k";

/// What the columns have, and what ours may take of asyncpg's CPU.
const KINDS: [(&str, &str, f64); 2] = [
    ("numbers", "three integers and three texts", 0.5),
    ("values", "two timestamps, two numerics and two uuids", 0.8),
];

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(NAME, || {
        with_tables(stage)?;
        let mut rows = Vec::new();
        for (work, what, bar) in KINDS {
            let bars = Bars { cpu: Some(bar), time: None };
            let runners = beside_asyncpg(|driver| task(driver, work, 1), bars);
            let name = format!("{NAME}.{work}");
            let note = format!("a list of 100,000 rows of {what}; {}", setup::note());
            let url = stage.server.url();
            rows.extend(beside(plan, progress, (&name, 2), &runners, &url, &note)?);
        }
        Ok(rows)
    })
}
