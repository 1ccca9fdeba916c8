//! What a request costs in the engine at depths of 10 and 10,000: the engine's own example measures
//! it, without a server.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;
use crate::{Plan, Side};

const NAME: &str = "engine_depth";
const RATIO_MAX: f64 = 1.3;

/// The last line that the example prints.
#[derive(Debug, Deserialize)]
struct Depth {
    depth_10_ns: f64,
    depth_10000_ns: f64,
    ratio: f64,
}

pub fn run(_: &Stage, plan: Plan, _: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    let depth = match measure() {
        Ok(depth) => depth,
        Err(error) => return Ok(vec![Row::skipped(NAME, &format!("{error:#}"))]),
    };
    let row = Row::alone(NAME, "ns/op", Spread::of([depth.depth_10000_ns]), None);
    Ok(vec![Row {
        peer: Some(depth.depth_10_ns),
        peer_version: Some("the same at a depth of 10".to_owned()),
        ratio: Some(depth.ratio),
        spread: None,
        bar: Some(RATIO_MAX),
        holds: Some(depth.ratio <= RATIO_MAX),
        ..row
    }])
}

fn measure() -> Result<Depth> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--release", "-p", "onetrip-engine", "--example", "depth"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .context("cannot run cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{}", said.lines().next().unwrap_or("it failed"));
    let text = String::from_utf8(output.stdout).context("the example does not print text")?;
    let line = text.lines().last().context("the example prints nothing")?;
    serde_json::from_str(line).context("the example's last line is not the JSON expected")
}
