//! Point selects on one connection, each with its own sync point: 100 in flight, and one by one.

use anyhow::Result;

use super::in_flight::{self, DEPTH, Mode, Ours, Peer, Selects};
use crate::environment::TOKIO_POSTGRES;
use crate::measure::{Pairs, Sample, Spread, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::spinners::Spinners;
use crate::stage::{Stage, one_thread, two_threads};
use crate::{Plan, Side};

const IN_FLIGHT: &str = "select_100_sync_each";

/// Selects of one round: some 0.1 s.
pub(super) const IN_FLIGHT_ROUND: u32 = 8_000;
pub(super) const SEQUENTIAL_ROUND: u32 = 2_000;

/// Rounds of each mode before one is chosen.
const TRIALS: usize = 5;

pub fn in_flight(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let count = IN_FLIGHT_ROUND / plan.shorter;
    if plan.side == Side::Ours {
        return each_mode(stage, plan, progress, count);
    }
    let one = one_thread()?.block_on(both(stage, plan, progress, count))?;
    let bars = Bars { cpu: Some(0.8), time: Some(1.05) };
    let mut rows = compared(IN_FLIGHT, TOKIO_POSTGRES, &one.0, bars, &one.1);
    if plan.side == Side::Both {
        let two = two_threads()?.block_on(both(stage, plan, progress, count))?;
        let name = format!("{IN_FLIGHT}.two_threads");
        rows.extend(compared(&name, TOKIO_POSTGRES, &two.0, Bars::default(), &two.1));
    }
    Ok(rows)
}

/// Ours in every mode: which of them is the better one may differ from run to run.
fn each_mode(stage: &Stage, plan: Plan, progress: &Progress, count: u32) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (threads, runtime) in [("one", one_thread()?), ("two", two_threads()?)] {
        let ours = runtime.block_on(Ours::connect(stage))?;
        for mode in Mode::ALL {
            let pairs = runtime.block_on(paired(
                plan,
                progress,
                async |round| run(&ours, mode, count, round).await,
                async |round| run(&ours, mode, count, round).await,
            ))?;
            let name = format!("{IN_FLIGHT}.{mode:?}.{threads}_thread").to_lowercase();
            rows.extend(compared(&name, "", &pairs, Bars::default(), mode.name()));
        }
    }
    Ok(rows)
}

async fn both(
    stage: &Stage,
    plan: Plan,
    progress: &Progress,
    count: u32,
) -> Result<(Pairs, String)> {
    let (ours, peer) = (Ours::connect(stage).await?, Peer::connect(stage).await?);
    let mode_of_ours = match plan.side {
        Side::Peer => Mode::Queue,
        _ => better_mode(&ours, count).await?,
    };
    let mode_of_peer = better_mode(&peer, count).await?;
    let pairs = paired(
        plan,
        progress,
        async |round| run(&ours, mode_of_ours, count, round).await,
        async |round| run(&peer, mode_of_peer, count, round).await,
    )
    .await?;
    let note = format!("ours: {}; peer: {}", mode_of_ours.name(), mode_of_peer.name());
    Ok((pairs, note))
}

/// The mode that takes least CPU. Each has its turn in each trial.
pub(super) async fn better_mode(on: &impl Selects, count: u32) -> Result<Mode> {
    let mut costs = Mode::ALL.map(|mode| (mode, Vec::new()));
    for trial in 0..=TRIALS {
        for (mode, costs) in &mut costs {
            let sample = run(on, *mode, count / 2, trial).await?;
            if trial > 0 {
                costs.push(sample.cpu_us());
            }
        }
    }
    let medians = costs.map(|(mode, costs)| (mode, Spread::of(costs).median));
    let best = medians.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
    Ok(best.map_or(Mode::Tasks, |(mode, _)| mode))
}

pub(super) async fn run(on: &impl Selects, mode: Mode, count: u32, round: usize) -> Result<Sample> {
    let count = count - count % DEPTH as u32;
    let first = round as u32 * count;
    timed(u64::from(count), in_flight::run(on, mode, count, first)).await
}

pub fn sequential(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let count = SEQUENTIAL_ROUND / plan.shorter;
    let spinners = Spinners::start();
    let pairs = one_thread()?.block_on(async {
        let (ours, peer) = (Ours::connect(stage).await?, Peer::connect(stage).await?);
        paired(
            plan,
            progress,
            async |round| one_by_one(&ours, count, round).await,
            async |round| one_by_one(&peer, count, round).await,
        )
        .await
    })?;
    let bars = Bars { cpu: None, time: Some(1.05) };
    Ok(compared("select_sequential", TOKIO_POSTGRES, &pairs, bars, spinners.note()))
}

pub(super) async fn one_by_one(on: &impl Selects, count: u32, round: usize) -> Result<Sample> {
    let first = round as u32 * count;
    timed(u64::from(count), async {
        let mut sum = 0_u64;
        for number in first..first + count {
            sum = sum.wrapping_add(on.select(in_flight::id(number)).await?);
        }
        Ok(sum)
    })
    .await
}
