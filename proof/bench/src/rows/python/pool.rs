//! Statements of many tasks over a pool, and of one where the server is a millisecond away.

use std::time::Duration;

use anyhow::{Context, Result};
use onetrip_lab::proxy::{Proxy, ProxyConfig};

use super::super::process::Task;
use super::super::turns::{Runner, beside};
use super::{beside_asyncpg, setup, task, with_python};
use crate::Plan;
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::stage::Stage;

pub const THOUSAND: &str = "python_pool_1000";
pub const AWAY: &str = "python_pool_1ms";

const RTT: Duration = Duration::from_millis(1);

pub fn thousand(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(THOUSAND, || {
        let operations = 10_000 / plan.shorter;
        let task = |driver| Task {
            in_flight: 1_000,
            connections: 8,
            ..task(driver, "statements", operations / 2)
        };
        let mut runners = beside_asyncpg(task, Bars { cpu: Some(0.3), time: None });
        let bars = Bars { cpu: Some(0.25), time: None };
        runners.push(Runner::peer("psycopg", task("psycopg"), bars));
        let note = format!(
            "eight different statements of 1,000 tasks over 8 connections; asyncpg: its pool, \
             which resets a connection behind each; psycopg: a pipeline of 125 on each \
             connection; {}",
            setup::note()
        );
        let name = (THOUSAND, operations);
        beside(plan, progress, name, &runners, &stage.server.url(), &note)
    })
}

pub fn away(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(AWAY, || {
        let config = ProxyConfig::new(stage.addr()).with_rtt(RTT);
        let proxy = Proxy::start(config).context("cannot start the proxy")?;
        let url = stage.url_through(proxy.addr());
        let task = |driver| Task { connections: 2, ..task(driver, "item", 20) };
        let runners = beside_asyncpg(task, Bars { cpu: None, time: Some(0.55) });
        let note = format!(
            "pool.fetchrow, one after the other, 1 ms of round trip, connections are reset; {}",
            setup::note()
        );
        beside(plan, progress, (AWAY, 100 / plan.shorter), &runners, &url, &note)
    })
}
