//! What the wheel weighs, and how long a program waits for its import.

use anyhow::{Context, Result};

use super::super::node::setup::said;
use super::{setup, with_python};
use crate::Plan;
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::stage::Stage;

pub const NAME: &str = "python_package";

const WHEEL_MB_MAX: f64 = 4.0;
const IMPORT_MS_MAX: f64 = 30.0;

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(NAME, || {
        let wheel = std::fs::metadata(setup::wheel()?).context("there is no wheel")?;
        let size = Spread::of([wheel.len() as f64 / 1e6]);
        let size = Row::alone(&format!("{NAME}.wheel"), "MB", size, Some(WHEEL_MB_MAX));
        let mut times: [Vec<f64>; 3] = Default::default();
        for round in 0..=plan.rounds {
            for (times, module) in times.iter_mut().zip(["onetrip", "asyncpg", "asyncio"]) {
                let took = import_ms(module)?;
                // The first reads the files from the disk.
                times.extend((round > 0).then_some(took));
            }
            progress.tick(round, plan.rounds);
        }
        let [ours, peers, asyncio] = times;
        let asyncio = Spread::of(asyncio).median;
        let median = Spread::of(ours.iter().copied()).median;
        let import = Row {
            bar: Some(IMPORT_MS_MAX),
            holds: Some(median <= IMPORT_MS_MAX),
            ..beside(&format!("{NAME}.import"), "ms", "asyncpg", (&ours, &peers))
        };
        let note = format!(
            "in processes of their own; the bar is for ms; asyncio alone takes {asyncio:.1} ms; {}",
            setup::note()
        );
        Ok(vec![size.note("as pip downloads it"), import.note(&note)])
    })
}

fn import_ms(module: &str) -> Result<f64> {
    let mut python = setup::python();
    python.arg(setup::directory().join("import.py")).arg(module);
    said(&mut python)?.parse().context("cannot read how long an import took")
}
