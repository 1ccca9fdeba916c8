//! The package for Node beside the least that is possible there: a socket of Node's that sends the
//! very bytes that ours has sent, and reads the answers without decoding them.

use std::net::SocketAddr;

use anyhow::{Context, Result};

use super::super::floor::{Protocol, Recorder, Recording};
use super::super::process::{Language, Process, Task};
use super::super::redis::{named, with_server};
use super::super::turns::{cheaper, in_turns};
use super::one_sync;
use super::{setup, with_items, with_node};
use crate::measure::Pairs;
use crate::progress::Progress;
use crate::report::{Bars, Row, compared, write};
use crate::spinners::Spinners;
use crate::stage::Stage;
use crate::{Plan, Side};

pub const HUNDRED: &str = "node_floor_in_flight_100";
pub const ONE_SYNC: &str = "node_floor_one_sync";
pub const SEQUENTIAL: &str = "node_floor_sequential";
pub const ROWS_100000: &str = "node_floor_rows_100000";
pub const REDIS_1000: &str = "node_floor_redis_1000";

/// What ours may take of the CPU that the floor takes.
const BARS: Bars = Bars { cpu: Some(2.0), time: None };

/// The floor's work where a request follows each answer.
const EAGER: &str = "floor";

/// The faces, as drivers, and what they add to the names of rows.
const FACES: [(&str, &str); 2] = [("onetrip_pg", ""), ("onetrip", ".modern")];

/// What both sides do in a round.
#[derive(Clone, Copy)]
struct Load {
    work: &'static str,
    in_flight: u32,
    operations: u32,
    /// Operations in what the server answers as one.
    in_request: u32,
}

pub fn hundred(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let load = |work| Load { work, in_flight: 100, operations: 10_000, in_request: 1 };
    let how = "100 at a time; above the floor: a promise and a reply for each";
    let mut rows = selects((HUNDRED, ".value", how), load("value"), stage, plan, progress)?;
    rows.extend(selects((HUNDRED, ".item", how), load("item"), stage, plan, progress)?);
    Ok(rows)
}

pub fn sequential(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let spinners = Spinners::start();
    let load = |work| Load { work, in_flight: 1, operations: 2_000, in_request: 1 };
    let how = format!("one after the other; {}", spinners.note());
    let mut rows = selects((SEQUENTIAL, ".value", &how), load("value"), stage, plan, progress)?;
    rows.extend(selects((SEQUENTIAL, ".item", &how), load("item"), stage, plan, progress)?);
    Ok(rows)
}

pub fn rows_100000(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let load = Load { work: "items_100000", in_flight: 1, operations: 4, in_request: 1 };
    let how =
        "selects of 100,000 rows; above the floor: their values, and the collection of garbage";
    selects((ROWS_100000, "", how), load, stage, plan, progress)
}

pub fn one_sync(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_node(ONE_SYNC, || {
        let operations = one_sync::PIPELINES * one_sync::SIZE;
        let load = Load { work: "group", in_flight: 1, operations, in_request: one_sync::SIZE };
        let how = "pipelines of 1,000, one after the other; above the floor: encoding, decoding \
                   and a reply for each select";
        let server = (stage.server.url(), stage.addr());
        load.beside(ONE_SYNC, "onetrip", &server, (plan, progress), how)
    })
}

pub fn redis_1000(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_node(REDIS_1000, || {
        with_server(REDIS_1000, |server| {
            let addr = SocketAddr::from(([127, 0, 0, 1], server.port()));
            let how = format!(
                "1,000 at a time; {}; above the floor: a promise, encoding and a reply for each",
                named(server)
            );
            let mut rows = Vec::new();
            for work in ["get", "set"] {
                let load = Load { work, in_flight: 1_000, operations: 40_000, in_request: 1 };
                let name = format!("{REDIS_1000}.{work}");
                let on = (server.url(), addr);
                rows.extend(load.beside(&name, "onetrip_redis", &on, (plan, progress), &how)?);
            }
            Ok(rows)
        })
    })
}

/// By each face, since each sends something else.
fn selects(
    (name, part, how): (&str, &str, &str),
    load: Load,
    stage: &Stage,
    plan: Plan,
    progress: &Progress,
) -> Result<Vec<Row>> {
    with_node(name, || {
        with_items(stage)?;
        let server = (stage.server.url(), stage.addr());
        let mut rows = Vec::new();
        for (driver, face) in FACES {
            let name = format!("{name}{part}{face}");
            rows.extend(load.beside(&name, driver, &server, (plan, progress), how)?);
        }
        Ok(rows)
    })
}

impl Load {
    fn beside(
        self,
        name: &str,
        driver: &'static str,
        (url, addr): &(String, SocketAddr),
        (plan, progress): (Plan, &Progress),
        how: &str,
    ) -> Result<Vec<Row>> {
        let load = Load { operations: self.operations / plan.shorter, ..self };
        let ours = load.task(driver, load.work);
        load.record(&ours, url, *addr)?;
        let floors = [EAGER, "floor_by_quarters"].map(|work| load.task("floor", work));
        let floor = match (plan.side, load.in_flight) {
            (Side::Ours, _) | (_, 1) => floors[0].clone(),
            _ => cheaper(floors, load.operations, url)?,
        };
        let tasks = match plan.side {
            Side::Both => vec![&ours, &floor],
            Side::Ours => vec![&ours],
            Side::Peer => vec![&floor],
        };
        let runs = in_turns(plan.rounds, Some(progress), load.operations, &tasks, url)?;
        // One that is measured alone stands beside itself.
        let (Some(ours), Some(peer)) = (runs.first(), runs.last()) else { return Ok(Vec::new()) };
        let pairs = Pairs { ours: ours.samples.clone(), peer: peer.samples.clone() };
        let step = match floor.work {
            EAGER => "one for each answer",
            _ => "a quarter when as many were answered",
        };
        let note = format!("{how}; floor: the bytes of ours, {step}; {}", setup::note());
        Ok(compared(name, &peer.version, &pairs, BARS, &note))
    }

    /// A round of ours, for the floors that start from now on.
    fn record(self, ours: &Task, url: &str, addr: SocketAddr) -> Result<()> {
        let recorder = Recorder::start(addr)?;
        let direct = format!("@{addr}/");
        let mut recorded =
            Process::start(ours, &url.replace(&direct, &format!("@{}/", recorder.addr())))?;
        // A statement is prepared when it was used some times: that must not be in what is sent again.
        recorded.round(self.operations)?;
        let before = recorder.cut()?;
        let checksum = recorded.round(self.operations)?.checksum;
        let protocol = if url.starts_with("redis") { Protocol::Redis } else { Protocol::Postgres };
        let count = Some((self.operations / self.in_request) as usize);
        let recording = Recording::of(protocol, (&before, recorder.cut()?), count, checksum);
        let recording = recording.with_context(|| format!("cannot record {}", ours.driver))?;
        write("bench-floor.json", &recording).map(drop)
    }

    fn task(self, driver: &'static str, work: &'static str) -> Task {
        Task {
            language: Language::Node,
            driver,
            work,
            in_flight: self.in_flight,
            connections: 1,
            pipeline: self.in_flight > 1,
            named: false,
            warmth: self.operations.div_ceil(2),
        }
    }
}
