//! Pipelines of 100 selects with one sync point each, all columns decoded, beside libpq. Neither
//! side fills the next pipeline before it has read the last.

use std::cell::RefCell;

use anyhow::Result;

use super::in_flight::Ours;
use crate::Plan;
use crate::item::{Item, ROWS};
use crate::libpq::Libpq;
use crate::measure::{Sample, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::stage::{Stage, one_thread};

const NAME: &str = "select_100_one_sync";

/// Statements with one sync point.
pub(super) const SIZE: u32 = 100;

/// Pipelines of one round: some 0.1 s.
pub(super) const BATCHES: u32 = 150;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let peer = match Libpq::connect(&stage.server) {
        Ok(peer) => RefCell::new(peer),
        Err(error) => return Ok(vec![Row::skipped(NAME, &format!("{error:#}"))]),
    };
    let batches = BATCHES / plan.shorter;
    let pairs = one_thread()?.block_on(async {
        let ours = Ours::connect(stage).await?;
        let first = |round: usize| round as u32 * batches * SIZE;
        paired(
            plan,
            progress,
            async |round| run_ours(&ours, batches, first(round)).await,
            async |round| peer.borrow_mut().run(batches, SIZE, first(round)),
        )
        .await
    })?;
    let bars = Bars { cpu: Some(1.1), time: Some(1.05) };
    let version = peer.borrow().version.clone();
    Ok(compared(NAME, &version, &pairs, bars, "pipelines of 100, one after the other"))
}

pub(super) async fn run_ours(ours: &Ours, batches: u32, first: u32) -> Result<Sample> {
    timed(u64::from(batches * SIZE), async {
        let mut sum = 0_u64;
        let mut replies = Vec::with_capacity(SIZE as usize);
        for batch in 0..batches {
            let mut pipeline = ours.client.pipeline();
            for number in 0..SIZE {
                let id = ((first + batch * SIZE + number) % ROWS as u32) as i32 + 1;
                replies.push(pipeline.query_one(&ours.statement, &[&id]));
            }
            pipeline.finish().await?;
            for reply in replies.drain(..) {
                let row = reply.await?;
                sum = sum.wrapping_add(Item::read(&row.as_ref()).checksum());
            }
        }
        Ok(sum)
    })
    .await
}
