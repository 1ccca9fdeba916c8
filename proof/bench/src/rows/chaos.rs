//! A minute in which the line breaks and the server dies while a hundred tasks or two write: what the client says of
//! each row, held against what is there. See proof/chaos.

use std::time::Duration;

use anyhow::Result;
use onetrip_chaos::{Options, Report, Tally, postgres, redis};
use onetrip_lab::redis::Installation;

use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;
use crate::{Plan, Side};

const SECONDS: u64 = 60;

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    Ok(measured("chaos", postgres::run, plan, progress))
}

pub fn redis(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    on_redis("redis_chaos", redis::run, plan, progress)
}

pub fn redis_cluster(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    on_redis("redis_cluster", redis::run_cluster, plan, progress)
}

pub fn redis_crashes(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    on_redis("redis_crashes", redis::run_crashes, plan, progress)
}

type Run = fn(&Options) -> Report;

fn on_redis(group: &str, run: Run, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    match Installation::look()? {
        Some(_) => Ok(measured(group, run, plan, progress)),
        None => Ok(vec![Row::skipped(group, "there is no redis-server or valkey-server")]),
    }
}

fn measured(group: &str, run: Run, plan: Plan, progress: &Progress) -> Vec<Row> {
    if plan.side == Side::Peer {
        return Vec::new();
    }
    let options = Options::new(Duration::from_secs(SECONDS) / plan.shorter);
    progress.say(&format!("{group}, ONETRIP_SEED={}", options.seed));
    let report = run(&options);
    for finding in &report.findings {
        eprintln!("{group}: {finding}");
    }
    let Tally { acknowledged, unknown, not_sent, in_flight, .. } = report.tally;
    let faults: u64 = report.faults.values().sum();
    let row = |name: &str, unit, count: u64, bar: Option<f64>| {
        let figure = Spread::of([count as f64]);
        Row::alone(&format!("{group}.{name}"), unit, figure, bar).note(&report.to_string())
    };
    let mut rows = vec![
        row("wrong", "findings", report.findings.len() as u64, Some(0.0)),
        row("acknowledged", "rows", acknowledged, None).at_least(1.0),
        row("unknown", "rows", unknown, Some(in_flight as f64)),
        row("not_sent", "rows", not_sent, None).at_least(1.0),
        row("faults", "faults", faults, None),
    ];
    if let Some(pause) = report.pause_max {
        let Tally { copied, lost_by_server, .. } = report.tally;
        rows.push(row("copied", "rows", copied, None).at_least(1.0));
        rows.push(row("lost_by_server", "rows", lost_by_server, None));
        rows.push(row("pause_max", "ms", pause.as_millis() as u64, None));
    }
    rows
}
