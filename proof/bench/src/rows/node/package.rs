//! What the packages weigh, and how long a program waits for their import.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::setup::directory;
use super::{setup, with_node};
use crate::Plan;
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::stage::Stage;

pub const NAME: &str = "node_package";

/// The packages, and the most kB that each may take as npm downloads it (also in faces/node/test/package.test.ts).
const PACKED_MAX: [(&str, f64); 2] = [("onetrip", 365.0), ("onetrip-pg", 200.0)];

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
        let mut rows = sizes(&packages)?;
        rows.extend(imports(plan, progress, &packages)?);
        Ok(rows)
    })
}

/// Each alone; the note has what a program downloads in all that names it, or a peer.
fn sizes(packages: &Path) -> Result<Vec<Row>> {
    let modules = directory().join("node_modules");
    let [pg, postgres_js] = ["pg", "postgres"].map(|peer| downloaded(&modules.join(peer)));
    let (pg, postgres_js) = (pg?, postgres_js?);
    let rows = PACKED_MAX.iter().map(|(name, max)| {
        let package = packages.join(name);
        let (own, all) = (packed(&package)?, downloaded(&package)?);
        let name = format!("{NAME}.{}.packed", name.replace('-', "_"));
        let note = format!(
            "as npm downloads it; {all:.0} kB with what it depends on, where pg takes {pg:.0} kB and postgres.js \
             {postgres_js:.0} kB"
        );
        Ok(Row::alone(&name, "kB", Spread::of([own]), Some(*max)).note(&note))
    });
    rows.collect()
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

/// kB of a package and of all that it depends on, but for what is optional.
fn downloaded(package: &Path) -> Result<f64> {
    let mut all = vec![package.to_owned()];
    let mut size = 0.0;
    let mut at = 0;
    while let Some(package) = all.get(at) {
        size += packed(package)?;
        let file = package.join("package.json");
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let Manifest { dependencies } = serde_json::from_str(&text)?;
        for name in dependencies.into_keys() {
            let path = directory().join("node_modules").join(name);
            if !all.contains(&path) {
                all.push(path);
            }
        }
        at += 1;
    }
    Ok(size)
}

/// kB of what `npm pack` makes of a package.
fn packed(package: &Path) -> Result<f64> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--dry-run", "--json", "--ignore-scripts"]).current_dir(package);
    let said = setup::said(&mut npm).context("npm cannot pack")?;
    let packed: Vec<Packed> = serde_json::from_str(&said).context("cannot read what npm packed")?;
    Ok(packed.first().context("npm packed nothing")?.size / 1000.0)
}

#[derive(Deserialize)]
struct Packed {
    size: f64,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    dependencies: BTreeMap<String, String>,
}

fn import_ms(file: &Path) -> Result<f64> {
    let mut node = Command::new("node");
    node.arg(directory().join("import.mjs")).arg(file);
    setup::said(&mut node)?.parse().context("cannot read how long an import took")
}
