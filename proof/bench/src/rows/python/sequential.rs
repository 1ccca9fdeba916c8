//! One select after the other on one connection.

use anyhow::Result;

use super::super::process::Process;
use super::super::turns::beside;
use super::{OURS, beside_asyncpg, setup, task, with_python};
use crate::progress::Progress;
use crate::report::{self, Bars, Row};
use crate::spinners::Spinners;
use crate::stage::Stage;
use crate::{Plan, Side};

pub const NAME: &str = "python_sequential";

/// Selects of one round.
const ROUND: u32 = 2_000;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(NAME, || {
        let spinners = Spinners::start();
        let (url, operations) = (stage.server.url(), ROUND / plan.shorter);
        let note = format!("one after the other; {}; {}", spinners.note(), setup::note());
        let bars = Bars { cpu: Some(0.8), time: None };
        let mut rows = Vec::new();
        for work in ["value", "item"] {
            let name = format!("{NAME}.{work}");
            let runners = beside_asyncpg(|driver| task(driver, work, operations), bars);
            rows.extend(beside(plan, progress, (&name, operations), &runners, &url, &note)?);
        }
        if plan.side == Side::Both {
            rows.extend(medians(&url, plan, operations, &note)?);
        }
        Ok(rows)
    })
}

/// The medians of what single selects take.
fn medians(url: &str, plan: Plan, operations: u32, note: &str) -> Result<Vec<Row>> {
    let drivers = [OURS[0].1, OURS[1].1, "asyncpg"];
    let start = |driver| Process::start(&task(driver, "latency", operations), url);
    let mut processes: Vec<_> = drivers.into_iter().map(start).collect::<Result<_>>()?;
    let mut found = vec![Vec::new(); processes.len()];
    for round in 0..plan.rounds {
        let mut order: Vec<usize> = (0..processes.len()).collect();
        if round % 2 == 0 {
            order.reverse();
        }
        for which in order {
            found[which].extend(processes[which].figures_of(operations)?);
        }
    }
    let rows = OURS.iter().enumerate().map(|(at, (short, _))| {
        let name = format!("{NAME}.item.{short}.p50");
        let figures = (&found[at][..], &found[2][..]);
        report::beside(&name, "µs", &processes[2].version, figures).at_most(1.0).note(note)
    });
    Ok(rows.collect())
}
