//! 10,000 inserts of five columns: pipelined one by one, each with its own Sync, and as one atomic
//! batch, both beside tokio-postgres pipelined.

use std::time::{Duration, SystemTime};

use anyhow::Result;
use futures_util::future::try_join_all;

use crate::Plan;
use crate::environment::TOKIO_POSTGRES;
use crate::measure::{Sample, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::stage::{Stage, one_thread};

const INSERTS: u32 = 10_000;

const CREATE: &str = "create table if not exists insert_here (
    id bigint not null, name text not null, price float8 not null,
    active bool not null, created timestamptz not null)";

const INSERT: &str =
    "insert into insert_here (id, name, price, active, created) values ($1, $2, $3, $4, $5)";

const NAMES: [&str; 4] = ["a", "nail", "hammer, large", "a box of screws, assorted"];

type Columns = (i64, &'static str, f64, bool, SystemTime);

/// Row after row; both sides insert the same.
pub(super) fn rows(count: u32) -> impl Iterator<Item = Columns> {
    let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    (0..count).map(move |number| {
        let name = NAMES[number as usize % NAMES.len()];
        let created = begin + Duration::from_secs(number.into());
        (number.into(), name, f64::from(number) * 0.25, number % 3 == 0, created)
    })
}

/// How our side inserts.
#[derive(Clone, Copy)]
enum Way {
    OneByOne,
    Atomic,
}

pub fn one_by_one(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let bars = Bars { cpu: Some(1.0), time: Some(1.0) };
    run(stage, plan, progress, Way::OneByOne, "inserts_one_by_one", bars)
}

pub fn batch(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let bars = Bars { cpu: Some(0.6), time: Some(0.6) };
    run(stage, plan, progress, Way::Atomic, "inserts_batch", bars)
}

fn run(
    stage: &Stage,
    plan: Plan,
    progress: &Progress,
    way: Way,
    name: &str,
    bars: Bars,
) -> Result<Vec<Row>> {
    let count = INSERTS / plan.shorter;
    let pairs = one_thread()?.block_on(async {
        let peer = stage.peer().await?;
        peer.batch_execute(CREATE).await?;
        let ours = stage.ours().await?;
        let (statement, theirs) = (ours.prepare(INSERT).await?, peer.prepare(INSERT).await?);
        paired(
            plan,
            progress,
            async |_| {
                ours.execute("truncate insert_here", &[]).await?;
                match way {
                    Way::OneByOne => ours_one_by_one(&ours, &statement, count).await,
                    Way::Atomic => ours_atomic(&ours, &statement, count).await,
                }
            },
            async |_| {
                peer.batch_execute("truncate insert_here").await?;
                peers(&peer, &theirs, count).await
            },
        )
        .await
    })?;
    let note = "10,000 inserts of five columns, all submitted before the first is awaited";
    Ok(compared(name, TOKIO_POSTGRES, &pairs, bars, note))
}

async fn ours_one_by_one(
    client: &onetrip::Client,
    statement: &onetrip::Statement,
    count: u32,
) -> Result<Sample> {
    timed(count.into(), async {
        let replies: Vec<_> = rows(count)
            .map(|(id, name, price, active, created)| {
                client.execute(statement, &[&id, &name, &price, &active, &created])
            })
            .collect();
        let mut sum = 0;
        for reply in replies {
            sum += reply.await?;
        }
        Ok(sum)
    })
    .await
}

async fn ours_atomic(
    client: &onetrip::Client,
    statement: &onetrip::Statement,
    count: u32,
) -> Result<Sample> {
    timed(count.into(), async { Ok(client.batch(statement, rows(count)).atomic().await?.total()) })
        .await
}

async fn peers(
    client: &tokio_postgres::Client,
    statement: &tokio_postgres::Statement,
    count: u32,
) -> Result<Sample> {
    timed(count.into(), async {
        let inserts = rows(count).map(|(id, name, price, active, created)| async move {
            client.execute(statement, &[&id, &name, &price, &active, &created]).await
        });
        Ok(try_join_all(inserts).await?.into_iter().sum())
    })
    .await
}
