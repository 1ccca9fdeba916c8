//! GETs of 10,000 hot keys, one after the other: with client-side caching beside without, and
//! beside the cache of node-redis.

use anyhow::Result;

use super::super::process::{Language, Task};
use super::super::redis::cached::{BARS, KEYS, filled};
use super::super::redis::{named, with_server};
use super::super::turns::{Runner, beside};
use super::{setup, with_node};
use crate::Plan;
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::stage::{Stage, one_thread};

pub const NAME: &str = "node_redis_cached";

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_node(NAME, || {
        with_server(NAME, |server| {
            one_thread()?.block_on(filled(&server.url()))?;
            let keys = KEYS as u32;
            let task = |driver| Task {
                language: Language::Node,
                driver,
                work: "get_hot",
                in_flight: 1,
                connections: 1,
                pipeline: true,
                named: false,
                // All keys are read before the first round.
                warmth: keys,
            };
            let runners = [
                Runner::ours("redis", task("onetrip_redis_cached")),
                Runner::peer("uncached", task("onetrip_redis"), BARS),
                Runner::peer("node_redis", task("node_redis_cached"), Bars::default()),
            ];
            let note = format!("one after the other; {}; {}", named(server), setup::note());
            let operations = 2 * keys / plan.shorter;
            beside(plan, progress, (NAME, operations), &runners, &server.url(), &note)
        })
    })
}
