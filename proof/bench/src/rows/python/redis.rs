//! GET of 64 bytes by 100 tasks, beside the clients of Redis for Python.

use anyhow::Result;

use super::super::process::Task;
use super::super::redis::{named, with_server};
use super::super::turns::{Runner, beside};
use super::{setup, task, with_python};
use crate::Plan;
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::stage::Stage;

pub const NAME: &str = "python_redis_get_100";

/// Commands of one round.
const ROUND: u32 = 10_000;

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(NAME, || {
        with_server(NAME, |server| {
            let operations = ROUND / plan.shorter;
            let task = |driver| Task { in_flight: 100, ..task(driver, "get", operations / 2) };
            // So many times the peer's rate.
            let rate = |times: f64| Bars { cpu: None, time: Some(1.0 / times) };
            let runners = [
                Runner::ours("native", task("onetrip_redis")),
                Runner::ours("drop_in", task("onetrip_redis_asyncio")),
                Runner::peer("redis_py", task("redis"), rate(3.0)),
                Runner::peer("coredis", task("coredis"), rate(1.5)),
                Runner::peer("glide", task("glide"), rate(2.0)),
            ];
            let note = format!("100 tasks; {}; {}", named(server), setup::note());
            beside(plan, progress, (NAME, operations), &runners, &server.url(), &note)
        })
    })
}
