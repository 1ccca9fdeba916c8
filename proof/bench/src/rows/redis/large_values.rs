//! Values of 10 MiB by 100 tasks at once, written and read back, on a line that takes 64 MiB a second
//! each way and holds little: both sides wait for each other nearly all the time, and it has to end.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use onetrip::redis::Client;
use onetrip::redis::commands::*;
use onetrip_lab::proxy::{Link, Proxy, ProxyConfig};
use onetrip_lab::redis::Server;

use super::server::{named, through, with_server};
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

const NAME: &str = "redis_large_values";

const TASKS: usize = 100;
const LEN: usize = 10 << 20;
const BYTES_PER_SECOND: u64 = 64 << 20;
/// What the line holds beyond what the system's sockets do.
const LINE_BYTES: usize = 256 << 10;

/// Some 16 s up, and 16 s down, of which one overlaps the other in part. What has not ended by then
/// hangs.
const SECONDS_MAX: f64 = 120.0;

pub fn run(_: &Stage, plan: Plan, _: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    with_server(NAME, |server| {
        let len = LEN / plan.shorter as usize;
        let seconds = one_thread()?.block_on(pass(server, len))?;
        let bytes = (2 * TASKS * len) as f64;
        let note = format!(
            "SET, then GET, of {} MiB by {TASKS} tasks at once; {:.0} MiB/s of 64 each way; all of it \
             was checked, on one connection that was never lost; {}",
            len >> 20,
            bytes / seconds / 1024.0 / 1024.0,
            named(server),
        );
        Ok(vec![Row::alone(NAME, "s", Spread::of([seconds]), Some(SECONDS_MAX)).note(&note)])
    })
}

async fn pass(server: &Server, len: usize) -> Result<f64> {
    let slow = Link { bandwidth: Some(BYTES_PER_SECOND), ..Link::default() };
    let upstream = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let config = ProxyConfig { up: slow, down: slow, ..ProxyConfig::new(upstream) };
    let proxy = Proxy::start(ProxyConfig { buffer_max: Some(LINE_BYTES), ..config })?;
    let client = Client::connect(&through(server, proxy.addr())).await?;
    let connected = client.cmd("CLIENT ID").send::<i64>().await?;
    let start = Instant::now();
    let tasks = (0..TASKS).map(|task| tokio::spawn(there_and_back(client.clone(), task, len)));
    let tasks: FuturesUnordered<_> = tasks.collect();
    let all = tokio::time::timeout(Duration::from_secs_f64(SECONDS_MAX), tasks.try_collect());
    let ended: Vec<Result<()>> = all.await.context("it did not end")??;
    ended.into_iter().collect::<Result<()>>()?;
    let seconds = start.elapsed().as_secs_f64();
    let now = client.cmd("CLIENT ID").send::<i64>().await?;
    ensure!(now == connected, "the connection was given up and opened again");
    Ok(seconds)
}

async fn there_and_back(client: Client, task: usize, len: usize) -> Result<()> {
    let (key, value) = (format!("large:{task}"), vec![task as u8; len]);
    client.set(&key, &value).await?;
    let read: Bytes = client.get(&key).await?;
    ensure!(read == value, "what came back is not what was written");
    Ok(())
}
