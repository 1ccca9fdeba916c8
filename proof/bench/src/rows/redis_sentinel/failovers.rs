//! One failover after the other, and when the next master takes writes: a thread for each replica
//! tries one every millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use onetrip_lab::redis::Sentinels;

use super::PATIENCE;
use crate::rows::pauses::Takeover;

/// Kills the master, or has the Sentinels make another server the master, in turn. Returns when the
/// former one follows, too.
pub fn one(sentinels: &mut Sentinels, number: u32) -> Result<Takeover> {
    let former = sentinels.master()?;
    let (probe, took) = channel();
    let is_over = Arc::new(AtomicBool::new(false));
    for server in
        sentinels.servers().iter().filter(|it| it.port() != sentinels.servers()[former].port())
    {
        let (url, port, probe, is_over) =
            (server.url(), server.port(), probe.clone(), is_over.clone());
        thread::spawn(move || write(&url, port, &probe, &is_over));
    }
    let from = SystemTime::now();
    let is_killed = number.is_multiple_of(2);
    match is_killed {
        true => drop(sentinels.kill_master()?),
        false => sentinels.fail_over()?,
    }
    let (takes_writes, port) = took.recv_timeout(PATIENCE).context("no replica takes over")?;
    is_over.store(true, Ordering::Relaxed);
    sentinels.wait_switched(former)?;
    if is_killed {
        sentinels.restart(former)?;
    }
    sentinels.wait_ok()?;
    let what = if is_killed { "killed" } else { "SENTINEL FAILOVER" }.to_owned();
    Ok(Takeover { what, from, takes_writes, port })
}

/// Tries until the server has taken a write. Its connection ends when it becomes the master.
fn write(url: &str, port: u16, probe: &Sender<(SystemTime, u16)>, is_over: &AtomicBool) {
    let Ok(client) = redis::Client::open(url) else { return };
    let mut connection = None;
    while !is_over.load(Ordering::Relaxed) {
        if connection.is_none() {
            connection = client.get_connection().ok();
        }
        if let Some(open) = &mut connection {
            match redis::cmd("SET").arg("probed").arg(1).exec(open) {
                Ok(()) => {
                    // Nobody waits for the second answer.
                    let _ = probe.send((SystemTime::now(), port));
                    return;
                }
                Err(error) if error.code() == Some("READONLY") => {}
                Err(_) => connection = None,
            }
        }
        thread::sleep(PROBE_PAUSE);
    }
}

const PROBE_PAUSE: Duration = Duration::from_millis(1);
