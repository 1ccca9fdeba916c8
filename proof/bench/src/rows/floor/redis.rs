//! Redis: GET and SET of 64 bytes, 1,000 on their way.

use anyhow::Result;
use onetrip_lab::redis::Server;

use super::line::Line;
use super::tasks::Crowd;
use super::{BARS, FLOOR, FLOOR_OF_TASKS, Floor, Protocol, Recorder, Recording};
use crate::Plan;
use crate::measure::{Sample, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::rows::redis::clients::Ours;
use crate::rows::redis::load::{Operation, closed_loop};
use crate::rows::redis::{named, through, with_server};
use crate::stage::{Stage, one_thread};

const NAME: &str = "floor_redis_1000";

const TASKS: usize = 1_000;

/// Commands of each task in a round.
const EACH: usize = 100;

const ABOVE: &str = "above the floor: a future, a wake-up and a reply of its own for each command";

pub fn thousand(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_server(NAME, |server| {
        let each = EACH / plan.shorter as usize;
        one_thread()?.block_on(async {
            let mut rows = Vec::new();
            for operation in Operation::ALL {
                rows.extend(beside(server, plan, progress, operation, each).await?);
            }
            Ok(rows)
        })
    })
}

async fn beside(
    server: &Server,
    plan: Plan,
    progress: &Progress,
    operation: Operation,
    each: usize,
) -> Result<Vec<Row>> {
    let round = async |ours: &Ours| -> Result<Sample> {
        let work = closed_loop(ours, operation, (TASKS, each), 0);
        timed((TASKS * each) as u64, work).await
    };
    let ours = Ours::connect(&server.url()).await?;
    let recorder = Recorder::start(([127, 0, 0, 1], server.port()).into())?;
    let recorded = Ours::connect(&through(server, recorder.addr())).await?;
    let before = recorder.cut()?;
    let checksum = round(&recorded).await?.checksum;
    let tapes = (&before, recorder.cut()?);
    let recording = Recording::of(Protocol::Redis, tapes, None, checksum)?;
    let crowd = Crowd::new(Line::to_redis(server)?.into_socket(), recording.clone())?;
    let line = Line::to_redis(server)?;
    let floor = Floor::under((line, recording), TASKS, (TASKS * each) as u64).await?;
    let pairs =
        paired(plan, progress, async |_| round(&ours).await, async |_| floor.round().await).await?;
    let note = format!("{}; ours: {TASKS} tasks; {ABOVE}; {}", named(server), floor.note());
    let name = format!("{NAME}.{}", operation.name());
    let mut rows = compared(&name, FLOOR, &pairs, BARS, &note);
    let pairs = paired(
        plan,
        progress,
        async |_| round(&ours).await,
        async |_| timed((TASKS * each) as u64, crowd.round(TASKS)).await,
    )
    .await?;
    let note = format!("{}; {TASKS} tasks on both sides, answers counted", named(server));
    let name = format!("{name}.tasks");
    rows.extend(compared(&name, FLOOR_OF_TASKS, &pairs, Bars::default(), &note));
    Ok(rows)
}
