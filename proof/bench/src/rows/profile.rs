//! What `onetrip profile` costs a program: a point select through its splice beside the same splice
//! without a tap, and the rate of 50 clients beside PgBouncer.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use onetrip_lab::postgres::pgbouncer::{self, PoolMode, PrivatePgBouncer};
use onetrip_lab::postgres::{Options, PrivatePostgres};
use tokio_postgres::{Client, NoTls, Statement};

use crate::item::{self, SELECT_ONE};
use crate::measure::{Sample, Spread, paired, quantile, timed};
use crate::progress::Progress;
use crate::report::{Row, rate};
use crate::stage::{Stage, one_thread, two_threads};
use crate::{Plan, Side};

pub const SELECT: &str = "profile_select";
pub const CLIENTS: &str = "profile_clients_50";

/// Microseconds that the tap may add to the median of a point select.
const ADDED_MAX: f64 = 15.0;
/// Of PgBouncer's rate.
const RATE_MIN: f64 = 0.9;
/// Selects of one round, one after the other.
const SELECTS: u32 = 2_000;
const CLIENT_COUNT: usize = 50;
/// Selects of each client in one round.
const SELECTS_OF_CLIENT: u32 = 100;

pub fn select(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side != Side::Both {
        return Ok(Vec::new());
    }
    let program = program()?;
    let to = stage.addr().to_string();
    let plain = Splice::start(&program, &["proxy", "--upstream", &to])?;
    let out = Out::new()?;
    let tapped = Splice::profile(&program, &to, &out)?;
    one_thread()?.block_on(async {
        let plain = Selecting::connect(&stage.url_through(plain.addr)).await?;
        let tapped = Selecting::connect(&stage.url_through(tapped.addr)).await?;
        let (mut medians, mut plains) = (Vec::new(), Vec::new());
        for round in 0..=plan.rounds {
            let turns = if round % 2 == 1 { [true, false] } else { [false, true] };
            for is_tapped in turns {
                let of = if is_tapped { &tapped } else { &plain };
                let median = of.median(SELECTS / plan.shorter).await?;
                // The first round of each warms up.
                if round > 0 {
                    let medians = if is_tapped { &mut medians } else { &mut plains };
                    medians.push(median);
                }
            }
            progress.tick(round, plan.rounds);
        }
        let added: Vec<f64> = medians.iter().zip(&plains).map(|(a, b)| a - b).collect();
        let median = |values: &[f64]| Spread::of(values.iter().copied()).median;
        let note = format!(
            "medians of a round: {:.1} µs with the tap, {:.1} µs without; each splice is a process \
             of its own",
            median(&medians),
            median(&plains)
        );
        let added = Spread::of(added);
        Ok(vec![
            Row::alone(&format!("{SELECT}.added_p50"), "µs", added, Some(ADDED_MAX)).note(&note),
        ])
    })
}

pub fn clients(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side != Side::Both {
        return Ok(Vec::new());
    }
    let Some(pooler) = pgbouncer::find_all()?.into_iter().next() else {
        return Ok(vec![Row::skipped(CLIENTS, "there is no PgBouncer here")]);
    };
    let version = format!("PgBouncer {}", pooler.version());
    let program = program()?;
    let server = PrivatePostgres::start(Options::default().setting("max_connections", "200"))?;
    one_thread()?.block_on(fill(&server))?;
    let to = format!("127.0.0.1:{}", server.port());
    let out = Out::new()?;
    let splice = Splice::profile(&program, &to, &out)?;
    let mut rows = Vec::new();
    for mode in [PoolMode::Session, PoolMode::Transaction] {
        let options = pgbouncer::Options {
            program: Some(pooler.clone()),
            pool_mode: mode,
            pool_size: CLIENT_COUNT as u16,
            ..pgbouncer::Options::default()
        };
        let pooler = PrivatePgBouncer::start(&server, &options)?;
        let through = server.url().replace(&format!("@{to}/"), &format!("@{}/", splice.addr));
        ensure!(through != server.url(), "the server's URL has no address to replace");
        let name = format!("{CLIENTS}.{mode:?}").to_lowercase();
        let pairs = two_threads()?.block_on(async {
            let ours = connected(&through).await?;
            let peers = connected(&pooler.url()).await?;
            let selects = SELECTS_OF_CLIENT / plan.shorter;
            let (ours, peers) =
                (async |_| all(&ours, selects).await, async |_| all(&peers, selects).await);
            paired(plan, progress, ours, peers).await
        })?;
        rows.push(rate(&name, &version, &pairs).at_least(RATE_MIN).note(
            "50 connections, each awaits one point select after the other: ours goes through \
             onetrip profile",
        ));
    }
    Ok(rows)
}

/// One connection with a prepared point select.
struct Selecting {
    client: Client,
    select: Statement,
}

impl Selecting {
    async fn connect(url: &str) -> Result<Selecting> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let select = client.prepare(SELECT_ONE).await?;
        Ok(Selecting { client, select })
    }

    async fn one(&self, id: i32) -> Result<u64> {
        let row = self.client.query_one(&self.select, &[&id]).await?;
        Ok(row.get::<_, i32>(0) as u64)
    }

    /// Microseconds of a select, the median of so many.
    async fn median(&self, count: u32) -> Result<f64> {
        let mut taken = Vec::with_capacity(count as usize);
        for id in 0..count {
            let begin = Instant::now();
            self.one(1 + (id % 100) as i32).await?;
            taken.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        taken.sort_unstable_by(f64::total_cmp);
        Ok(quantile(&taken, 0.5))
    }
}

async fn connected(url: &str) -> Result<Vec<Selecting>> {
    let mut all = Vec::with_capacity(CLIENT_COUNT);
    for _ in 0..CLIENT_COUNT {
        all.push(Selecting::connect(url).await?);
    }
    Ok(all)
}

/// All clients at once.
async fn all(clients: &[Selecting], selects: u32) -> Result<Sample> {
    timed(u64::from(selects) * clients.len() as u64, async {
        let works = clients.iter().map(async |client| {
            let mut sum = 0;
            for id in 0..selects {
                sum += client.one(1 + (id % 100) as i32).await?;
            }
            anyhow::Ok(sum)
        });
        Ok(futures_util::future::try_join_all(works).await?.into_iter().sum())
    })
    .await
}

async fn fill(server: &PrivatePostgres) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await?;
    tokio::spawn(connection);
    Ok(client.batch_execute(item::CREATE).await?)
}

/// The command, built as it is released.
fn program() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--quiet", "-p", "onetrip-cli"]).current_dir(&root);
    ensure!(cargo.status().context("cannot run cargo")?.success(), "onetrip-cli does not compile");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(target.join("release/onetrip"))
}

/// A directory for what the profiler writes.
struct Out(PathBuf);

impl Out {
    fn new() -> Result<Out> {
        let path =
            std::env::temp_dir().join(format!("onetrip-bench-profile-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Out(path))
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running splice.
struct Splice {
    child: Child,
    addr: SocketAddr,
}

impl Splice {
    fn profile(program: &Path, to: &str, out: &Out) -> Result<Splice> {
        let out = out.0.to_str().context("the temporary directory has a strange name")?;
        Splice::start(program, &["profile", "--listen", "127.0.0.1:0", "--to", to, "--out", out])
    }

    fn start(program: &Path, arguments: &[&str]) -> Result<Splice> {
        let mut child = Command::new(program)
            .args(arguments)
            // Shown once an hour: nothing is to be read from the pipe.
            .args(["--interval", "3600"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let mut head = String::new();
        let said = child.stdout.take().context("the splice has no pipe")?;
        BufReader::new(said).read_line(&mut head)?;
        let addr = head.split(" -> ").next().and_then(|it| it.parse().ok());
        match addr {
            Some(addr) => Ok(Splice { child, addr }),
            None => {
                let _ = child.kill();
                bail!("the splice does not say where it listens, but {head:?}")
            }
        }
    }
}

impl Drop for Splice {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
