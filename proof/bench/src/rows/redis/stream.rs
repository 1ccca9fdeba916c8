//! 10,000,000 SETs as a stream, on a line with and without latency: what the client's memory grows by
//! and what the server's buffers hold. The client is in a process of its own, whose memory is nothing
//! else's.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use onetrip::redis::{Client, Command};
use onetrip_lab::proxy::{Proxy, ProxyConfig};
use onetrip_lab::redis::Server;
use serde::{Deserialize, Serialize};

use super::load::pairs;
use super::server::{named, through, with_server};
use crate::child::{ask, memory_mib, reset_peak};
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

pub const NAME: &str = "redis_stream";

const COMMANDS: usize = 10_000_000;
const WINDOW: usize = 65_536;
/// A SET has some 110 bytes, so that the window in bytes isn't what limits.
const WINDOW_BYTES: usize = 16 << 20;
const RTT: Duration = Duration::from_millis(10);

const GROWTH_MIB_MAX: f64 = 32.0;
const RATE_MIN: f64 = 0.95;
/// The replies to a whole window are 0.31 MiB (5 bytes each); the server keeps them in blocks of 16 KiB.
const SERVER_MIB_MAX: f64 = 1.0;

/// With and without latency, in turns.
const TURNS: usize = 3;

/// What has not ended by then hangs: a run takes some 20 s.
const TIMEOUT: Duration = Duration::from_secs(240);

/// What the child found.
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    growth_mib: f64,
    rate: f64,
}

/// The most that the server held for one client, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Replies that it could not write yet.
    output: u64,
    /// That and all else; 0 before Redis 7.0, which does not tell.
    all: u64,
}

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    with_server(NAME, |server| {
        let (mut far, mut near, mut growth) = (Vec::new(), Vec::new(), Vec::new());
        let (mut held, turns) = (Held::default(), TURNS.div_ceil(plan.shorter as usize));
        for turn in 0..turns {
            let without = || anyhow::Ok(one_run(server, Duration::ZERO, plan)?.0.rate);
            let before = (turn % 2 == 0).then(without).transpose()?;
            let (found, most) = one_run(server, RTT, plan)?;
            near.push(before.map_or_else(without, Ok)?);
            far.push(found.rate);
            growth.push(found.growth_mib);
            held = Held { output: held.output.max(most.output), all: held.all.max(most.all) };
            progress.tick(turn + 1, turns);
        }
        let note = format!(
            "{} SETs at 10 ms, window {WINDOW}, {}; the server holds {:.2} MiB for a connection at most, \
             all buffers included; the line without latency leads through the proxy too",
            COMMANDS / plan.shorter as usize,
            named(server),
            mib(held.all),
        );
        let output = Spread::of([mib(held.output)]);
        let rate = format!("{NAME}.rate");
        let rows = [
            Row::alone(&format!("{NAME}.rss"), "MiB", Spread::of(growth), Some(GROWTH_MIB_MAX)),
            beside(&rate, "1/s", "without latency", (&far, &near)).at_least(RATE_MIN),
            Row::alone(&format!("{NAME}.server_output"), "MiB", output, Some(SERVER_MIB_MAX)),
        ];
        Ok(rows.into_iter().map(|row| row.note(&note)).collect())
    })
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}

/// The process does its work while this one looks at the server.
fn one_run(server: &Server, rtt: Duration, plan: Plan) -> Result<(Found, Held)> {
    let upstream = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let proxy = Proxy::start(ProxyConfig::new(upstream).with_rtt(rtt))?;
    let (url, count) =
        (through(server, proxy.addr()), (COMMANDS / plan.shorter as usize).to_string());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let held = scope.spawn(|| watch(server, &is_over));
        let found = ask(&["--memory-of", &url, "--memory-row", NAME, "--commands", &count]);
        is_over.store(true, Relaxed);
        let held = held.join().map_err(|_| anyhow::anyhow!("nobody looked at the server"))?;
        Ok((found?, held?))
    })
}

/// What the server holds for the client that it holds most for, until it is over.
fn watch(server: &Server, is_over: &AtomicBool) -> Result<Held> {
    let mut plain = server.plain()?;
    let mut most = Held::default();
    while !is_over.load(Relaxed) {
        let answer = plain.tell(&Command::new("CLIENT LIST"))?;
        for client in answer.text().unwrap_or_default().lines() {
            let held = |name: &str| {
                let value = client.split(' ').find_map(|word| word.strip_prefix(name));
                value.and_then(|value| value.parse().ok()).unwrap_or(0)
            };
            most.output = most.output.max(held("obl=") + held("omem="));
            most.all = most.all.max(held("tot-mem="));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(most)
}

/// What the process does whose memory is measured.
pub fn in_child(url: &str, count: usize) -> Result<()> {
    let found = one_thread()?.block_on(async {
        let client = Client::connect(url).await?;
        // Its connection is opened before.
        stream(&client, 1).await?;
        reset_peak()?;
        let (idle, start) = (memory_mib("VmRSS")?, Instant::now());
        let all = tokio::time::timeout(TIMEOUT, stream(&client, count));
        all.await.context("it did not end")??;
        let rate = count as f64 / start.elapsed().as_secs_f64();
        anyhow::Ok(Found { growth_mib: memory_mib("VmHWM")? - idle, rate })
    })?;
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}

async fn stream(client: &Client, count: usize) -> Result<()> {
    let pairs = pairs().iter().cycle().take(count);
    let commands = pairs.map(|pair| Command::new("SET").arg(&pair.key).arg(&pair.value));
    let mut replies = client.stream::<(), _>(commands).window(WINDOW).window_bytes(WINDOW_BYTES);
    let mut answered = 0;
    while let Some(reply) = replies.next().await {
        reply?;
        answered += 1;
    }
    ensure!(answered == count, "{answered} of {count} SETs were answered");
    Ok(())
}
