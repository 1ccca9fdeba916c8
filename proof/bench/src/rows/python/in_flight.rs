//! 100 selects in flight on one connection, beside the same selects in Rust.

use anyhow::Result;

use super::super::in_flight::{DEPTH, Ours};
use super::super::process::{Process, Task};
use super::super::select;
use super::{OURS, setup, task, with_python};
use crate::measure::{Sample, paired};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

pub const NAME: &str = "python_in_flight_100";

/// Selects of one round.
const ROUND: u32 = 10_000;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(NAME, || {
        one_thread()?.block_on(async {
            let count = ROUND / plan.shorter;
            let rust = Ours::connect(stage).await?;
            let mode = match plan.side {
                Side::Both => select::better_mode(&rust, count).await?,
                _ => super::super::in_flight::Mode::Tasks,
            };
            let note = format!(
                "{DEPTH} at a time on one connection, a Sync each, all columns read; in Rust two \
                 of six are read, {}; {}",
                mode.name(),
                setup::note()
            );
            let mut rows = Vec::new();
            for (short, driver) in OURS {
                let task = Task { in_flight: DEPTH as u32, ..task(driver, "item", count / 2) };
                let mut python = Process::start(&task, &stage.server.url())?;
                // Python compares each reply with what it asked for.
                let summed = |sample: Sample| Sample { checksum: 0, ..sample };
                let pairs = paired(
                    plan,
                    progress,
                    async |_| python.round(count).map(summed),
                    async |round| select::run(&rust, mode, count, round).await.map(summed),
                )
                .await?;
                let bars = Bars { cpu: Some(1.6), time: None };
                let name = format!("{NAME}.{short}");
                rows.extend(compared(&name, "onetrip for Rust", &pairs, bars, &note));
            }
            Ok(rows)
        })
    })
}
