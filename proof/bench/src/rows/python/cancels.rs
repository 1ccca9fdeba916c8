//! 10,000 cancels and timeouts at random moments on shared connections: what becomes of the
//! neighbours, and of the connections.

use anyhow::{Result, ensure};

use super::super::process::{Process, Task};
use super::{OURS, setup, task, with_python};
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;
use crate::{Plan, Side};

pub const NAME: &str = "python_cancels";

const CANCELS: u32 = 10_000;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(NAME, || {
        if plan.side == Side::Peer {
            return Ok(Vec::new());
        }
        let mut rows = Vec::new();
        for (number, (short, driver)) in OURS.into_iter().enumerate() {
            let task = Task { connections: 3, ..task(driver, "storm", 0) };
            let mut process = Process::start(&task, &stage.server.url())?;
            let figures = process.figures_of(CANCELS / plan.shorter)?;
            ensure!(figures.len() == 5, "the storm found {figures:?}");
            let [harmed, lost] = [figures[0], figures[1]];
            let [hit, late, neighbours] = [figures[2], figures[3], figures[4]];
            let note = format!(
                "{} cancels and timeouts by 8 tasks on 3 shared connections: {hit} hit, {late} \
                 came too late; {neighbours} neighbours; {}",
                hit + late,
                setup::note()
            );
            let name = format!("{NAME}.{short}");
            for (what, found) in [("harmed", harmed), ("lost", lost)] {
                let unit = if what == "harmed" { "neighbours" } else { "connections" };
                let row =
                    Row::alone(&format!("{name}.{what}"), unit, Spread::of([found]), Some(0.0));
                rows.push(row.note(&note));
            }
            progress.tick(number + 1, OURS.len());
        }
        Ok(rows)
    })
}
