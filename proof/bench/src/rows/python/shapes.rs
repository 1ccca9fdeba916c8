//! The seven shapes of MagicStack's benchmark of drivers, on 10 connections of one worker each.

use anyhow::Result;

use super::super::process::Task;
use super::super::turns::in_turns;
use super::{OURS, can, setup, task, with_python, with_tables};
use crate::measure::{Pairs, Spread};
use crate::progress::Progress;
use crate::report::{self, Row};
use crate::stage::Stage;
use crate::{Plan, Side};

pub const NAME: &str = "python_shapes";

/// The works, and operations of one round.
const SHAPES: [(&str, u32); 7] = [
    ("pg_type", 200),
    ("generate_series", 400),
    ("large_object", 1_000),
    ("arrays", 300),
    ("copyfrom", 10),
    ("batch", 20),
    ("oneplusone", 4_000),
];

/// Of the peer's rate: what all of them must reach in the geometric mean, and each.
const MEAN_MIN: f64 = 1.15;
const EACH_MIN: f64 = 0.95;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(NAME, || {
        if plan.side != Side::Both {
            return Ok(Vec::new());
        }
        with_tables(stage)?;
        let note = format!(
            "queries of MagicStack/pgbench, 10 connections of one worker each; {}",
            setup::note()
        );
        let mut rows = Vec::new();
        let mut ratios = vec![Vec::new(); OURS.len()];
        for (work, operations) in SHAPES {
            let operations = (operations / plan.shorter).max(10);
            let task = |driver| Task { connections: 10, ..task(driver, work, 10) };
            let ours = OURS.iter().enumerate().map(|(at, it)| (at, it.0, task(it.1)));
            let ours: Vec<_> = ours.filter(|it| can(&it.2)).collect();
            let peer = task("asyncpg");
            let tasks: Vec<&Task> = ours.iter().map(|it| &it.2).chain([&peer]).collect();
            let url = stage.server.url();
            let runs = in_turns(plan.rounds, Some(progress), operations, &tasks, &url)?;
            let Some((peer, runs)) = runs.split_last() else { continue };
            for ((at, short, _), run) in ours.iter().zip(runs) {
                let pairs = Pairs { ours: run.samples.clone(), peer: peer.samples.clone() };
                let name = format!("{NAME}.{work}.{short}");
                let row = report::rate(&name, &peer.version, &pairs).at_least(EACH_MIN);
                ratios[*at].extend(row.ratio);
                rows.push(row.note(&note));
            }
        }
        let means = OURS.iter().zip(ratios).map(|((short, _), ratios)| {
            let mean = ratios.iter().map(|it| it.ln()).sum::<f64>() / ratios.len() as f64;
            let name = format!("{NAME}.mean.{short}");
            let row = Row::alone(&name, "× asyncpg", Spread::of([mean.exp()]), None);
            row.at_least(MEAN_MIN).note(&note)
        });
        rows.extend(means);
        Ok(rows)
    })
}
