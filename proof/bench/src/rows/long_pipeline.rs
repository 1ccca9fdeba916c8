//! 100,000 statements in one pipeline, whose replies are larger than every buffer on the way: it
//! ends, and takes the memory of a window. In a process of its own, whose memory is nothing else's.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use onetrip::{Reply, Rows};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::child::{ask, memory_mib, reset_peak};
use crate::measure::Spread;
use crate::progress::{Progress, seconds};
use crate::report::Row;
use crate::stage::{Stage, one_thread, ours_at};
use crate::{Plan, Side};

/// A reply of 1 kB to each statement.
const SELECT: &str = "select repeat('x', 1000), $1::int";
const STATEMENTS: usize = 100_000;

const RUNS: usize = 3;
const PEAK_MIB_MAX: f64 = 32.0;

/// What has not ended by then hangs: a run takes a second.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What the child found.
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    peak_mib: f64,
    seconds: f64,
    in_flight_max: usize,
}

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for (name, sync_every) in
        [("pipeline_100k_one_sync", STATEMENTS), ("pipeline_100k_sync_per_1000", 1000)]
    {
        let found: Result<Vec<Found>> = (0..RUNS)
            .map(|run| {
                progress.tick(run, RUNS);
                let each = sync_every.to_string();
                ask(&["--memory-of", &stage.server.url(), "--sync-every", &each])
            })
            .collect();
        rows.extend(match found {
            Ok(found) => rows_of(name, &found),
            Err(error) => {
                let nothing = Spread::of([]);
                let row = Row::alone(name, "MiB", nothing, Some(PEAK_MIB_MAX));
                vec![row.note(&format!("{error:#}"))]
            }
        });
    }
    Ok(rows)
}

fn rows_of(name: &str, found: &[Found]) -> Vec<Row> {
    // The worst run counts: a limit that holds mostly is none.
    let peak = found.iter().map(|found| found.peak_mib).fold(0.0, f64::max);
    let in_flight = found.iter().map(|found| found.in_flight_max).max().unwrap_or_default();
    let time = Spread::of(found.iter().map(|found| found.seconds));
    let note = format!(
        "largest growth of resident memory in {} runs; at most {in_flight} in flight; {} a run",
        found.len(),
        seconds(Duration::from_secs_f64(time.median)),
    );
    vec![
        Row::alone(name, "MiB", Spread::of([peak]), Some(PEAK_MIB_MAX)).note(&note),
        Row::alone(&format!("{name}.time"), "s", time, None),
    ]
}

/// What the process does whose memory is measured.
pub fn in_child(url: &str, sync_every: usize) -> Result<()> {
    let found = one_thread()?.block_on(async {
        let client = ours_at(url).await?;
        let statement = client.prepare(SELECT).await?;
        client.query(&statement, &[&0]).await?;
        reset_peak()?;
        let (idle, start) = (memory_mib("VmRSS")?, Instant::now());
        let pushed = push_all(&client, &statement, sync_every.max(1));
        let in_flight_max = tokio::time::timeout(TIMEOUT, pushed).await.with_context(|| {
            let pending = client.pending();
            format!("did not end within {} s: {pending:?}", TIMEOUT.as_secs())
        })??;
        let peak_mib = memory_mib("VmHWM")? - idle;
        anyhow::Ok(Found { peak_mib, seconds: start.elapsed().as_secs_f64(), in_flight_max })
    })?;
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}

/// Adds statements whenever the pipeline is ready and takes replies as they come, in one task. The
/// channel in between has no limit: the window of the client is the only one.
async fn push_all(
    client: &onetrip::Client,
    statement: &onetrip::Statement,
    sync_every: usize,
) -> Result<usize> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let push = async move {
        let mut pipeline = client.pipeline();
        for number in 0..STATEMENTS {
            pipeline.ready().await?;
            sender.send(pipeline.query(statement, &[&(number as i32)]))?;
            if (number + 1) % sync_every == 0 && number + 1 < STATEMENTS {
                drop(pipeline.sync()); // Its failure shows in the replies and at the end.
            }
        }
        drop(sender);
        Ok(pipeline.finish().await?)
    };
    let (_, in_flight_max) = tokio::try_join!(push, take_all(client, receiver))?;
    Ok(in_flight_max)
}

/// Takes each reply and sees that it is the one to its statement. Returns the most that were in
/// flight.
async fn take_all(
    client: &onetrip::Client,
    mut replies: mpsc::UnboundedReceiver<Reply<Rows>>,
) -> Result<usize> {
    let (mut taken, mut in_flight_max) = (0, 0);
    while let Some(reply) = replies.recv().await {
        in_flight_max = in_flight_max.max(client.pending().in_flight);
        let rows = reply.await?;
        let row = rows.iter().next().context("a select returned nothing")?;
        let (text, number): (&str, i32) = (row.get(0), row.get(1));
        ensure!(text.len() == 1000 && number == taken, "a reply went to the wrong statement");
        taken += 1;
    }
    ensure!(taken as usize == STATEMENTS, "{taken} of {STATEMENTS} replies came");
    Ok(in_flight_max)
}
