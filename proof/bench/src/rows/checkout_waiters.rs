//! How long 100 tasks wait for 10 connections, each held for one `select 1`: the unlucky beside the
//! usual.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;

use super::pools::{self, Checkout, opened_exclusively};
use crate::environment::{BB8, DEADPOOL};
use crate::measure::{Spread, quantile};
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

const NAME: &str = "checkout_waiters";

const TASKS: u32 = 100;

/// Checkouts of a task in one round.
const CHECKOUTS: u32 = 100;

const ROUNDS_MAX: usize = 15;

/// The longest wait of a thousand, in usual ones.
const MULTIPLE_MAX: f64 = 3.0;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let rounds = plan.rounds.min(ROUNDS_MAX);
    let (mut ours, mut deadpool, mut bb8) = (Waits::default(), Waits::default(), Waits::default());
    one_thread()?.block_on(async {
        let our_pool = opened_exclusively(pools::ours(stage).await?).await?;
        let deadpool_pool = opened_exclusively(pools::deadpool(stage)?).await?;
        let bb8_pool = opened_exclusively(pools::bb8(stage).await?).await?;
        for number in 0..rounds {
            if plan.side != Side::Peer {
                ours.add(round(&our_pool).await?);
            }
            if plan.side != Side::Ours {
                deadpool.add(round(&deadpool_pool).await?);
                bb8.add(round(&bb8_pool).await?);
            }
            progress.tick(number + 1, rounds);
        }
        anyhow::Ok(())
    })?;
    let mut rows = vec![ours.row(&deadpool, &bb8)];
    for (peer, version, waits) in [("deadpool", DEADPOOL, deadpool), ("bb8", BB8, bb8)] {
        let name = format!("{NAME}.{peer}");
        rows.push(beside(&format!("{name}.median"), "µs", version, (&ours.usual, &waits.usual)));
        rows.push(beside(&format!("{name}.p999"), "µs", version, (&ours.longest, &waits.longest)));
    }
    Ok(rows)
}

/// The waits of one round, in microseconds.
async fn round(pool: &impl Checkout) -> Result<Vec<f64>> {
    let tasks = (0..TASKS).map(|_| {
        let pool = pool.clone();
        tokio::spawn(async move { turns(&pool).await })
    });
    let tasks: FuturesUnordered<_> = tasks.collect();
    let waits: Vec<Result<Vec<Duration>>> = tasks.try_collect().await?;
    let waits: Result<Vec<_>> = waits.into_iter().collect();
    Ok(waits?.into_iter().flatten().map(|wait| wait.as_secs_f64() * 1e6).collect())
}

async fn turns<P: Checkout>(pool: &P) -> Result<Vec<Duration>> {
    let mut waits = Vec::new();
    for _ in 0..CHECKOUTS {
        let start = Instant::now();
        let held = pool.checkout().await?;
        waits.push(start.elapsed());
        P::select_1(&held).await?;
    }
    Ok(waits)
}

/// What each round showed.
#[derive(Default)]
struct Waits {
    usual: Vec<f64>,
    longest: Vec<f64>,
}

impl Waits {
    fn add(&mut self, mut waits: Vec<f64>) {
        waits.sort_unstable_by(f64::total_cmp);
        self.usual.push(quantile(&waits, 0.5));
        self.longest.push(quantile(&waits, 0.999));
    }

    fn multiple(&self) -> Spread {
        Spread::of(self.longest.iter().zip(&self.usual).map(|(longest, usual)| longest / usual))
    }

    fn row(&self, deadpool: &Waits, bb8: &Waits) -> Row {
        let note = format!(
            "p99.9 in medians, of the waits of 100 tasks for 10 connections, each held for a \
             select 1, on one thread; deadpool {:.2}, bb8 {:.2}",
            deadpool.multiple().median,
            bb8.multiple().median
        );
        Row::alone(NAME, "× median", self.multiple(), Some(MULTIPLE_MAX)).note(&note)
    }
}
