//! What quick statements wait where others of the same pool take long, in Node.

use anyhow::Result;

use super::process::{Node, Task};
use super::{setup, with_items, with_node};
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
                progress.tick(2 * number + at + 1, 4);
            }
        }
        Ok(rows)
    })
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
    let ours = [("onetrip_pg", "drop_in"), ("onetrip", "modern")];
    let mut sides = Vec::new();
    for (driver, name) in
        ours.into_iter().filter(|(_, name)| *name == "drop_in" || setup::has(name))
    {
        sides.push((name, "", task(driver, slow, connections)));
        sides.push((name, "alone", task(driver, alone, connections)));
    }
    if plan.side == Side::Both {
        sides.push(("pg", "", task("pg", slow, connections)));
    }
    let mut nodes = Vec::new();
    for (.., task) in &sides {
        nodes.push(Node::start(task, &url)?);
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
        for (_, name) in ours {
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
    Task { driver, work, in_flight: 1, connections, pipeline: true, named: false, warmth: 1 }
}
