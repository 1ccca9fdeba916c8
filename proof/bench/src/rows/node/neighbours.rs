//! What quick statements wait where others of the same pool take long, in Node.

use anyhow::Result;

use super::super::process::{Language, Process, Task};
use super::{setup, with_items, with_node};
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::stage::Stage;
use crate::{Plan, Side};

pub const NAME: &str = "node_neighbours";

/// Each takes three seconds for each client.
const ROUNDS_MAX: usize = 8;

/// Connections of the pools.
const SIZES: [u32; 2] = [10, 3];

/// With slow ones, without them, and what the first may be in terms of the second.
const LOADS: [(&str, &str, &str, f64); 2] = [
    ("mixed", "neighbours_mixed", "neighbours_mixed_alone", 1.5),
    ("texts", "neighbours_texts", "neighbours_texts_alone", 2.0),
];

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_node(NAME, || {
        with_items(stage)?;
        let mut rows = Vec::new();
        for (number, connections) in SIZES.into_iter().enumerate() {
            for (at, load) in LOADS.into_iter().enumerate() {
                rows.extend(mixture(stage, plan, connections, load)?);
                progress.tick(4 * number + at + 1, 8);
            }
            rows.extend(one_tick(stage, plan, connections)?);
            progress.tick(4 * number + 3, 8);
            rows.extend(busy_but_one(stage, plan, connections)?);
            progress.tick(4 * number + 4, 8);
        }
        Ok(rows)
    })
}

/// Our clients, and what a row calls them.
const OURS: [(&str, &str); 2] = [("onetrip_pg", "drop_in"), ("onetrip", "modern")];

fn ours() -> impl Iterator<Item = (&'static str, &'static str)> {
    OURS.into_iter().filter(|(_, name)| *name == "drop_in" || setup::has(name))
}

/// The longest of ten quick ones behind a slow one of the same tick, in what it may take.
fn one_tick(stage: &Stage, plan: Plan, connections: u32) -> Result<Vec<Row>> {
    let url = stage.server.url();
    let mut rows = Vec::new();
    for (driver, name) in ours() {
        let task = Task { warmth: 0, ..task(driver, "neighbours_one_tick", connections) };
        let mut node = Process::start(&task, &url)?;
        let mut found: [Vec<f64>; 3] = Default::default();
        for _ in 0..plan.rounds.min(ROUNDS_MAX) {
            for (kept, figure) in found.iter_mut().zip(node.figures()?) {
                kept.push(figure);
            }
        }
        let [multiples, longest, bounds] = found.map(Spread::of);
        let note = format!(
            "the longest of ten quick queries issued right behind one of 1.5 s, in two round trips and \
             the time to open a pool with its first connection: {:.2} of {:.2} ms",
            longest.median, bounds.median
        );
        let row_name = format!("{NAME}.one_tick_{connections}.{name}");
        rows.push(Row::alone(&row_name, "× bound", multiples, Some(1.0)).note(&note));
    }
    Ok(rows)
}

/// The rate of quick ones beside slow ones on all connections but one, and that of one connection.
fn busy_but_one(stage: &Stage, plan: Plan, connections: u32) -> Result<Vec<Row>> {
    let url = stage.server.url();
    let mut rows = Vec::new();
    for (driver, name) in ours() {
        let mut pool = Process::start(&task(driver, "neighbours_busy", connections), &url)?;
        let mut one = Process::start(&task(driver, "neighbours_busy_alone", 1), &url)?;
        let (mut beside_slow, mut alone) = (Vec::new(), Vec::new());
        for _ in 0..plan.rounds.min(ROUNDS_MAX) {
            beside_slow.extend(pool.figures()?);
            alone.extend(one.figures()?);
        }
        let row_name = format!("{NAME}.busy_but_one_{connections}.{name}");
        let row = beside(&row_name, "1/s", "one connection", (&beside_slow, &alone)).at_least(0.8);
        let note = format!(
            "queries of 20 loops while {} of {connections} connections run slow ones",
            connections - 1
        );
        rows.push(row.note(&note));
    }
    Ok(rows)
}

/// The percentiles of each client, round by round.
type Waits = [Vec<f64>; 2];

fn mixture(
    stage: &Stage,
    plan: Plan,
    connections: u32,
    (load, slow, alone, bar): (&str, &'static str, &'static str, f64),
) -> Result<Vec<Row>> {
    let url = stage.server.url();
    let mut sides = Vec::new();
    for (driver, name) in ours() {
        sides.push((name, "", task(driver, slow, connections)));
        sides.push((name, "alone", task(driver, alone, connections)));
    }
    if plan.side == Side::Both {
        sides.push(("pg", "", task("pg", slow, connections)));
    }
    let mut nodes = Vec::new();
    for (.., task) in &sides {
        nodes.push(Process::start(task, &url)?);
    }
    let mut waits: Vec<Waits> = sides.iter().map(|_| Waits::default()).collect();
    for round in 0..plan.rounds.min(ROUNDS_MAX) {
        for turn in 0..sides.len() {
            let who = (turn + round) % sides.len();
            let figures = nodes[who].figures()?;
            for (kept, figure) in waits[who].iter_mut().zip(figures) {
                kept.push(figure);
            }
        }
    }
    let of = |name: &str, which: &str| sides.iter().position(|it| it.0 == name && it.1 == which);
    let mut rows = Vec::new();
    let note = format!(
        "waits of the quick queries of 200 loops on {connections} connections, {} in a second, 1 % of \
         which take 0.5 s; {}",
        80 * connections,
        setup::note()
    );
    for (at, percentile) in ["p99", "p999"].into_iter().enumerate() {
        for (_, name) in OURS {
            let (Some(mixed), Some(without)) = (of(name, ""), of(name, "alone")) else { continue };
            let row_name = format!("{NAME}.{load}_{connections}.{name}.{percentile}");
            let figures = (&waits[mixed][at][..], &waits[without][at][..]);
            let mut row = beside(&row_name, "ms", "without slow ones", figures);
            let is_barred = load == "mixed" || percentile == "p99";
            held(&mut row, is_barred.then_some(bar));
            rows.push(row.note(&note));
            if let Some(pg) = of("pg", "") {
                let figures = (&waits[mixed][at][..], &waits[pg][at][..]);
                let mut row = beside(&format!("{row_name}.pg"), "ms", &nodes[pg].version, figures);
                held(&mut row, (load == "mixed").then_some(1.0));
                rows.push(row.note(&note));
            }
        }
    }
    Ok(rows)
}

fn held(row: &mut Row, bar: Option<f64>) {
    row.bar = bar;
    row.holds = bar.zip(row.ratio).map(|(bar, ratio)| ratio <= bar);
}

fn task(driver: &'static str, work: &'static str, connections: u32) -> Task {
    // The rounds warm it up: one is run before the first that counts.
    Task {
        language: Language::Node,
        driver,
        work,
        in_flight: 1,
        connections,
        pipeline: true,
        named: false,
        warmth: 1,
    }
}
