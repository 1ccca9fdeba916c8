//! What the packages weigh, and how long a program waits for their import.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::process::directory;
use super::{setup, with_node};
use crate::Plan;
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::stage::Stage;

pub const NAME: &str = "node_package";

/// kB of all files.
const UNPACKED_MAX: f64 = 400.0;

const IMPORT_MS_MAX: f64 = 15.0;

/// What is imported: its name in rows, and the file of a package.
const IMPORTS: [(&str, &str); 3] = [
    ("onetrip", "onetrip/esm/index.mjs"),
    ("onetrip_pg_path", "onetrip/esm/pg.mjs"),
    ("onetrip_pg", "onetrip-pg/esm/index.mjs"),
];

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_node(NAME, || {
        let script = setup::package().join("scripts/packages");
        if !script.exists() {
            return Ok(vec![Row::skipped(NAME, "nothing makes packages of it yet")]);
        }
        setup::said(Command::new("node").arg(&script)).context("cannot make the packages")?;
        let packages = setup::package().join("build/packages");
        let mut rows = Vec::new();
        for name in ["onetrip", "onetrip-pg"] {
            let size = Spread::of([unpacked(&packages.join(name))? / 1000.0]);
            let name = format!("{NAME}.{}.unpacked", name.replace('-', "_"));
            let row = Row::alone(&name, "kB", size, Some(UNPACKED_MAX));
            rows.push(row.note("as npm packs it, without maps and without what it depends on"));
        }
        rows.extend(imports(plan, progress, &packages)?);
        Ok(rows)
    })
}

/// Each beside pg, in turns.
fn imports(plan: Plan, progress: &Progress, packages: &Path) -> Result<Vec<Row>> {
    let pg = directory().join("node_modules/pg/esm/index.mjs");
    let files: Vec<PathBuf> = IMPORTS.iter().map(|(_, file)| packages.join(file)).collect();
    let mut times = vec![Vec::new(); files.len()];
    let mut pgs = Vec::new();
    for round in 0..=plan.rounds {
        let took: Vec<f64> = files.iter().map(|file| import_ms(file)).collect::<Result<_>>()?;
        let of_pg = import_ms(&pg)?;
        progress.tick(round, plan.rounds);
        // The first reads the files from the disk.
        if round > 0 {
            pgs.push(of_pg);
            for (times, took) in times.iter_mut().zip(took) {
                times.push(took);
            }
        }
    }
    let rows = IMPORTS.iter().zip(&times).map(|((name, _), times)| {
        let name = format!("{NAME}.{name}.import");
        let ours = Spread::of(times.iter().copied());
        Row {
            bar: Some(IMPORT_MS_MAX),
            holds: Some(ours.median <= IMPORT_MS_MAX),
            ..beside(&name, "ms", "pg", (times, &pgs))
        }
        .note(&format!("in processes of their own; the bar is for ms; {}", setup::note()))
    });
    Ok(rows.collect())
}

/// Bytes of all files but the maps, which only debuggers read.
fn unpacked(package: &Path) -> Result<f64> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--dry-run", "--json", "--ignore-scripts"]).current_dir(package);
    let said = setup::said(&mut npm).context("npm cannot pack")?;
    let packed: Vec<Packed> = serde_json::from_str(&said).context("cannot read what npm packed")?;
    let files = &packed.first().context("npm packed nothing")?.files;
    Ok(files.iter().filter(|it| !it.path.ends_with(".map")).map(|it| it.size).sum())
}

#[derive(Deserialize)]
struct Packed {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    path: String,
    size: f64,
}

fn import_ms(file: &Path) -> Result<f64> {
    let mut node = Command::new("node");
    node.arg(directory().join("import.mjs")).arg(file);
    setup::said(&mut node)?.parse().context("cannot read how long an import took")
}
