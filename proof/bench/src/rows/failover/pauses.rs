//! How soon writers go on once another node takes writes. The cluster has no other load.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use onetrip::{Client, Config};
use onetrip_chaos::Kind;
use onetrip_chaos::failover::{self, Options};
use onetrip_lab::postgres::patroni::Cluster;

use super::programs::Program;
use super::{NAME, some};
use crate::Plan;
use crate::report::Row;
use crate::rows::pauses::{Firsts, PAUSE, Takeover, Writers, rows};

const FAULTS: [(Kind, u32); 4] = [
    (Kind::NodeKilled, 1),
    (Kind::PostmasterKilled, 2),
    (Kind::SwitchedOver, 3),
    (Kind::NodeCut, 1),
];

/// What every writer runs. The port tells which node it wrote to, past the proxies.
const WRITE: &str = "insert into probed values (1) returning inet_server_port()";

/// So far from each other, on two cores, go writers on that all wait for the same standby. Each
/// also pauses for 5 ms between two writes.
const RESOLUTION: Duration = Duration::from_millis(20);

/// The rows, and the findings of the one task that tells when the cluster is at work again.
pub fn run(seed: u64, plan: Plan, programs: &[Program]) -> Result<(Vec<Row>, usize)> {
    let options = Options { seed, faults: some(FAULTS, plan), tasks: 1, guests: Vec::new() };
    let firsts: Mutex<Result<BTreeMap<_, _>>> = Mutex::new(Ok(BTreeMap::new()));
    let outcome = failover::run(&options, |cluster| {
        let writers = start(programs, cluster);
        if let Ok(mut firsts) = firsts.lock() {
            *firsts = writers.as_ref().map(Writers::firsts).map_err(|why| anyhow::anyhow!("{why}"));
        }
        writers
    });
    let firsts = firsts.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())?;
    let takeovers = outcome.takeovers.iter().map(|it| Takeover {
        what: format!("{:?}", it.kind),
        from: it.from,
        takes_writes: it.takes_writes,
        port: it.port,
    });
    let takeovers: Vec<_> = takeovers.collect();
    for finding in &outcome.report.findings {
        eprintln!("{NAME}: {finding}");
    }
    Ok((rows(NAME, &takeovers, &firsts, RESOLUTION), outcome.report.findings.len()))
}

fn start(programs: &[Program], cluster: &Cluster) -> Result<Writers> {
    let url = format!("{}&connect_timeout=2", cluster.url());
    let mut writers = Writers::default();
    for program in programs {
        let mut command = Command::new(&program.command[0]);
        command.args(&program.command[1..]).arg((program.url)(cluster, &url)).arg(WRITE);
        writers.start(program.name, command)?;
    }
    writers.start_here(move |firsts| ours(&url, firsts));
    writers.begun()?;
    Ok(writers)
}

/// The same writer on this client, which connects anew by itself.
fn ours(url: &str, firsts: &Firsts) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    runtime.block_on(async {
        let Ok(config) = url.parse::<Config>() else { return };
        let Ok(client) = Client::connect_with(&config.connections_max(1)).await else { return };
        let mut last = 0;
        loop {
            if let Ok(row) = client.query_one(WRITE, &[]).await {
                let port = row.get::<i32>(0) as u16;
                if port != last {
                    firsts.keep(SystemTime::now(), port);
                }
                last = port;
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
}
