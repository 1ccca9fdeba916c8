//! Checking a connection out and giving it back, without a statement, where one is always free.

use std::hint::black_box;

use anyhow::{Context, Result};
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::{Builder, Runtime};

use super::pools::{self, Checkout, opened_exclusively};
use crate::Plan;
use crate::environment::{BB8, DEADPOOL};
use crate::measure::{Pairs, Sample, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared, rate};
use crate::stage::Stage;

const NAME: &str = "checkout_return";

/// Threads, and what multiple of the peer's rate is asked for.
const THREADS: [(usize, Option<f64>); 4] = [(1, Some(1.5)), (2, Some(1.5)), (4, None), (8, None)];

/// Checkouts of one round, over all threads.
const CHECKOUTS: u64 = 160_000;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (threads, bar) in THREADS {
        let runtime = workers(threads)?;
        let bench = Bench { plan, progress, threads };
        let (deadpool, bb8) = runtime.block_on(async {
            let ours = opened_exclusively(pools::ours(stage).await?).await?;
            let deadpool = opened_exclusively(pools::deadpool(stage)?).await?;
            let bb8 = opened_exclusively(pools::bb8(stage).await?).await?;
            anyhow::Ok((bench.pairs(&ours, &deadpool).await?, bench.pairs(&ours, &bb8).await?))
        })?;
        rows.extend(bench.rows("deadpool", DEADPOOL, &deadpool, bar));
        rows.extend(bench.rows("bb8", BB8, &bb8, bar));
    }
    Ok(rows)
}

fn workers(threads: usize) -> Result<Runtime> {
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    runtime.context("cannot start tokio")
}

struct Bench<'a> {
    plan: Plan,
    progress: &'a Progress,
    threads: usize,
}

impl Bench<'_> {
    async fn pairs(&self, ours: &impl Checkout, peer: &impl Checkout) -> Result<Pairs> {
        let each = CHECKOUTS / u64::from(self.plan.shorter) / self.threads as u64;
        paired(
            self.plan,
            self.progress,
            async |_| self.round(ours, each).await,
            async |_| self.round(peer, each).await,
        )
        .await
    }

    /// A task for each thread, each with one checkout after the other.
    async fn round(&self, pool: &impl Checkout, each: u64) -> Result<Sample> {
        timed(each * self.threads as u64, async {
            let tasks = (0..self.threads).map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    for _ in 0..each {
                        black_box(&pool.checkout().await?);
                    }
                    anyhow::Ok(each)
                })
            });
            let tasks: FuturesUnordered<_> = tasks.collect();
            let sums: Vec<Result<u64>> = tasks.try_collect().await?;
            sums.into_iter().sum()
        })
        .await
    }

    fn rows(&self, peer: &str, version: &str, pairs: &Pairs, bar: Option<f64>) -> Vec<Row> {
        let name = format!("{NAME}.{peer}.threads_{}", self.threads);
        let note = "10 connections, all open; a task for each thread of tokio's";
        let rates = rate(&name, version, pairs).note(note);
        let rates = bar.into_iter().fold(rates, Row::at_least);
        let mut rows = vec![rates];
        rows.extend(compared(&name, version, pairs, Bars::default(), note).into_iter().take(1));
        rows
    }
}
