//! One select of 100,000 rows, every column decoded: text and jsonb borrowed, or as values that
//! own theirs. They have no bars: the peer is near the floor, and beside that is `floor_rows_100k`.

use anyhow::Result;
use futures_util::TryStreamExt;
use tokio_postgres::types::ToSql;

use crate::environment::TOKIO_POSTGRES;
use crate::item::{Get, Item, OwnedItem, ROWS, SELECT_ALL};
use crate::measure::{Sample, Spread, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

/// Rounds of each way of the peer before one is chosen.
const TRIALS: usize = 5;

pub fn borrowed(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    one_thread()?.block_on(compare::<Borrowed>(stage, plan, progress, "rows_100k_borrowed"))
}

pub fn owned(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    one_thread()?.block_on(compare::<Owned>(stage, plan, progress, "rows_100k_owned"))
}

/// What a row is read as, on both sides the same.
trait Decode {
    fn checksum<'a>(row: &impl Get<'a>) -> u64;
}

struct Borrowed;

impl Decode for Borrowed {
    #[inline]
    fn checksum<'a>(row: &impl Get<'a>) -> u64 {
        Item::read(row).checksum()
    }
}

struct Owned;

impl Decode for Owned {
    #[inline]
    fn checksum<'a>(row: &impl Get<'a>) -> u64 {
        OwnedItem::read(row).checksum()
    }
}

async fn compare<D: Decode>(
    stage: &Stage,
    plan: Plan,
    progress: &Progress,
    name: &str,
) -> Result<Vec<Row>> {
    let (ours, peer) = (stage.ours().await?, stage.peer().await?);
    let our_statement = ours.prepare(SELECT_ALL).await?;
    let peer_statement = peer.prepare(SELECT_ALL).await?;
    let run_ours = async || collected::<D>(&ours, &our_statement).await;
    let run_peer = async |streamed: bool| {
        timed(ROWS as u64, async {
            if streamed {
                return streamed_sum::<D>(&peer, &peer_statement).await;
            }
            let rows = peer.query(&peer_statement, &[]).await?;
            Ok(rows.iter().fold(0, |sum: u64, row| sum.wrapping_add(D::checksum(&row))))
        })
        .await
    };
    let (streamed, trial) = match plan.side {
        Side::Ours => (false, String::new()),
        _ => is_better_streamed(run_peer).await?,
    };
    let pairs =
        paired(plan, progress, async |_| run_ours().await, async |_| run_peer(streamed).await)
            .await?;
    let mode = if streamed { "query_raw" } else { "query" };
    let note = format!("ours: query; peer: {mode} ({trial})");
    let mut rows = compared(name, TOKIO_POSTGRES, &pairs, Bars::default(), &note);
    if streamed {
        // Like with like: both keep the whole result before the first row is read.
        let pairs =
            paired(plan, progress, async |_| run_ours().await, async |_| run_peer(false).await)
                .await?;
        let name = format!("{name}.collected");
        let note = "ours: query; peer: query";
        rows.extend(compared(&name, TOKIO_POSTGRES, &pairs, Bars::default(), note));
    }
    Ok(rows)
}

/// Ours keeps the whole result before the first row is read.
async fn collected<D: Decode>(
    ours: &onetrip::Client,
    statement: &onetrip::Statement,
) -> Result<Sample> {
    timed(ROWS as u64, async {
        let rows = ours.query(statement, &[]).await?;
        Ok(rows.iter().fold(0, |sum: u64, row| sum.wrapping_add(D::checksum(&row))))
    })
    .await
}

/// The same for the floor beside it.
pub(super) async fn borrowed_of(
    ours: &onetrip::Client,
    statement: &onetrip::Statement,
) -> Result<Sample> {
    collected::<Borrowed>(ours, statement).await
}

/// Whether the peer takes less CPU when it streams, and the figures that say so.
async fn is_better_streamed(run: impl AsyncFn(bool) -> Result<Sample>) -> Result<(bool, String)> {
    let (mut streamed, mut collected) = (Vec::new(), Vec::new());
    for _ in 0..TRIALS {
        collected.push(run(false).await?.cpu_us());
        streamed.push(run(true).await?.cpu_us());
    }
    let (streamed, collected) = (Spread::of(streamed).median, Spread::of(collected).median);
    let trial = format!("in trials {streamed:.2} µs of CPU a row, query {collected:.2}");
    Ok((streamed < collected, trial))
}

async fn streamed_sum<D: Decode>(
    peer: &tokio_postgres::Client,
    statement: &tokio_postgres::Statement,
) -> Result<u64> {
    let none: [&(dyn ToSql + Sync); 0] = [];
    let mut rows = std::pin::pin!(peer.query_raw(statement, none).await?);
    let mut sum = 0_u64;
    while let Some(row) = rows.try_next().await? {
        sum = sum.wrapping_add(D::checksum(&&row));
    }
    Ok(sum)
}
