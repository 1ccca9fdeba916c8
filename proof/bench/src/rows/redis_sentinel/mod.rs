//! Failovers of a master of Redis that Sentinels watch over: what both replicas had is kept, and
//! how soon writers go on once another server takes writes, beside ioredis and redis-py. From Rust,
//! Node and Python.

mod books;
mod failovers;
mod programs;

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use onetrip::redis::{Client, Config};
use onetrip_lab::redis::{Installation, SentinelSettings, Sentinels};
use serde_json::json;

use self::programs::{Program, Programs};
use super::pauses::{Firsts, PAUSE, Writers, of_language, rows};
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

pub const NAME: &str = "redis_sentinel";

/// Five kills (SIGKILL) and five by `SENTINEL FAILOVER`, in turn: under the books, and once more
/// under the writers whose pauses are measured.
const FAILOVERS: u32 = 10;

/// What every writer runs: it writes, and says where.
const WRITE: &str = "redis.call('SET', KEYS[1], 'written') \
    return tonumber(string.match(redis.call('INFO', 'server'), 'tcp_port:(%d+)'))";

/// What the pauses of the writers, and programs that share two cores, make of a write at once.
const RESOLUTION: Duration = Duration::from_millis(20);

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    if Installation::look()?.is_none() {
        return Ok(vec![Row::skipped(NAME, "there is no redis-server or valkey-server")]);
    }
    let count = (FAILOVERS / plan.shorter).max(2);
    let mut sentinels = Sentinels::start(&SentinelSettings::default())
        .context("cannot start a master, two replicas and three Sentinels")?;
    let programs = Programs::find(progress);
    let mut rows = books::run(&mut sentinels, count, &programs, progress)?;
    rows.extend(pauses(&mut sentinels, count, &programs, progress)?);
    let missing = programs.missing.iter();
    rows.extend(missing.map(|(name, why)| Row::skipped(&of_language(NAME, name), why)));
    Ok(rows)
}

fn pauses(
    sentinels: &mut Sentinels,
    count: u32,
    programs: &Programs,
    progress: &Progress,
) -> Result<Vec<Row>> {
    let mut writers = Writers::default();
    let (of_peers, url) = (told(sentinels), sentinels.url());
    for Program { name, start } in &programs.peers {
        let mut command = start(name);
        command.arg(&of_peers).arg(WRITE);
        writers.start(name, command)?;
    }
    for Program { name, start } in &programs.ours {
        let mut command = start("writer");
        command.arg(&url).arg(WRITE);
        writers.start(name, command)?;
    }
    writers.start_here(move |firsts| ours(&url, firsts));
    writers.begun()?;
    let mut takeovers = Vec::new();
    for number in 0..count {
        progress.say(&format!("{NAME}: pause {} of {count}", number + 1));
        takeovers.push(failovers::one(sentinels, number)?);
    }
    Ok(rows(NAME, &takeovers, &writers.firsts(), RESOLUTION))
}

/// Where the Sentinels are, for clients that take no URL of theirs.
fn told(sentinels: &Sentinels) -> String {
    let hosts = sentinels.sentinels().iter().map(|it| json!(["127.0.0.1", it.port()]));
    let told = json!({
        "sentinels": hosts.collect::<Vec<_>>(),
        "name": Sentinels::MASTER,
        "password": sentinels.servers()[0].password(),
        "sentinel_password": sentinels.sentinels()[0].password(),
    });
    told.to_string()
}

fn config(url: &str) -> Result<Config> {
    Ok(url.parse::<Config>()?.limits(|limits| limits.wait_timeout = PATIENCE))
}

/// The same writer on this client, which finds the next master by itself.
fn ours(url: &str, firsts: &Firsts) {
    let Ok(runtime) = one_thread() else { return };
    runtime.block_on(async {
        let Ok(config) = config(url) else { return };
        let Ok(client) = Client::connect_with(&config).await else { return };
        let mut last = 0;
        loop {
            let written = client.cmd("EVAL").arg(WRITE).arg(1).arg("onetrip").send::<u16>().await;
            if let Ok(port) = written {
                if port != last {
                    firsts.keep(SystemTime::now(), port);
                }
                last = port;
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
}

fn figure(what: &str, of: &str, unit: &'static str, count: usize) -> Row {
    let name = of_language(&format!("{NAME}.{what}"), of);
    Row::alone(&name, unit, Spread::of([count as f64]), None)
}

/// How long a failover may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);
