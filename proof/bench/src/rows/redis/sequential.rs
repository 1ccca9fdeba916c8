//! One command after the other: each pays a whole round trip.

use anyhow::Result;

use super::clients::{Buffers, Commands, Fred, Ours, RedisRs};
use super::load::{Operation, closed_loop};
use super::server::{named, with_server};
use crate::Plan;
use crate::environment::{FRED, REDIS_RS};
use crate::measure::{Pairs, Sample, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::spinners::Spinners;
use crate::stage::{Stage, one_thread};

const NAME: &str = "redis_sequential";

/// Commands of one round: some 0.1 s.
const ROUND: usize = 4_000;

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_server(NAME, |server| {
        let (url, on) = (server.url(), named(server));
        let spinners = Spinners::start();
        let note = format!("{on}; {}", spinners.note());
        one_thread()?.block_on(async {
            let ours = Ours::connect(&url).await?;
            let redis_rs = RedisRs::connect(&url, Buffers::Default).await?;
            let fred = Fred::connect(&url).await?;
            let bars = Bars { cpu: None, time: Some(1.05) };
            let mut rows = Vec::new();
            for operation in Operation::ALL {
                let name = |peer| format!("{NAME}.{}.{peer}", operation.name());
                let pairs = beside(plan, progress, operation, &ours, &redis_rs).await?;
                rows.extend(compared(&name("redis_rs"), REDIS_RS, &pairs, bars, &note));
                let pairs = beside(plan, progress, operation, &ours, &fred).await?;
                rows.extend(compared(&name("fred"), FRED, &pairs, Bars::default(), &note));
            }
            Ok(rows)
        })
    })
}

async fn beside(
    plan: Plan,
    progress: &Progress,
    operation: Operation,
    ours: &impl Commands,
    peer: &impl Commands,
) -> Result<Pairs> {
    let count = ROUND / plan.shorter as usize;
    paired(
        plan,
        progress,
        async |round| one_by_one(ours, operation, count, round).await,
        async |round| one_by_one(peer, operation, count, round).await,
    )
    .await
}

async fn one_by_one(
    on: &impl Commands,
    operation: Operation,
    count: usize,
    round: usize,
) -> Result<Sample> {
    timed(count as u64, closed_loop(on, operation, (1, count), round * count)).await
}
