//! Reads on replicas: one primary with two standbys beside the primary alone, and what the guard
//! costs that shows one's own writes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use onetrip::{Client, Position};
use onetrip_lab::postgres::{Options, PrivatePostgres};

use super::process::Task;
use super::turns::in_turns;
use crate::measure::{Pairs, Sample, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared, rate};
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

pub const RATE: &str = "replica_reads";
pub const GUARD: &str = "replica_guard";

/// Connections to each server.
pub(super) const CONNECTIONS: u32 = 4;

/// A read that takes a server 5 ms and nobody any CPU.
const SLOW: &str = "select 1 from pg_sleep(0.005)";
const TASKS: u32 = 24;
const SLOW_EACH: u32 = 50;

/// A read at this depth, behind each write.
const POINT: &str = "select n from hot where id = $1";
const DEPTH: u32 = 100;
const WRITES: u32 = 100;

/// How long standbys may take to serve.
const PATIENCE: Duration = Duration::from_secs(600);

/// One primary and two standbys.
pub(super) struct Cluster {
    pub(super) primary: PrivatePostgres,
    standbys: [PrivatePostgres; 2],
}

impl Cluster {
    /// The standbys replay so late.
    pub(super) fn start(delay: Duration) -> Result<Cluster> {
        let options = || Options::default().setting("jit", "off");
        let primary = PrivatePostgres::start(options())?;
        let delay = delay.as_millis().to_string();
        let late = || options().setting("recovery_min_apply_delay", &delay);
        let standby = || primary.start_standby(late());
        let standbys = [standby()?, standby()?];
        Ok(Cluster { primary, standbys })
    }

    /// All of them, the primary first.
    pub(super) fn url(&self) -> String {
        let servers = std::iter::once(&self.primary).chain(&self.standbys);
        let hosts: Vec<_> = servers.map(|it| format!("127.0.0.1:{}", it.port())).collect();
        let (hosts, password) = (hosts.join(","), self.primary.password());
        format!("postgres://postgres:{password}@{hosts}/postgres?reads=prefer_replica")
    }

    /// A client, once both standbys serve its reads.
    pub(super) async fn client(&self) -> Result<Client> {
        let url = format!("{}&connections_max={CONNECTIONS}", self.url());
        let client = Client::connect(&url).await?;
        let (began, mut seen) = (Instant::now(), HashSet::new());
        while seen.len() <= self.standbys.len() {
            ensure!(began.elapsed() < PATIENCE, "the standbys serve no reads");
            let there = "select inet_server_port() where to_regclass('hot') is not null";
            let port = client.reads().stale().query_opt(there, &[]).await?;
            seen.extend(port.map(|row| row.get::<i32>(0)));
            seen.insert(self.primary.port().into());
        }
        Ok(client)
    }

    /// A client of the primary alone.
    pub(super) async fn alone(&self) -> Result<Client> {
        let url = format!("{}?connections_max={CONNECTIONS}", self.primary.url());
        Ok(Client::connect(&url).await?)
    }
}

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    let cluster =
        Cluster::start(Duration::ZERO).context("cannot start a primary and two standbys")?;
    one_thread()?.block_on(async {
        let alone = cluster.alone().await?;
        fill(&alone).await?;
        let spread = cluster.client().await?;
        let each = (SLOW_EACH / plan.shorter).max(1);
        let pairs = paired(
            plan,
            progress,
            async |_| slow(&spread, each).await,
            async |_| slow(&alone, each).await,
        )
        .await?;
        let mut rows = vec![rated(RATE, &pairs, "")];

        let writes = (WRITES / plan.shorter).max(1);
        let pairs = paired(
            plan,
            progress,
            async |_| points(&cluster, &spread, true, writes).await,
            async |_| points(&cluster, &spread, false, writes).await,
        )
        .await?;
        rows.extend(guarded(GUARD, &pairs, ""));
        Ok(rows)
    })
}

/// The same from another language: `drivers` are those of the client that spreads its reads and
/// guards them, of the one that does not guard them, and of the primary alone.
pub fn of_language(
    plan: Plan,
    progress: &Progress,
    [rate, guard]: [&str; 2],
    task: impl Fn(&'static str, &'static str) -> Task,
    note: &str,
) -> Result<Vec<Row>> {
    let cluster =
        Cluster::start(Duration::ZERO).context("cannot start a primary and two standbys")?;
    one_thread()?.block_on(async { fill(&cluster.alone().await?).await })?;
    let url = cluster.url();
    let pairs = |work, (in_flight, operations), drivers: [&'static str; 2]| {
        let tasks = drivers.map(|driver| {
            let warmth = operations / 4;
            Task { in_flight, connections: CONNECTIONS, warmth, ..task(driver, work) }
        });
        let progress = Some(progress);
        let runs = in_turns(plan.rounds, progress, operations, &[&tasks[0], &tasks[1]], &url)?;
        let [ours, peer] = [0, 1].map(|at: usize| runs[at].samples.clone());
        anyhow::Ok(Pairs { ours, peer })
    };
    let slow = (TASKS, TASKS * (SLOW_EACH / plan.shorter).max(4));
    let points = (1, DEPTH * (WRITES / plan.shorter).max(4));
    let of_slow = pairs("replica_slow", slow, ["onetrip_guarded", "onetrip_alone"])?;
    let of_points = pairs("replica_points", points, ["onetrip_guarded", "onetrip_stale"])?;
    let mut rows = vec![rated(rate, &of_slow, note)];
    rows.extend(guarded(guard, &of_points, note));
    Ok(rows)
}

async fn fill(primary: &Client) -> Result<()> {
    primary.execute("create table hot (id int primary key, n int)", &[]).await?;
    primary.execute("insert into hot select g, g from generate_series(1, 1000) g", &[]).await?;
    Ok(())
}

fn rated(name: &str, pairs: &Pairs, note: &str) -> Row {
    let what = format!("4 connections a server, 24 tasks, select pg_sleep(0.005) {note}");
    rate(name, "the primary alone", pairs).at_least(2.7).note(what.trim_end())
}

fn guarded(name: &str, pairs: &Pairs, note: &str) -> Vec<Row> {
    let bars = Bars { cpu: Some(1.10), time: None };
    let what = format!(
        "100 point selects at once behind each write, which is counted on both sides; all of them \
         carry the guard {note}"
    );
    compared(name, "our own, stale()", pairs, bars, what.trim_end())
}

async fn slow(client: &Client, each: u32) -> Result<Sample> {
    timed(u64::from(TASKS * each), async {
        let tasks = (0..TASKS).map(|_| async move {
            for _ in 0..each {
                client.reads().query_one(SLOW, &[]).await?;
            }
            anyhow::Ok(u64::from(each))
        });
        let tasks: FuturesUnordered<_> = tasks.collect();
        let counts: Vec<u64> = tasks.try_collect().await?;
        Ok(counts.iter().sum())
    })
    .await
}

/// Point selects behind writes that both standbys have replayed.
async fn points(cluster: &Cluster, client: &Client, guarded: bool, writes: u32) -> Result<Sample> {
    let standbys = [cluster.standbys[0].url(), cluster.standbys[1].url()];
    let direct = [Client::connect(&standbys[0]).await?, Client::connect(&standbys[1]).await?];
    timed(u64::from(writes * DEPTH), async {
        let mut sum = 0_u64;
        for n in 0..writes {
            client
                .execute("update hot set n = id where id = $1", &[&(n as i32 % 1000 + 1)])
                .await?;
            let position = client.position().await?;
            for standby in &direct {
                replayed(standby, &position).await?;
            }
            let reads = match guarded {
                true => client.reads().after(&position),
                false => client.reads().stale(),
            };
            let ids: Vec<i32> = (1..=DEPTH as i32).collect();
            let reads = ids.iter().map(|id| reads.query_one(POINT, &[id]));
            let replies: FuturesUnordered<_> = reads.collect();
            let rows: Vec<onetrip::Row> = replies.try_collect().await?;
            sum += rows.iter().map(|row| row.get::<i32>(0) as u64).sum::<u64>();
        }
        Ok(sum)
    })
    .await
}

async fn replayed(standby: &Client, position: &Position) -> Result<()> {
    let (began, asked) = (Instant::now(), "select pg_last_wal_replay_lsn() >= $1::text::pg_lsn");
    while !standby.query_one(asked, &[&position.lsn_text()]).await?.get::<bool>(0) {
        ensure!(began.elapsed() < PATIENCE, "a standby does not replay");
    }
    Ok(())
}
