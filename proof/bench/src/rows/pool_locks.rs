//! Three tasks that lock a row and read beside their transaction, and six that update that row, over
//! a pool of 10 connections: how much they get done, and for how long nothing ends at the longest. In
//! Rust, and for the rows of other languages in processes of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use deadpool_postgres::Pool as Deadpool;
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use onetrip::Client;

use super::pools;
use super::process::{Process, Task};
use crate::environment::DEADPOOL;
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::stage::{Stage, one_thread, two_threads};
use crate::{Plan, Side};

pub const NAME: &str = "pool_locks";

const LOCKERS: usize = 3;
const UPDATERS: usize = 6;

/// How long one round lasts.
const ROUND: Duration = Duration::from_secs(2);

const ROUNDS_MAX: usize = 5;

/// How the rows are called in other languages.
pub const NODE: &str = "node_pool_locks";
pub const PYTHON: &str = "python_pool_locks";

/// The work of a process. It runs for as long as a round here, and finds the rate and the longest
/// standstill.
pub const WORK: &str = "locks";

const NOTE: &str = "three tasks lock a row and read beside it, six update it; 10 connections";

const TABLE: &str = "
    drop table if exists locked;
    create table locked (id int primary key, n int not null);
    insert into locked select i, 0 from generate_series(1, 9) i;";

/// The longest time in which nothing may end, in milliseconds.
const STANDSTILL_MAX_MS: f64 = 1200.0;

const UPDATE: &str = "update locked set n = n + 1 where id = $1";
const SELECT: &str = "select n from locked where id = $1";

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let rounds = plan.rounds.min(ROUNDS_MAX);
    let (mut ours, mut peers) = (Figures::default(), Figures::default());
    with_rows(stage)?;
    two_threads()?.block_on(async {
        let (pool, peer) = (pools::ours(stage).await?, pools::deadpool(stage)?);
        for number in 0..rounds {
            if plan.side != Side::Peer {
                ours.add(round(&pool).await?);
            }
            if plan.side != Side::Ours {
                peers.add(round(&peer).await?);
            }
            progress.tick(number + 1, rounds);
        }
        anyhow::Ok(())
    })?;
    let peers = (plan.side == Side::Both).then_some((DEADPOOL, &peers));
    Ok(rows(NAME, &ours, peers, NOTE))
}

/// Ours, and what rows call them, beside a peer: each in a process of its own.
pub fn of_processes(
    stage: &Stage,
    plan: Plan,
    progress: &Progress,
    (name, how): (&str, &str),
    ours: Vec<(&str, Task)>,
    peer: Task,
) -> Result<Vec<Row>> {
    with_rows(stage)?;
    let url = stage.server.url();
    let rounds = plan.rounds.min(ROUNDS_MAX);
    let takes_part = |is_peer: bool| plan.side != if is_peer { Side::Ours } else { Side::Peer };
    let all = ours.into_iter().chain([("peer", peer)]);
    let mut sides = Vec::new();
    for (short, task) in all.filter(|(short, _)| takes_part(*short == "peer")) {
        sides.push((short, Process::start(&task, &url)?, Figures::default()));
    }
    for number in 0..rounds {
        for (_, process, figures) in &mut sides {
            let [rate, standstill] = process.figures()?[..] else { bail!("no such figures") };
            figures.rate.push(rate);
            figures.standstill.push(standstill);
        }
        progress.tick(number + 1, rounds);
    }
    let peer = sides.pop_if(|(short, ..)| *short == "peer");
    let peer = peer.as_ref().map(|(_, process, figures)| (&*process.version, figures));
    let peer = peer.filter(|_| plan.side == Side::Both);
    let note = format!("{NOTE}; {how}");
    let of =
        |(short, _, figures): &(&str, _, _)| rows(&format!("{name}.{short}"), figures, peer, &note);
    Ok(sides.iter().flat_map(of).collect())
}

/// The rows that are locked.
fn with_rows(stage: &Stage) -> Result<()> {
    one_thread()?.block_on(async {
        let client = stage.peer().await?;
        client.batch_execute(TABLE).await.context("cannot fill the table of locks")
    })
}

fn rows(name: &str, ours: &Figures, peer: Option<(&str, &Figures)>, note: &str) -> Vec<Row> {
    let standstill = Spread::of(ours.standstill.clone());
    let bar = Some(STANDSTILL_MAX_MS);
    let mut rows =
        vec![Row::alone(&format!("{name}.standstill"), "ms", standstill, bar).note(note)];
    if let Some((version, peers)) = peer {
        let rate = (&ours.rate[..], &peers.rate[..]);
        rows.push(beside(&format!("{name}.rate"), "1/s", version, rate).at_least(1.0).note(note));
        let standstill = (&ours.standstill[..], &peers.standstill[..]);
        rows.push(beside(&format!("{name}.standstill_beside"), "ms", version, standstill));
    }
    rows
}

#[derive(Default)]
struct Figures {
    /// Requests in a second.
    rate: Vec<f64>,
    /// Milliseconds.
    standstill: Vec<f64>,
}

impl Figures {
    fn add(&mut self, (rate, standstill): (f64, Duration)) {
        self.rate.push(rate);
        self.standstill.push(standstill.as_secs_f64() * 1e3);
    }
}

/// When requests end.
struct Ends {
    begin: Instant,
    count: AtomicU64,
    /// When the last one ended, and the longest time between two, in microseconds.
    last: AtomicU64,
    longest: AtomicU64,
}

impl Ends {
    fn one(&self) {
        let now = self.begin.elapsed().as_micros() as u64;
        let last = self.last.swap(now, Ordering::Relaxed);
        self.longest.fetch_max(now.saturating_sub(last), Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

async fn round(pool: &impl Locks) -> Result<(f64, Duration)> {
    let (count, last, longest) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let ends = Arc::new(Ends { begin: Instant::now(), count, last, longest });
    let tasks = (0..LOCKERS + UPDATERS).map(|at| {
        let (pool, ends) = (pool.clone(), ends.clone());
        tokio::spawn(async move {
            while ends.begin.elapsed() < ROUND {
                match at < LOCKERS {
                    true => pool.lock_and_read().await?,
                    false => pool.update().await?,
                }
                ends.one();
            }
            anyhow::Ok(())
        })
    });
    let tasks: FuturesUnordered<_> = tasks.collect();
    let ended: Vec<Result<()>> = tasks.try_collect().await?;
    ended.into_iter().collect::<Result<()>>()?;
    let seconds = ends.begin.elapsed().as_secs_f64();
    let rate = ends.count.load(Ordering::Relaxed) as f64 / seconds;
    Ok((rate, Duration::from_micros(ends.longest.load(Ordering::Relaxed))))
}

trait Locks: Clone + Send + Sync + 'static {
    fn update(&self) -> impl Future<Output = Result<()>> + Send;

    /// A transaction that updates the row, and a read of another row beside it.
    fn lock_and_read(&self) -> impl Future<Output = Result<()>> + Send;
}

impl Locks for Client {
    async fn update(&self) -> Result<()> {
        self.execute(UPDATE, &[&1]).await?;
        Ok(())
    }

    async fn lock_and_read(&self) -> Result<()> {
        let tx = self.begin().await?;
        tx.execute(UPDATE, &[&1]).await?;
        self.query_one(SELECT, &[&7]).await?;
        tx.commit().await?;
        Ok(())
    }
}

impl Locks for Deadpool {
    async fn update(&self) -> Result<()> {
        let client = self.get().await.context("deadpool has no connection")?;
        let statement = client.prepare_cached(UPDATE).await?;
        client.execute(&statement, &[&1]).await?;
        Ok(())
    }

    async fn lock_and_read(&self) -> Result<()> {
        let mut client = self.get().await.context("deadpool has no connection")?;
        let tx = client.transaction().await?;
        let statement = tx.prepare_cached(UPDATE).await?;
        tx.execute(&statement, &[&1]).await?;
        let beside = self.get().await.context("deadpool has no connection")?;
        let select = beside.prepare_cached(SELECT).await?;
        beside.query_one(&select, &[&7]).await?;
        drop(beside);
        tx.commit().await?;
        Ok(())
    }
}
