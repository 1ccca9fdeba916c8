//! BEGIN, a select and COMMIT by SQLAlchemy, where the server is a millisecond away.

use std::time::Duration;

use anyhow::{Context, Result};
use onetrip_lab::proxy::{Proxy, ProxyConfig};

use super::super::turns::{Runner, beside};
use super::{setup, task, with_python};
use crate::Plan;
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::stage::Stage;

pub const NAME: &str = "python_sqlalchemy_1ms";

const RTT: Duration = Duration::from_millis(1);

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(NAME, || {
        let config = ProxyConfig::new(stage.addr()).with_rtt(RTT);
        let proxy = Proxy::start(config).context("cannot start the proxy")?;
        let url = stage.url_through(proxy.addr());
        let task = |driver| task(driver, "transaction", 20);
        let bars = Bars { cpu: None, time: Some(0.72) };
        let runners = [
            Runner::ours("drop_in", task("sqlalchemy_onetrip")),
            Runner::peer("asyncpg", task("sqlalchemy_asyncpg"), bars),
        ];
        let note = format!("engine.begin() and a select, 1 ms of round trip; {}", setup::note());
        beside(plan, progress, (NAME, 50 / plan.shorter), &runners, &url, &note)
    })
}
