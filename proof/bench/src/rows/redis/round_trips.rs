//! How long a GET takes on a line with a round trip of 50 ms, for 1,000 callers who each ask again when
//! they were answered. Who sends a batch and waits for its end pays the round trip twice, nearly.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use onetrip_lab::proxy::{Proxy, ProxyConfig};

use super::clients::{Buffers, Commands, Fred, Ours, RedisRs};
use super::load::Operation;
use super::server::{named, through, with_server};
use crate::Plan;
use crate::environment::{FRED, REDIS_RS};
use crate::measure::{Spread, quantile};
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::stage::{Stage, one_thread};

const NAME: &str = "redis_closed_loop";

const RTT: Duration = Duration::from_millis(50);
const CALLERS: u32 = 1_000;
/// GETs of a caller in one round: 1 s at least.
const EACH: usize = 20;
const ROUNDS: usize = 5;
const TRIPS_MAX: f64 = 1.1;

pub fn run(_: &Stage, _: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_server(NAME, |server| {
        let upstream = SocketAddr::from(([127, 0, 0, 1], server.port()));
        let proxy = Proxy::start(ProxyConfig::new(upstream).with_rtt(RTT))?;
        let url = through(server, proxy.addr());
        let note = format!(
            "median of all GETs of {CALLERS} callers, who begin spread over one round trip; {}",
            named(server)
        );
        one_thread()?.block_on(async {
            let ours = Ours::connect(&url).await?;
            let redis_rs = RedisRs::connect(&url, Buffers::Large).await?;
            let fred = Fred::connect(&url).await?;
            let mut medians = [const { Vec::new() }; 3];
            for round in 0..=ROUNDS {
                let three = [median(&ours).await?, median(&redis_rs).await?, median(&fred).await?];
                if round > 0 {
                    medians.iter_mut().zip(three).for_each(|(all, one)| all.push(one));
                }
                progress.tick(round, ROUNDS);
            }
            let rows = rows(&medians);
            Ok(rows.into_iter().map(|row| row.note(&note)).collect())
        })
    })
}

fn rows([ours, redis_rs, fred]: &[Vec<f64>; 3]) -> Vec<Row> {
    let p50 = Spread::of(ours.iter().copied());
    let name = |peer| format!("{NAME}.{peer}");
    vec![
        Row::multiple(&name("p50"), "ms", (p50, millis(RTT)), "the round trip", TRIPS_MAX),
        beside(&name("redis_rs"), "ms", REDIS_RS, (ours, redis_rs)),
        beside(&name("fred"), "ms", FRED, (ours, fred)),
    ]
}

/// The median time of a GET, in milliseconds.
async fn median(on: &impl Commands) -> Result<f64> {
    let callers = (0..CALLERS).map(|caller| {
        let on = on.clone();
        tokio::spawn(async move {
            tokio::time::sleep(RTT * caller / CALLERS).await;
            times(on, caller as usize).await
        })
    });
    let callers: FuturesUnordered<_> = callers.collect();
    let all: Vec<Result<Vec<f64>>> = callers.try_collect().await?;
    let all: Vec<Vec<f64>> = all.into_iter().collect::<Result<_>>()?;
    let mut all = all.concat();
    all.sort_unstable_by(f64::total_cmp);
    Ok(quantile(&all, 0.5))
}

async fn times(mut on: impl Commands, caller: usize) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(EACH);
    for number in 0..EACH {
        let start = Instant::now();
        Operation::Get.run(&mut on, caller + number).await?;
        times.push(millis(start.elapsed()));
    }
    Ok(times)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
