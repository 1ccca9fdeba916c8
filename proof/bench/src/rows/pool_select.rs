//! Point selects of 100 tasks over a pool of 10 connections, each task one after the other; and the
//! same with an update in every fifth place.

use anyhow::{Context, Result};
use deadpool_postgres::Pool as Deadpool;
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use onetrip::{Client, Statement};
use sqlx::{PgPool, Row as _};
use tokio::runtime::Runtime;

use super::{in_flight, pools};
use crate::environment::{DEADPOOL, SQLX};
use crate::item::SELECT_ONE;
use crate::measure::{Pairs, Sample, Spread, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::stage::{Stage, one_thread, two_threads};
use crate::{Plan, Side};

pub const NAME: &str = "pool_select_100_tasks";
pub const MIXED: &str = "pool_mixed_100_tasks";

/// Rows that are updated.
const COUNTERS: i32 = 10_000;

const UPDATE_ONE: &str = "update counter set n = n + 1 where id = $1";

const TASKS: u32 = 100;

/// Selects of a task in one round.
const SELECTS: u32 = 40;

/// Rounds on each runtime before one is chosen.
const TRIALS: u32 = 5;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let bars = Bars { cpu: Some(0.9), time: Some(1.05) };
    let (row, update_every) = (NAME, u32::MAX);
    let name = "deadpool";
    let beside = Beside { stage, plan, progress, row, update_every, name, version: DEADPOOL, bars };
    if plan.side == Side::Ours {
        return beside.ours(async || pools::deadpool(stage));
    }
    let mut rows = beside.compare(async || pools::deadpool(stage))?;
    let bars = Bars { cpu: Some(0.4), time: Some(0.4) };
    let beside = Beside { name: "sqlx", version: SQLX, bars, ..beside };
    rows.extend(beside.compare(async || pools::sqlx(stage).await)?);
    Ok(rows)
}

/// A fifth of the statements are updates, of rows that are seldom the same.
pub fn mixed(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_counters(stage)?;
    let bars = Bars { cpu: Some(0.7), time: Some(1.0) };
    let (row, update_every, name) = (MIXED, 5, "deadpool");
    let beside = Beside { stage, plan, progress, row, update_every, name, version: DEADPOOL, bars };
    if plan.side == Side::Ours {
        return beside.ours(async || pools::deadpool(stage));
    }
    beside.compare(async || pools::deadpool(stage))
}

/// The rows that are updated, here and in other languages.
pub fn with_counters(stage: &Stage) -> Result<()> {
    one_thread()?.block_on(async {
        let client = stage.peer().await?;
        let sql = format!(
            "drop table if exists counter;
             create table counter (id int primary key, n int not null);
             insert into counter select i, 0 from generate_series(1, {COUNTERS}) i"
        );
        client.batch_execute(&sql).await.context("cannot fill the table of counters")
    })
}

/// A comparison with one peer.
struct Beside<'a> {
    stage: &'a Stage,
    plan: Plan,
    progress: &'a Progress,
    row: &'static str,
    /// Every statement with a number that this divides is an update.
    update_every: u32,
    name: &'static str,
    version: &'static str,
    bars: Bars,
}

impl Beside<'_> {
    /// On the runtime where the peer takes less CPU, with bars; on the other without.
    fn compare<P: Points>(&self, open: impl AsyncFn() -> Result<P>) -> Result<Vec<Row>> {
        let (one, two) = (one_thread()?, two_threads()?);
        let trial_of = trial(&open, self.update_every);
        let on_one = one.block_on(trial_of)?;
        let on_two = two.block_on(trial(&open, self.update_every))?;
        let trial = format!("the peer's CPU in trials: one thread {on_one:.1} µs, two {on_two:.1}");
        let (one, two) = ((one, "one_thread"), (two, "two_threads"));
        let (best, other) = if on_one <= on_two { (one, two) } else { (two, one) };
        let note = format!("{} ({trial})", best.1.replace('_', " "));
        let name = format!("{}.{}", self.row, self.name);
        let pairs = self.measure(&best.0, &open)?;
        let mut rows = compared(&name, self.version, &pairs, self.bars, &note);
        if self.plan.side == Side::Both {
            let pairs = self.measure(&other.0, &open)?;
            let name = format!("{name}.{}", other.1);
            rows.extend(compared(&name, self.version, &pairs, Bars::default(), ""));
        }
        Ok(rows)
    }

    /// On both runtimes: on which of them the peer takes less may differ from run to run.
    fn ours<P: Points>(&self, open: impl AsyncFn() -> Result<P>) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for (name, runtime) in [("one_thread", one_thread()?), ("two_threads", two_threads()?)] {
            let pairs = self.measure(&runtime, &open)?;
            rows.extend(compared(&format!("{}.{name}", self.row), "", &pairs, Bars::default(), ""));
        }
        Ok(rows)
    }

    fn measure<P: Points>(
        &self,
        runtime: &Runtime,
        open: &impl AsyncFn() -> Result<P>,
    ) -> Result<Pairs> {
        let (selects, every) = (SELECTS / self.plan.shorter, self.update_every);
        runtime.block_on(async {
            let (ours, peer) = (Ours::open(self.stage).await?, open().await?);
            paired(
                self.plan,
                self.progress,
                async |round| run_tasks(&ours, selects, every, round).await,
                async |round| run_tasks(&peer, selects, every, round).await,
            )
            .await
        })
    }
}

/// The CPU time of a select, median of some rounds.
async fn trial<P: Points>(open: &impl AsyncFn() -> Result<P>, update_every: u32) -> Result<f64> {
    let pool = open().await?;
    run_tasks(&pool, SELECTS, update_every, 0).await?;
    let mut costs = Vec::new();
    for round in 0..TRIALS {
        costs.push(run_tasks(&pool, SELECTS, update_every, round as usize).await?.cpu_us());
    }
    Ok(Spread::of(costs).median)
}

async fn run_tasks(
    pool: &impl Points,
    selects: u32,
    update_every: u32,
    round: usize,
) -> Result<Sample> {
    let first = round as u32 * TASKS * selects;
    timed(u64::from(TASKS * selects), async {
        let tasks = (0..TASKS).map(|task| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let mut sum = 0_u64;
                for number in 0..selects {
                    let number = first + task * selects + number;
                    let id = in_flight::id(number);
                    match number % update_every {
                        0 if update_every <= selects => pool.update(id % COUNTERS + 1).await?,
                        _ => sum = sum.wrapping_add(pool.select(id).await?),
                    }
                }
                anyhow::Ok(sum)
            })
        });
        let tasks: FuturesUnordered<_> = tasks.collect();
        let sums: Vec<Result<u64>> = tasks.try_collect().await?;
        sums.into_iter().try_fold(0_u64, |sum, it| Ok(sum.wrapping_add(it?)))
    })
    .await
}

/// A pool that selects a row and reads two of its columns.
trait Points: Clone + Send + Sync + 'static {
    fn select(&self, id: i32) -> impl Future<Output = Result<u64>> + Send;

    fn update(&self, id: i32) -> impl Future<Output = Result<()>> + Send;
}

#[derive(Clone)]
struct Ours {
    client: Client,
    statement: Statement,
}

impl Ours {
    async fn open(stage: &Stage) -> Result<Ours> {
        let client = pools::ours(stage).await?;
        let statement = client.prepare(SELECT_ONE).await?;
        Ok(Ours { client, statement })
    }
}

impl Points for Ours {
    async fn select(&self, id: i32) -> Result<u64> {
        let row = self.client.query_one(&self.statement, &[&id]).await?;
        let row = row.as_ref();
        Ok(two_columns(row.get(0), row.get(1)))
    }

    async fn update(&self, id: i32) -> Result<()> {
        self.client.execute(UPDATE_ONE, &[&id]).await?;
        Ok(())
    }
}

impl Points for Deadpool {
    async fn select(&self, id: i32) -> Result<u64> {
        let client = self.get().await.context("deadpool has no connection")?;
        let statement = client.prepare_cached(SELECT_ONE).await?;
        let row = client.query_one(&statement, &[&id]).await?;
        Ok(two_columns(row.get(0), row.get(1)))
    }

    async fn update(&self, id: i32) -> Result<()> {
        let client = self.get().await.context("deadpool has no connection")?;
        let statement = client.prepare_cached(UPDATE_ONE).await?;
        client.execute(&statement, &[&id]).await?;
        Ok(())
    }
}

impl Points for PgPool {
    async fn select(&self, id: i32) -> Result<u64> {
        let row = sqlx::query(SELECT_ONE).bind(id).fetch_one(self).await?;
        Ok(two_columns(row.get(0), row.get(1)))
    }

    async fn update(&self, id: i32) -> Result<()> {
        sqlx::query(UPDATE_ONE).bind(id).execute(self).await?;
        Ok(())
    }
}

fn two_columns(id: i32, name: &str) -> u64 {
    id as u64 + name.len() as u64
}
