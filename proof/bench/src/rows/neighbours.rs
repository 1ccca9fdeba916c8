//! What quick statements wait where others of the same pool take long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use deadpool_postgres::Pool as Deadpool;
use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use onetrip::{Client, Config};
use onetrip_lab::proxy::{Proxy, ProxyConfig};
use sqlx::{PgPool, Row as _};
use tokio::sync::Semaphore;

use super::{in_flight, pools};
use crate::environment::{DEADPOOL, SQLX};
use crate::measure::{Sample, Spread, quantile, timed};
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

pub const NAME: &str = "neighbours";

const TASKS: u32 = 200;

/// Statements of all tasks in a second, for each connection: a slow one takes half a second and is one
/// of a hundred, so half of the connections run one at a time.
const RATE: u32 = 80;

const SLOW: f64 = 0.5;

/// How long a round takes.
const ROUND: Duration = Duration::from_secs(3);

const ROUNDS_MAX: usize = 12;

/// Connections of the pools.
const SIZES: [usize; 2] = [10, 3];

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let rounds = plan.rounds.min(ROUNDS_MAX);
    let mut rows = Vec::new();
    one_thread()?.block_on(async {
        rows.push(one_tick(stage, rounds, None).await?);
        rows.push(one_tick(stage, rounds, Some(Duration::from_millis(5))).await?);
        progress.tick(1, 6);
        for (number, size) in SIZES.into_iter().enumerate() {
            rows.extend(mixture(stage, plan.side, rounds, size, Load::Points).await?);
            progress.tick(2 + 2 * number, 6);
            rows.extend(mixture(stage, plan.side, rounds, size, Load::Texts).await?);
            progress.tick(3 + 2 * number, 6);
            rows.push(busy_but_one(stage, rounds, size).await?);
        }
        progress.tick(6, 6);
        anyhow::Ok(())
    })?;
    Ok(rows)
}

// --- one tick ---

/// One that takes 1.5 s and was never seen, and ten quick ones right behind it, on a client with one
/// connection that may have ten.
async fn one_tick(stage: &Stage, rounds: usize, rtt: Option<Duration>) -> Result<Row> {
    let proxy =
        rtt.map(|rtt| Proxy::start(ProxyConfig::new(stage.addr()).with_rtt(rtt))).transpose();
    let proxy = proxy.context("cannot start the proxy")?;
    let url = match &proxy {
        None => stage.server.url(),
        Some(proxy) => stage.url_through(proxy.addr()),
    };
    let mut multiples = Vec::new();
    let (mut worst, mut bounds) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let opening = Instant::now();
        let config: Config = url.parse()?;
        let client = Client::connect_with(&config.connections_max(10)).await?;
        let opening = opening.elapsed();
        let mut trips = Vec::new();
        for _ in 0..20 {
            let start = Instant::now();
            client.query("select 'a trip'", &[]).await?;
            trips.push(start.elapsed().as_secs_f64());
        }
        let trip = Spread::of(trips).median;
        let slow = client.query("select pg_sleep(1.5)", &[]);
        let start = Instant::now();
        let quick = (0..10).map(|_| {
            let reply = client.query("select 1", &[]);
            async move { reply.await.map(|_| start.elapsed()) }
        });
        let longest = try_join_all(quick).await?.into_iter().max().unwrap_or_default();
        drop(slow);
        let bound = 2.0 * trip + opening.as_secs_f64();
        multiples.push(longest.as_secs_f64() / bound);
        worst.push(longest.as_secs_f64() * 1e3);
        bounds.push(bound * 1e3);
    }
    let (worst, bounds) = (Spread::of(worst).median, Spread::of(bounds).median);
    let note = format!(
        "the longest of ten quick statements issued right behind one of 1.5 s, in two round trips \
         and the time to open a connection: {worst:.2} of {bounds:.2} ms"
    );
    let away = rtt.map_or(String::new(), |rtt| format!(".{}_ms_away", rtt.as_millis()));
    Ok(Row::alone(&format!("{NAME}.one_tick{away}"), "× bound", Spread::of(multiples), Some(1.0))
        .note(&note))
}

// --- a mixture ---

#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Point selects, and 1 % of half a second.
    Points,
    /// Fifty texts, of which five take half a second in 10 % of their calls.
    Texts,
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Load::Points => "mixed",
            Load::Texts => "texts",
        }
    }
}

async fn mixture(
    stage: &Stage,
    side: Side,
    rounds: usize,
    size: usize,
    load: Load,
) -> Result<Vec<Row>> {
    let ours = pools::ours_of(stage, size).await?;
    // A client of its own, or each would unlearn in its rounds what the other has learned.
    let calm = pools::ours_of(stage, size).await?;
    let deadpool = pools::deadpool_of(stage, size)?;
    let sqlx = pools::sqlx_of(stage, size).await?;
    // Learned, prepared, connected: once each, not counted.
    round(&ours, load, size, true).await?;
    round(&calm, load, size, false).await?;
    if side == Side::Both {
        round(&deadpool, load, size, false).await?;
        round(&sqlx, load, size, false).await?;
    }
    let mut waits: [Waits; 4] = Default::default();
    for number in 0..rounds {
        let mut turn = [0, 1, 2, 3];
        turn.rotate_left(number % 4);
        for who in turn {
            let mixed = match who {
                0 => round(&ours, load, size, true).await?,
                1 => round(&calm, load, size, false).await?,
                _ if side != Side::Both => continue,
                2 => round(&deadpool, load, size, true).await?,
                _ => round(&sqlx, load, size, true).await?,
            };
            waits[who].add(mixed);
        }
    }
    let [mixed, alone, deadpool, sqlx] = waits;
    let name = format!("{NAME}.{}_{size}", load.name());
    let note = format!(
        "waits of the quick statements of {TASKS} tasks on {size} connections, {} in a second, 1 % of \
         which take {SLOW} s (never more at once than {})",
        RATE as usize * size,
        size - 1
    );
    let bar = if load == Load::Points { 1.5 } else { 2.0 };
    let mut rows = Vec::new();
    for (which, of) in [("p99", Waits::p99 as fn(&Waits) -> &[f64]), ("p999", Waits::p999)] {
        let name = format!("{name}.{which}");
        let is_barred = load == Load::Points || which == "p99";
        let row = beside(&name, "ms", "without slow ones", (of(&mixed), of(&alone)));
        rows.push(barred(row, is_barred.then_some(bar)).note(&note));
        let peers = [("deadpool", DEADPOOL, &deadpool), ("sqlx", SQLX, &sqlx)];
        for (peer, version, waits) in peers.into_iter().filter(|(.., waits)| !of(waits).is_empty())
        {
            let row = beside(&format!("{name}.{peer}"), "ms", version, (of(&mixed), of(waits)));
            rows.push(barred(row, (load == Load::Points).then_some(1.0)).note(&note));
        }
    }
    Ok(rows)
}

fn barred(mut row: Row, bar: Option<f64>) -> Row {
    row.bar = bar;
    row.holds = bar.zip(row.ratio).map(|(bar, ratio)| ratio <= bar);
    row
}

/// What each round showed, in milliseconds.
#[derive(Default)]
struct Waits {
    p99: Vec<f64>,
    p999: Vec<f64>,
}

impl Waits {
    fn add(&mut self, mut waits: Vec<f64>) {
        waits.sort_unstable_by(f64::total_cmp);
        self.p99.push(quantile(&waits, 0.99));
        self.p999.push(quantile(&waits, 0.999));
    }

    fn p99(&self) -> &[f64] {
        &self.p99
    }

    fn p999(&self) -> &[f64] {
        &self.p999
    }
}

/// How long each quick statement took, in milliseconds. `slow`: whether there are slow ones among them.
async fn round<P: Mixed>(pool: &P, load: Load, size: usize, slow: bool) -> Result<Vec<f64>> {
    let texts = Arc::new((0..50).map(text).collect::<Vec<_>>());
    let room = Arc::new(Semaphore::new(size - 1));
    let period = Duration::from_secs(1) * TASKS / (RATE * size as u32);
    let start = Instant::now();
    let tasks = (0..TASKS).map(|task| {
        let (pool, texts, room) = (pool.clone(), texts.clone(), room.clone());
        tokio::spawn(async move {
            let mut random =
                Random(u64::from(task) << 20 | u64::from(start.elapsed().subsec_nanos()));
            let mut waits = Vec::new();
            let mut next = start + period.mul_f64(random.share());
            while next < start + ROUND {
                tokio::time::sleep_until(next.into()).await;
                next += period.mul_f64(0.5 + random.share());
                let which = (random.share() * 50.0) as usize;
                // Five of fifty are slow in a tenth of their calls: one of a hundred.
                let is_slow = match load {
                    Load::Points => random.share() < 0.01,
                    Load::Texts => which < 5 && random.share() < 0.1,
                };
                let one = if is_slow && slow { room.try_acquire().ok() } else { None };
                let sleep = if one.is_some() { SLOW } else { 0.0 };
                let begun = Instant::now();
                match load {
                    Load::Points if one.is_some() => {
                        pool.text("select $1::float8, pg_sleep($1)::text", SLOW).await?
                    }
                    Load::Points => pool.point(in_flight::id(task + which as u32)).await?,
                    Load::Texts => pool.text(&texts[which], sleep).await?,
                }
                if one.is_none() {
                    waits.push(begun.elapsed().as_secs_f64() * 1e3);
                }
            }
            anyhow::Ok(waits)
        })
    });
    let tasks: FuturesUnordered<_> = tasks.collect();
    let waits: Vec<Result<Vec<f64>>> = tasks.try_collect().await?;
    let waits: Result<Vec<_>> = waits.into_iter().collect();
    Ok(waits?.into_iter().flatten().collect())
}

/// Texts that differ in more than a number.
fn text(number: u32) -> String {
    let letter = |at: u32| char::from(b'a' + (number / at % 10) as u8);
    format!("select $1::float8 as t{}{}, pg_sleep($1)::text", letter(10), letter(1))
}

/// A pool that runs a point select, and a text that sleeps for as long as its parameter says.
trait Mixed: Clone + Send + Sync + 'static {
    fn point(&self, id: i32) -> impl Future<Output = Result<()>> + Send;
    fn text(&self, text: &str, sleep: f64) -> impl Future<Output = Result<()>> + Send;
}

const POINT: &str = "select id, name from item where id = $1";

impl Mixed for Client {
    async fn point(&self, id: i32) -> Result<()> {
        let _: i32 = self.query_one(POINT, &[&id]).await?.get(0);
        Ok(())
    }

    async fn text(&self, text: &str, sleep: f64) -> Result<()> {
        let _: f64 = self.query_one(text, &[&sleep]).await?.get(0);
        Ok(())
    }
}

impl Mixed for Deadpool {
    async fn point(&self, id: i32) -> Result<()> {
        let client = self.get().await.context("deadpool has no connection")?;
        let statement = client.prepare_cached(POINT).await?;
        let _: i32 = client.query_one(&statement, &[&id]).await?.get(0);
        Ok(())
    }

    async fn text(&self, text: &str, sleep: f64) -> Result<()> {
        let client = self.get().await.context("deadpool has no connection")?;
        let statement = client.prepare_cached(text).await?;
        let _: f64 = client.query_one(&statement, &[&sleep]).await?.get(0);
        Ok(())
    }
}

impl Mixed for PgPool {
    async fn point(&self, id: i32) -> Result<()> {
        let _: i32 = sqlx::query(POINT).bind(id).fetch_one(self).await?.get(0);
        Ok(())
    }

    async fn text(&self, text: &str, sleep: f64) -> Result<()> {
        let text = sqlx::AssertSqlSafe(text.to_owned());
        let _: f64 = sqlx::query(text).bind(sleep).fetch_one(self).await?.get(0);
        Ok(())
    }
}

// --- every connection but one ---

/// Selects of twenty tasks beside slow statements in every connection but one, and on a client of one
/// connection.
async fn busy_but_one(stage: &Stage, rounds: usize, size: usize) -> Result<Row> {
    let (pool, one) = (pools::ours_of(stage, size).await?, pools::ours_of(stage, 1).await?);
    selects(&pool).await?;
    selects(&one).await?;
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let slow: Vec<_> = (1..size).map(|_| pool.query("select pg_sleep(2)", &[])).collect();
        while pool.metrics().in_flight < size - 1 {
            tokio::task::yield_now().await;
        }
        ours.push(selects(&pool).await?.rate());
        peer.push(selects(&one).await?.rate());
        for reply in slow {
            reply.await?;
        }
    }
    let name = format!("{NAME}.busy_but_one_{size}");
    let row = beside(&name, "1/s", "one connection", (&ours, &peer)).at_least(0.8);
    let note =
        format!("selects of 20 tasks while {} of {size} connections run slow ones", size - 1);
    Ok(row.note(&note))
}

async fn selects(pool: &Client) -> Result<Sample> {
    const SELECTS: u32 = 1500;
    timed(u64::from(20 * SELECTS), async {
        let tasks = (0..20).map(|task| async move {
            for number in 0..SELECTS {
                pool.point(in_flight::id(task * SELECTS + number)).await?;
            }
            anyhow::Ok(())
        });
        try_join_all(tasks).await?;
        Ok(0)
    })
    .await
}

/// Randomness of a task.
struct Random(u64);

impl Random {
    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
