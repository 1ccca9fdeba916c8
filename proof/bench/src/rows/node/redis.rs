//! GET of 64 bytes by 1,000 callers on one connection, beside the two clients of Redis for Node.

use anyhow::Result;

use super::super::process::{Language, Task};
use super::super::redis::{named, with_server};
use super::super::turns::{Runner, beside};
use super::{setup, with_node};
use crate::Plan;
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::stage::Stage;

pub const NAME: &str = "node_redis_get_1000";

/// Commands of one round.
const ROUND: u32 = 40_000;

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_node(NAME, || {
        if !setup::has("redis") {
            return Ok(vec![Row::skipped(NAME, "the package has no Redis yet")]);
        }
        with_server(NAME, |server| {
            let operations = ROUND / plan.shorter;
            let task = |driver| Task {
                language: Language::Node,
                driver,
                work: "get",
                in_flight: 1_000,
                connections: 1,
                pipeline: true,
                named: false,
                warmth: operations / 2,
            };
            let bars = |bar| Bars { cpu: Some(bar), time: Some(bar) };
            let runners = [
                Runner::ours("redis", task("onetrip_redis")),
                Runner::peer("ioredis", task("ioredis"), bars(0.4)),
                Runner::peer("node_redis", task("node_redis"), bars(0.15)),
            ];
            let note = format!(
                "1,000 at a time; {}; ioredis: enableAutoPipelining; {}",
                named(server),
                setup::note()
            );
            beside(plan, progress, (NAME, operations), &runners, &server.url(), &note)
        })
    })
}
