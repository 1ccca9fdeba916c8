//! PostgreSQL: selects, rows and COPY.

use anyhow::Result;

use super::line::Line;
use super::{BARS, FLOOR, Floor, Protocol, Recorder, Recording};
use crate::Plan;
use crate::item::{ROWS, SELECT_ALL};
use crate::measure::{Pairs, Sample, paired, timed};
use crate::progress::Progress;
use crate::report::{Row, compared};
use crate::rows::in_flight::{DEPTH, Ours};
use crate::rows::{copy, one_sync, rows_100k as rows, select};
use crate::spinners::Spinners;
use crate::stage::{Stage, one_thread};

/// Rows of a COPY.
const COPIED: u32 = 100_000;

/// One round, of ours and of the floor.
struct Load<'a> {
    name: &'a str,
    how: &'a str,
    /// Requests on their way at once.
    depth: usize,
    operations: u32,
}

pub fn select_100(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let count = select::IN_FLIGHT_ROUND / plan.shorter;
    one_thread()?.block_on(async {
        let mode = select::better_mode(&Ours::connect(stage).await?, count).await?;
        let load = Load {
            name: "floor_select_100_sync_each",
            how: mode.name(),
            depth: DEPTH,
            operations: count,
        };
        let round = async |ours: &Ours| select::run(ours, mode, count, 0).await;
        load.beside(stage, plan, progress, Ours::over, round).await
    })
}

pub fn one_sync(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let batches = one_sync::BATCHES / plan.shorter;
    let load = Load {
        name: "floor_select_100_one_sync",
        how: "pipelines of 100, one after the other; above the floor: a place in the queue, \
              a reply, encoding and decoding for each statement",
        depth: 1,
        operations: batches * one_sync::SIZE,
    };
    let round = async |ours: &Ours| one_sync::run_ours(ours, batches, 0).await;
    one_thread()?.block_on(load.beside(stage, plan, progress, Ours::over, round))
}

pub fn sequential(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let count = select::SEQUENTIAL_ROUND / plan.shorter;
    let spinners = Spinners::start();
    let load =
        Load { name: "floor_select_sequential", how: spinners.note(), depth: 1, operations: count };
    let round = async |ours: &Ours| select::one_by_one(ours, count, 0).await;
    one_thread()?.block_on(load.beside(stage, plan, progress, Ours::over, round))
}

pub fn rows_100k(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let load = Load {
        name: "floor_rows_100k",
        how: "query, all columns read, text and jsonb borrowed; above the floor: that, memory for \
              the whole result, and an epoll_wait for each read",
        depth: 1,
        operations: ROWS as u32,
    };
    let connect = async |client: onetrip::Client| {
        let statement = client.prepare(SELECT_ALL).await?;
        Ok(Ours { client, statement })
    };
    let round = async |ours: &Ours| rows::borrowed_of(&ours.client, &ours.statement).await;
    one_thread()?.block_on(load.beside(stage, plan, progress, connect, round))
}

pub fn copy_out(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let how =
        "BinaryCopyOut, all columns read; above the floor: that, and each row's share of a buffer";
    let load = Load::of_copy("floor_copy_out_binary", how, plan);
    let count = load.operations;
    one_thread()?.block_on(async {
        let peer = stage.peer().await?;
        peer.batch_execute(copy::CREATE).await?;
        peer.batch_execute(copy::EMPTY).await?;
        peer.execute(copy::FILL, &[&(count as i32)]).await?;
        let round = async |ours: &onetrip::Client| timed(count.into(), copy::ours_out(ours)).await;
        load.beside(stage, plan, progress, as_it_is, round).await
    })
}

/// The table is emptied before each round, and summed up after it.
pub fn copy_in(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let how = "BinaryCopyIn of tuples; above the floor: encoding";
    let load = Load::of_copy("floor_copy_in_binary", how, plan);
    let count = load.operations;
    one_thread()?.block_on(async {
        let (ours, peer) = (stage.ours().await?, stage.peer().await?);
        peer.batch_execute(copy::CREATE).await?;
        let round =
            async |ours: &onetrip::Client| timed(count.into(), copy::ours_in(ours, count)).await;
        let floor = load.floor(stage, as_it_is, round).await?;
        let pairs = paired(
            plan,
            progress,
            async |_| {
                peer.batch_execute(copy::EMPTY).await?;
                copy::verified(&peer, round(&ours).await?).await
            },
            async |_| {
                peer.batch_execute(copy::EMPTY).await?;
                copy::verified(&peer, floor.round().await?).await
            },
        )
        .await?;
        Ok(load.compared(&pairs, &floor))
    })
}

impl<'a> Load<'a> {
    fn of_copy(name: &'a str, how: &'a str, plan: Plan) -> Load<'a> {
        Load { name, how, depth: 1, operations: COPIED / plan.shorter }
    }

    /// `connect` makes of a client what `round` runs on.
    async fn beside<C>(
        &self,
        stage: &Stage,
        plan: Plan,
        progress: &Progress,
        connect: impl AsyncFn(onetrip::Client) -> Result<C>,
        round: impl AsyncFn(&C) -> Result<Sample>,
    ) -> Result<Vec<Row>> {
        let ours = connect(stage.ours().await?).await?;
        let floor = self.floor(stage, connect, &round).await?;
        let pairs =
            paired(plan, progress, async |_| round(&ours).await, async |_| floor.round().await);
        Ok(self.compared(&pairs.await?, &floor))
    }

    /// Records a round of ours on a connection of its own, after those that prepare all.
    async fn floor<C>(
        &self,
        stage: &Stage,
        connect: impl AsyncFn(onetrip::Client) -> Result<C>,
        round: impl AsyncFn(&C) -> Result<Sample>,
    ) -> Result<Floor> {
        let recorder = Recorder::start(stage.addr())?;
        let recorded = connect(stage.ours_through(recorder.addr()).await?).await?;
        // The second reset of a connection prepares its statements, and the next ones use them.
        for _ in 0..3 {
            round(&recorded).await?;
        }
        let before = recorder.cut()?;
        let checksum = round(&recorded).await?.checksum;
        let tapes = (&before, recorder.cut()?);
        let recording = Recording::of(Protocol::Postgres, tapes, None, checksum)?;
        let line = Line::to_postgres(stage, &recording).await?;
        Floor::under((line, recording), self.depth, self.operations.into()).await
    }

    fn compared(&self, pairs: &Pairs, floor: &Floor) -> Vec<Row> {
        let note = format!("ours: {}; {}", self.how, floor.note());
        compared(self.name, FLOOR, pairs, BARS, &note)
    }
}

async fn as_it_is(client: onetrip::Client) -> Result<onetrip::Client> {
    Ok(client)
}
