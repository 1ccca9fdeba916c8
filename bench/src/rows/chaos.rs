//! A minute in which the line breaks and the server dies while 200 tasks write: what the client says of
//! each row, held against the table. See crates/chaos.

use std::time::Duration;

use anyhow::Result;
use onetrip_chaos::{Options, Tally, run as run_chaos};

use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;
use crate::{Plan, Side};

const SECONDS: u64 = 60;

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    let options = Options::new(Duration::from_secs(SECONDS) / plan.shorter);
    progress.say(&format!("chaos, ONETRIP_SEED={}", options.seed));
    let report = run_chaos(&options);
    for finding in &report.findings {
        eprintln!("chaos: {finding}");
    }
    let Tally { acknowledged, unknown, not_sent, in_flight, .. } = report.tally;
    let faults: u64 = report.faults.values().sum();
    let row = |name: &str, unit, count: u64, bar: Option<f64>| {
        let figure = Spread::of([count as f64]);
        Row::alone(&format!("chaos.{name}"), unit, figure, bar).note(&report.to_string())
    };
    Ok(vec![
        row("wrong", "findings", report.findings.len() as u64, Some(0.0)),
        row("acknowledged", "rows", acknowledged, None).at_least(1.0),
        row("unknown", "rows", unknown, Some(in_flight as f64)),
        row("not_sent", "rows", not_sent, None).at_least(1.0),
        row("faults", "faults", faults, None),
    ])
}
