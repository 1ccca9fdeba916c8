//! Reads on replicas that replay late: whether each shows what it must, and how many of those that
//! a replica could serve one did.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use onetrip::{Client, Position};

use super::process::{Process, Task};
use super::replicas::{CONNECTIONS, Cluster};
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

pub const NAME: &str = "replica_stale";

/// How late the standbys replay (`recovery_min_apply_delay`).
const DELAYS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(10), Duration::from_secs(1)];

/// Reads behind each of these, together 10^6.
const READS_EACH: u64 = 333_334;

/// By so much older than the delay is a position that replicas are to serve.
const SETTLED: Duration = Duration::from_millis(100);

const TASKS: i32 = 16;

/// Reads at once, of the newest write and of an older one.
const AT_ONCE: usize = 5;

const READ: &str = "select n, inet_server_port() from own where task = $1";

/// What was found.
#[derive(Clone, Copy, Default)]
struct Tally {
    writes: u64,
    reads: u64,
    /// Reads that lacked a write that they had to show.
    stale: u64,
    /// Reads of settled positions, and those of them that replicas served.
    settled: u64,
    served: u64,
}

impl Tally {
    fn plus(self, other: Tally) -> Tally {
        Tally {
            writes: self.writes + other.writes,
            reads: self.reads + other.reads,
            stale: self.stale + other.stale,
            settled: self.settled + other.settled,
            served: self.served + other.served,
        }
    }

    fn percent(&self) -> f64 {
        100.0 * self.served as f64 / self.settled as f64
    }
}

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    rows(NAME, plan, progress, "", |cluster, delay, reads| {
        one_thread()?.block_on(async {
            let (client, primary) = (cluster.client().await?, cluster.primary.port().into());
            let tasks = (1..=TASKS).map(|task| one(&client, task, primary, (delay, reads)));
            let tasks: FuturesUnordered<_> = tasks.collect();
            tasks.try_fold(Tally::default(), async |all, of| Ok(all.plus(of))).await
        })
    })
}

/// The same from another language: its process says what it found in the order of [`Tally`].
pub fn of_language(
    name: &str,
    plan: Plan,
    progress: &Progress,
    task: impl Fn(&'static str, &'static str) -> Task,
    note: &str,
) -> Result<Vec<Row>> {
    rows(name, plan, progress, note, |cluster, delay, reads| {
        let work = match delay.as_millis() {
            0 => "replica_stale_0",
            10 => "replica_stale_10",
            _ => "replica_stale_1000",
        };
        let of = task("onetrip_guarded", work);
        let task = Task { in_flight: TASKS.unsigned_abs(), connections: CONNECTIONS, ..of };
        let figures = Process::start(&task, &cluster.url())?.figures_of(u32::try_from(reads)?)?;
        let [writes, reads, stale, settled, served] = figures[..] else {
            bail!("{} figures", figures.len())
        };
        let [writes, reads, stale] = [writes, reads, stale].map(|it| it as u64);
        let [settled, served] = [settled, served].map(|it| it as u64);
        Ok(Tally { writes, reads, stale, settled, served })
    })
}

/// `measure` is given the cluster, the delay, and the reads of each task.
fn rows(
    name: &str,
    plan: Plan,
    progress: &Progress,
    note: &str,
    mut measure: impl FnMut(&Cluster, Duration, u64) -> Result<Tally>,
) -> Result<Vec<Row>> {
    let (mut all, mut rows) = (Tally::default(), Vec::new());
    for delay in DELAYS {
        progress.say(&format!("{name}: standbys replay {delay:?} late"));
        let cluster = Cluster::start(delay)?;
        one_thread()?.block_on(fill(&cluster))?;
        let reads = READS_EACH / u64::from(plan.shorter) / u64::from(TASKS.unsigned_abs()) + 1;
        let tally = measure(&cluster, delay, reads)?;
        all = all.plus(tally);
        let served = Spread::of([tally.percent()]);
        let what = format!("{} reads behind {:?} {note}", tally.settled, delay + SETTLED);
        let name = format!("{name}.served_{}ms", delay.as_millis());
        let row = Row::alone(&name, "%", served, None).at_least(95.0);
        rows.push(row.note(what.trim_end()));
    }
    let stale = Spread::of([all.stale as f64]);
    let what = format!("{} reads behind {} writes {note}", all.reads, all.writes);
    let row = Row::alone(&format!("{name}.stale"), "reads", stale, None).at_most(0.0);
    rows.insert(0, row.note(what.trim_end()));
    Ok(rows)
}

async fn fill(cluster: &Cluster) -> Result<()> {
    let alone = cluster.alone().await?;
    alone.execute("create table own (task int primary key, n int)", &[]).await?;
    alone.execute("insert into own select g, 0 from generate_series(1, $1) g", &[&TASKS]).await?;
    // What a client waits for until standbys serve.
    alone.execute("create table hot (id int primary key, n int)", &[]).await?;
    Ok(())
}

/// Writes its number, reads it at once, and reads what has settled behind the position of then.
async fn one(
    client: &Client,
    task: i32,
    primary: i32,
    (delay, reads): (Duration, u64),
) -> Result<Tally> {
    let (mut tally, mut old) = (Tally::default(), VecDeque::<(Instant, i32, Position)>::new());
    for n in 1.. {
        if tally.reads >= reads {
            break;
        }
        client.execute("update own set n = $2 where task = $1", &[&task, &n]).await?;
        tally.writes += 1;
        let own = (0..AT_ONCE).map(|_| client.reads().query_one(READ, &[&task]));
        let own: FuturesUnordered<_> = own.collect();
        for row in own.try_collect::<Vec<_>>().await? {
            tally.reads += 1;
            tally.stale += u64::from(row.get::<i32>(0) < n);
        }
        old.push_back((Instant::now(), n, client.position().await?));
        let Some((since, written, position)) = old.front().copied() else { continue };
        if since.elapsed() < delay + SETTLED {
            continue;
        }
        old.pop_front();
        let settled = client.reads().after(&position);
        let later = (0..AT_ONCE).map(|_| settled.query_one(READ, &[&task]));
        let later: FuturesUnordered<_> = later.collect();
        for row in later.try_collect::<Vec<_>>().await? {
            (tally.reads, tally.settled) = (tally.reads + 1, tally.settled + 1);
            tally.stale += u64::from(row.get::<i32>(0) < written);
            tally.served += u64::from(row.get::<i32>(1) != primary);
        }
    }
    Ok(tally)
}
