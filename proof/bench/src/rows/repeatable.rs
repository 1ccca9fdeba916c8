//! 1,000 tasks on one connection, each with one read after the other: repeatable, so that those that
//! leave together share a sync point, beside isolated.

use anyhow::Result;
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use onetrip::{Client, Row as Reply, Statement};

use super::in_flight;
use crate::Plan;
use crate::item::SELECT_ONE;
use crate::measure::{Pairs, Sample, Spread, paired, timed};
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::{Stage, one_thread};

const NAME: &str = "repeatable";

const TASKS: u32 = 1_000;

/// Reads of a task in one round: some 0.5 s on the isolated side.
const READS: u32 = 20;

/// What is read: its name, the text, and how many times the isolated rate it has to reach.
const READ: [(&str, &str, f64); 2] = [("one", "select $1::int", 2.5), ("point", SELECT_ONE, 1.6)];

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let reads = (READS / plan.shorter).max(1);
    let mut rows = Vec::new();
    for (kind, sql, bar) in READ {
        let pairs = one_thread()?.block_on(async {
            let client = stage.ours().await?;
            let statement = client.prepare(sql).await?;
            let run = async |repeatable| run_tasks(&client, &statement, repeatable, reads).await;
            paired(plan, progress, async |_| run(true).await, async |_| run(false).await).await
        })?;
        let rates = row(&format!("{NAME}.{kind}.rate"), "reads/s", &pairs, rate);
        rows.push(rates.at_least(bar));
        rows.push(row(&format!("{NAME}.{kind}.cpu"), "µs/op", &pairs, Sample::cpu_us));
    }
    Ok(rows)
}

fn rate(sample: &Sample) -> f64 {
    1e6 / sample.wall_us()
}

fn row(name: &str, unit: &'static str, pairs: &Pairs, measure: fn(&Sample) -> f64) -> Row {
    let (ours, peer, ratio) = pairs.compare(measure);
    let spread = Spread { low: ours, median: ours, high: ours };
    Row {
        peer: Some(peer),
        peer_version: Some("our own, isolated".to_owned()),
        ratio: Some(ratio.median),
        spread: Some([ratio.low, ratio.high]),
        rounds: pairs.ours.iter().map(measure).collect(),
        ..Row::alone(name, unit, spread, None)
    }
    .note("1,000 tasks on one connection and one thread")
}

async fn run_tasks(
    client: &Client,
    statement: &Statement,
    repeatable: bool,
    reads: u32,
) -> Result<Sample> {
    timed(u64::from(TASKS * reads), async {
        let tasks = (0..TASKS).map(|task| {
            let (client, statement) = (client.clone(), statement.clone());
            tokio::spawn(async move {
                let mut sum = 0_u64;
                for number in 0..reads {
                    let id = in_flight::id(task * reads + number);
                    let row = read(&client, &statement, repeatable, id).await?;
                    sum = sum.wrapping_add(row.get::<i32>(0) as u64);
                }
                anyhow::Ok(sum)
            })
        });
        let tasks: FuturesUnordered<_> = tasks.collect();
        let sums: Vec<Result<u64>> = tasks.try_collect().await?;
        sums.into_iter().try_fold(0_u64, |sum, it| Ok(sum.wrapping_add(it?)))
    })
    .await
}

async fn read(
    client: &Client,
    statement: &Statement,
    repeatable: bool,
    id: i32,
) -> Result<Reply, onetrip::Error> {
    match repeatable {
        true => client.repeatable().query_one(statement, &[&id]).await,
        false => client.query_one(statement, &[&id]).await,
    }
}
