//! A server that dies with 1,000 requests in flight: each ends, once, and soon.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::{Stage, one_thread, ours_at, start};
use crate::{Plan, Side};

const REQUESTS: usize = 1000;
const RUNS: usize = 5;
const SECONDS_MAX: f64 = 1.0;

/// What has not ended by then never will.
const TIMEOUT: Duration = Duration::from_secs(10);

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    let mut server = start()?;
    let (mut times, mut outcomes) = (Vec::new(), BTreeMap::new());
    for run in 0..RUNS {
        if run > 0 {
            server.start_again()?;
        }
        let url = server.url();
        let kill = || server.stop_immediate().context("cannot stop the server");
        times.push(one_thread()?.block_on(one_run(&url, kill, &mut outcomes))?);
        progress.tick(run + 1, RUNS);
    }
    let outcomes: Vec<_> =
        outcomes.iter().map(|(outcome, count)| format!("{count} × {outcome}")).collect();
    let worst = times.into_iter().fold(0.0, f64::max);
    let row = Row::alone("kill_1000_in_flight", "s", Spread::of([worst]), Some(SECONDS_MAX));
    let note = format!("slowest of {RUNS}, from the kill on; {}", outcomes.join(", "));
    Ok(vec![row.note(&note)])
}

/// Returns the seconds from the kill to the last outcome.
async fn one_run(
    url: &str,
    kill: impl FnOnce() -> Result<()>,
    outcomes: &mut BTreeMap<String, usize>,
) -> Result<f64> {
    let client = ours_at(url).await?;
    // The first keeps the server busy; the others have reached it, or are on their way.
    let first = client.query("select pg_sleep(60)", &[]);
    let rest = (1..REQUESTS).map(|number| client.query("select $1::int", &[&(number as i32)]));
    let replies = std::iter::once(first).chain(rest).enumerate();
    let mut waiting: FuturesUnordered<_> =
        replies.map(|(number, reply)| async move { (number, reply.await) }).collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let in_flight = client.pending().in_flight;
    ensure!(in_flight == REQUESTS, "{in_flight} of {REQUESTS} requests are in flight");

    let mut ended = vec![0_u32; REQUESTS];
    let start = Instant::now();
    kill()?;
    let all = async {
        while let Some((number, result)) = waiting.next().await {
            ended[number] += 1;
            let outcome = match result {
                Ok(_) => "reply".to_owned(),
                Err(error) => format!("{:?}", error.outcome()),
            };
            *outcomes.entry(outcome).or_default() += 1;
        }
    };
    let in_time = tokio::time::timeout(TIMEOUT, all).await;
    let seconds = start.elapsed().as_secs_f64();
    let missing = ended.iter().filter(|&&count| count == 0).count();
    ensure!(in_time.is_ok(), "{missing} requests have no outcome after {} s", TIMEOUT.as_secs());
    ensure!(ended.iter().all(|&count| count == 1), "{missing} outcomes are missing or came twice");
    Ok(seconds)
}
