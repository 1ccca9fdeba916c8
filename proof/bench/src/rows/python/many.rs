//! Many rows that are written: executemany, fetchmany, binary COPY.

use anyhow::Result;

use super::super::turns::beside;
use super::{beside_asyncpg, setup, task, with_python};
use crate::Plan;
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::stage::Stage;

pub const NAME: &str = "python_many";

/// The works, and how they write.
const WAYS: [(&str, &str); 3] = [
    ("executemany", "inserts by executemany"),
    ("fetchmany", "inserts with RETURNING by fetchmany"),
    ("copy_in", "records by binary COPY"),
];

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(NAME, || {
        let mut rows = Vec::new();
        for (work, what) in WAYS {
            let bars = Bars { cpu: Some(0.8), time: None };
            let runners = beside_asyncpg(|driver| task(driver, work, 1), bars);
            let name = format!("{NAME}.{work}");
            let note = format!("5,000 rows of four columns: {what}; {}", setup::note());
            let url = stage.server.url();
            rows.extend(beside(plan, progress, (&name, 4), &runners, &url, &note)?);
        }
        Ok(rows)
    })
}
