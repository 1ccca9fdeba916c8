//! An ORM's transaction of two statements over a line of 10 ms: its trips on the drop-in and on pg.

use std::time::Duration;

use anyhow::{Context, Result};
use onetrip_lab::proxy::{Proxy, ProxyConfig};

use super::super::process::{Language, Process, Task};
use super::{setup, with_node};
use crate::measure::{Sample, Spread};
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::stage::Stage;
use crate::{Plan, Side};

pub const NAME: &str = "node_orm_trips";

const RTT: Duration = Duration::from_millis(10);

/// Transactions of one round.
const TRANSACTIONS: u32 = 5;

/// Fewer rounds than elsewhere, since trips do not vary.
const ROUNDS_MAX: usize = 9;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_node(NAME, || {
        if plan.side == Side::Peer {
            return Ok(Vec::new());
        }
        let config = ProxyConfig::new(stage.addr()).with_rtt(RTT);
        let proxy = Proxy::start(config).context("cannot start the proxy")?;
        let url = stage.url_through(proxy.addr());
        let rounds = plan.rounds.min(ROUNDS_MAX);
        let mut rows = Vec::new();
        for (orm, ours, peer) in [
            ("drizzle", "drizzle_onetrip", "drizzle_pg"),
            ("kysely", "kysely_onetrip", "kysely_pg"),
        ] {
            let mut ours = start(ours, &url)?;
            // Where ours is measured alone it stands beside itself.
            let alone = plan.side == Side::Ours;
            let mut peer = if alone { None } else { Some(start(peer, &url)?) };
            let (mut our_costs, mut peers_costs) = (Vec::new(), Vec::new());
            for round in 0..=rounds {
                let a = cost(&mut ours, &proxy)?;
                let b = peer.as_mut().map_or(Ok(a), |peer| cost(peer, &proxy))?;
                progress.tick(round, rounds);
                if round > 0 {
                    our_costs.push(a);
                    peers_costs.push(b);
                }
            }
            let version = peer.map_or(String::new(), |it| it.version.clone());
            rows.extend(rows_of(orm, &version, &our_costs, &peers_costs));
        }
        Ok(rows)
    })
}

fn start(driver: &'static str, url: &str) -> Result<Process> {
    let task = Task {
        language: Language::Node,
        driver,
        work: "transaction",
        in_flight: 1,
        connections: 1,
        pipeline: false,
        named: false,
        warmth: 1,
    };
    Process::start(&task, url)
}

/// Trips of one transaction, and its milliseconds.
#[derive(Clone, Copy)]
struct Cost {
    trips: f64,
    ms: f64,
}

fn cost(node: &mut Process, proxy: &Proxy) -> Result<Cost> {
    proxy.reset_stats();
    let sample: Sample = node.round(TRANSACTIONS)?;
    let trips = proxy.stats().trips as f64 / f64::from(TRANSACTIONS);
    Ok(Cost { trips, ms: sample.wall_us() / 1000.0 })
}

/// The bars are met by one trip fewer than with pg, as the proxy counts and as the clock tells.
fn rows_of(orm: &str, peer: &str, ours: &[Cost], peers: &[Cost]) -> Vec<Row> {
    let name = |what: &str| format!("{NAME}.{orm}.{what}");
    let of = |costs: &[Cost]| Spread::of(costs.iter().map(|it| it.trips));
    let peers_trips = of(peers).median;
    let counted = Row {
        peer: Some(peers_trips),
        peer_version: Some(peer.to_owned()),
        ..Row::alone(&name("counted"), "trips", of(ours), Some(peers_trips - 1.0))
    };
    let rtt_ms = RTT.as_secs_f64() * 1000.0;
    let saved = ours.iter().zip(peers).map(|(ours, peer)| (peer.ms - ours.ms) / rtt_ms);
    let saved = Spread::of(saved).map(f64::round);
    let saved = Row::alone(&name("saved_by_the_clock"), "trips", saved, None).at_least(1.0);
    let ms = |costs: &[Cost]| -> Vec<f64> { costs.iter().map(|it| it.ms).collect() };
    let time = beside(&name("time"), "ms", peer, (&ms(ours), &ms(peers)));
    let note = format!(
        "a transaction of two statements, {rtt_ms} ms of round trip; the ORM is the same on both \
         sides; {}",
        setup::note(),
    );
    [counted, saved, time].into_iter().map(|row| row.note(&note)).collect()
}
