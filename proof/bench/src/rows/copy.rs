//! Binary COPY of five columns, into a table and out of it, typed on both sides.

use std::time::SystemTime;

use anyhow::{Context, Result};
use futures_util::TryStreamExt;
use onetrip::{BinaryCopyIn, BinaryCopyOut};
use postgres_types::{FromSql, Type};
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutRow, BinaryCopyOutStream};

use super::inserts::rows;
use crate::Plan;
use crate::environment::TOKIO_POSTGRES;
use crate::item::Get;
use crate::measure::{Sample, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::stage::{Stage, one_thread};

/// Rows of one COPY: what its name ends with, how many, and by what the rounds are divided.
const SIZES: [(&str, u32, usize); 2] = [("10k", 10_000, 1), ("1m", 1_000_000, 5)];

/// Unlogged, so that a round costs no log of the server's.
pub(super) const CREATE: &str = "create unlogged table if not exists copy_here (
    id bigint not null, name text not null, price float8 not null,
    active bool not null, created timestamptz not null)";

pub(super) const EMPTY: &str = "truncate copy_here";

pub(super) const FILL: &str = "insert into copy_here
    select i, (array['a', 'nail', 'hammer, large', 'a box of screws, assorted'])[i % 4 + 1],
        i * 0.25, i % 3 = 0, timestamptz '2023-11-14 22:13:20Z' + i * interval '1 second'
    from generate_series(0, $1::int - 1) as i";

/// What both sides must have brought: every column of every row counts.
const SUM: &str = "select sum(hashtextextended(c::text, 0) % 1000000000000)::text from copy_here c";

const IN: &str = "copy copy_here (id, name, price, active, created) from stdin (format binary)";
const OUT: &str = "copy copy_here (id, name, price, active, created) to stdout (format binary)";

const TYPES: [Type; 5] = [Type::INT8, Type::TEXT, Type::FLOAT8, Type::BOOL, Type::TIMESTAMPTZ];

const IN_BARS: Bars = Bars { cpu: Some(0.55), time: Some(0.95) };
const BARS: Bars = Bars { cpu: Some(1.05), time: Some(1.05) };

pub fn copy_in(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    each_size(plan, async |plan, size, count| {
        let (ours, peer) = (stage.ours().await?, stage.peer().await?);
        peer.batch_execute(CREATE).await?;
        let pairs = paired(
            plan,
            progress,
            async |_| {
                peer.batch_execute(EMPTY).await?;
                let sample = timed(count.into(), ours_in(&ours, count)).await?;
                verified(&peer, sample).await
            },
            async |_| {
                peer.batch_execute(EMPTY).await?;
                let sample = timed(count.into(), peers_in(&peer, count)).await?;
                verified(&peer, sample).await
            },
        )
        .await?;
        let note = "ours: BinaryCopyIn, tuples; peer: BinaryCopyInWriter; types given to both";
        Ok(compared(&format!("copy_in_binary.{size}"), TOKIO_POSTGRES, &pairs, IN_BARS, note))
    })
}

pub fn copy_out(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    each_size(plan, async |plan, size, count| {
        let (ours, peer) = (stage.ours().await?, stage.peer().await?);
        peer.batch_execute(CREATE).await?;
        peer.batch_execute(EMPTY).await?;
        peer.execute(FILL, &[&(count as i32)]).await?;
        let pairs = paired(
            plan,
            progress,
            async |_| timed(count.into(), ours_out(&ours)).await,
            async |_| timed(count.into(), peers_out(&peer)).await,
        )
        .await?;
        let note =
            "ours: BinaryCopyOut; peer: BinaryCopyOutStream; every column read, text borrowed";
        Ok(compared(&format!("copy_out_binary.{size}"), TOKIO_POSTGRES, &pairs, BARS, note))
    })
}

fn each_size(
    plan: Plan,
    run: impl AsyncFn(Plan, &str, u32) -> Result<Vec<Row>>,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (size, count, fewer) in SIZES {
        let plan = Plan { rounds: (plan.rounds / fewer).max(1), ..plan };
        rows.extend(one_thread()?.block_on(run(plan, size, count / plan.shorter))?);
    }
    Ok(rows)
}

/// The sample with what the server now has as its checksum, taken outside of the measured time.
pub(super) async fn verified(peer: &tokio_postgres::Client, sample: Sample) -> Result<Sample> {
    let sum: Option<String> = peer.query_one(SUM, &[]).await?.get(0);
    let sum: i64 = sum.context("nothing was copied")?.parse()?;
    Ok(Sample { checksum: sample.checksum.wrapping_add(sum as u64), ..sample })
}

pub(super) async fn ours_in(client: &onetrip::Client, count: u32) -> Result<u64> {
    let mut copy = BinaryCopyIn::new(client.copy_in(IN).await?, &TYPES);
    for row in rows(count) {
        #[cfg(rows_of_tuples)]
        copy.row_of(row).await?;
        #[cfg(not(rows_of_tuples))]
        copy.row(&[&row.0, &row.1, &row.2, &row.3, &row.4]).await?;
    }
    Ok(copy.finish().await?)
}

async fn peers_in(client: &tokio_postgres::Client, count: u32) -> Result<u64> {
    let mut copy = std::pin::pin!(BinaryCopyInWriter::new(client.copy_in(IN).await?, &TYPES));
    for (id, name, price, active, created) in rows(count) {
        copy.as_mut().write(&[&id, &name, &price, &active, &created]).await?;
    }
    Ok(copy.finish().await?)
}

pub(super) async fn ours_out(client: &onetrip::Client) -> Result<u64> {
    let mut copy = BinaryCopyOut::new(client.copy_out(OUT).await?, &TYPES)?;
    let mut sum = 0_u64;
    while let Some(row) = copy.try_next().await? {
        sum = sum.wrapping_add(checksum(&row.as_ref()));
    }
    Ok(sum)
}

async fn peers_out(client: &tokio_postgres::Client) -> Result<u64> {
    let mut copy = std::pin::pin!(BinaryCopyOutStream::new(client.copy_out(OUT).await?, &TYPES));
    let mut sum = 0_u64;
    while let Some(row) = copy.try_next().await? {
        sum = sum.wrapping_add(checksum(&&row));
    }
    Ok(sum)
}

impl<'a> Get<'a> for &'a BinaryCopyOutRow {
    #[inline]
    fn get<T: FromSql<'a>>(&self, column: usize) -> T {
        BinaryCopyOutRow::get(self, column)
    }
}

/// Depends on every column.
#[inline]
fn checksum<'a>(row: &impl Get<'a>) -> u64 {
    let (id, name, price): (i64, &str, f64) = (row.get(0), row.get(1), row.get(2));
    let (active, created): (bool, SystemTime) = (row.get(3), row.get(4));
    let created = created.duration_since(SystemTime::UNIX_EPOCH);
    (id as u64)
        .wrapping_add(name.len() as u64)
        .wrapping_add((price * 100.0) as u64 + u64::from(active))
        .wrapping_add(created.map_or(0, |created| created.as_secs()))
}
