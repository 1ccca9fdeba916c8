//! What the package weighs, and how long a program waits for its import.

use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::process::directory;
use super::{setup, with_node};
use crate::Plan;
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;

pub const NAME: &str = "node_package";

/// kB of all files.
const UNPACKED_MAX: f64 = 400.0;

const IMPORT_MS_MAX: f64 = 15.0;

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_node(NAME, || {
        let kilobytes = unpacked()? / 1000.0;
        let unpacked = Row::alone(
            &format!("{NAME}.unpacked"),
            "kB",
            Spread::of([kilobytes]),
            Some(UNPACKED_MAX),
        );
        let mut rows = vec![unpacked.note("as npm packs it, without what it depends on")];
        for (name, module) in [("import", "lib/index.js"), ("import_pg", "lib/pg/index.js")] {
            let mut times = Vec::new();
            for round in 0..=plan.rounds {
                let ms = import_ms(module)?;
                progress.tick(round, plan.rounds);
                if round > 0 {
                    times.push(ms);
                }
            }
            let row =
                Row::alone(&format!("{NAME}.{name}"), "ms", Spread::of(times), Some(IMPORT_MS_MAX));
            let note = format!("in processes of their own; {}", setup::note());
            rows.push(row.note(&note));
        }
        Ok(rows)
    })
}

/// Bytes of all files.
fn unpacked() -> Result<f64> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--dry-run", "--json", "--ignore-scripts"]).current_dir(setup::package());
    let said = setup::said(&mut npm).context("npm cannot pack")?;
    let packed: Vec<Packed> = serde_json::from_str(&said).context("cannot read what npm packed")?;
    Ok(packed.first().context("npm packed nothing")?.unpacked_size)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Packed {
    unpacked_size: f64,
}

fn import_ms(module: &str) -> Result<f64> {
    let mut node = Command::new("node");
    node.arg(directory().join("import.mjs")).arg(setup::package().join(module));
    setup::said(&mut node)?.parse().context("cannot read how long an import took")
}
