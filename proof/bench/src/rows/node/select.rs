//! One select after the other, and selects of many rows.

use anyhow::Result;

use super::super::process::{Language, Task};
use super::super::turns::{Runner, beside};
use super::{setup, with_items, with_node};
use crate::Plan;
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::spinners::Spinners;
use crate::stage::Stage;

pub const SEQUENTIAL: &str = "node_sequential";
pub const ROWS_1000: &str = "node_rows_1000";
pub const ROWS_100000: &str = "node_rows_100000";

pub fn sequential(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let spinners = Spinners::start();
    let note = format!("one after the other; {}", spinners.note());
    let bars = Bars { cpu: Some(0.85), time: Some(1.0) };
    let mut rows = run(stage, plan, progress, (SEQUENTIAL, ".value", "value", 2_000), bars, &note)?;
    let name = (SEQUENTIAL, ".item", "item", 2_000);
    rows.extend(run(stage, plan, progress, name, bars, &note)?);
    Ok(rows)
}

pub fn rows_1000(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let bars = Bars { cpu: Some(0.55), time: Some(0.55) };
    let name = (ROWS_1000, "", "items_1000", 80);
    run(stage, plan, progress, name, bars, "selects of 1,000 rows, all columns read")
}

pub fn rows_100000(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let bars = Bars { cpu: Some(0.6), time: Some(0.6) };
    let name = (ROWS_100000, "", "items_100000", 4);
    run(stage, plan, progress, name, bars, "selects of 100,000 rows, all columns read")
}

fn run(
    stage: &Stage,
    plan: Plan,
    progress: &Progress,
    (name, part, work, operations): (&str, &str, &'static str, u32),
    bars: Bars,
    note: &str,
) -> Result<Vec<Row>> {
    with_node(name, || {
        with_items(stage)?;
        let operations = (operations / plan.shorter).max(1);
        let task = |driver| Task {
            language: Language::Node,
            driver,
            work,
            in_flight: 1,
            connections: 1,
            pipeline: false,
            named: driver == "pg" && work == "item",
            warmth: operations.div_ceil(2),
        };
        let mut runners = vec![Runner::ours("onetrip_pg", task("onetrip_pg"))];
        if setup::has("modern") {
            runners.push(Runner::aside("modern", task("onetrip")));
        }
        runners.push(Runner::peer("pg", task("pg"), bars));
        runners.push(Runner::peer("postgres_js", task("postgres_js"), bars));
        let note = format!("{note}; {}", setup::note());
        let name = format!("{name}{part}");
        beside(plan, progress, (&name, operations), &runners, &stage.server.url(), &note)
    })
}
