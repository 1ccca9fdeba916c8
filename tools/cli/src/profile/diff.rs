//! `onetrip profile diff`: what changed between two profiles.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use onetrip_profile::{Finding, Profile, VERSION};

use super::limit::{self, Limit, broken};
use super::summary::{cut, ms};
use crate::output::{End, print, tell, thousands};

/// Show what changed from one profile to another: trips and time by what units do, and findings
/// that came or went.
///
/// The exit status is 0 whatever changed, unless --fail-on says otherwise.
#[derive(Args, Debug)]
pub(super) struct DiffArgs {
    /// The profile.json of before, or its directory.
    before: PathBuf,

    /// The profile.json of after, or its directory.
    after: PathBuf,

    /// Exit with 3 if one of these holds for how much a figure grew, as in trips>0,n+1>0. The names
    /// are those of the command itself.
    #[arg(long, value_name = "LIMITS", value_delimiter = ',', value_parser = limit::limit)]
    fail_on: Vec<Limit>,
}

/// Compares.
///
/// # Errors
/// A profile can't be read, or standard output can't be written; [`limit::STATUS`] if a limit is
/// broken.
pub(super) fn run(args: &DiffArgs) -> Result<(), End> {
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    print(&compared(&before, &after))?;
    let broken = broken(&args.fail_on, |it| it.broken_by_change(&before, &after));
    broken.iter().for_each(|line| tell(&format!("onetrip: profile: {line}")));
    if broken.is_empty() { Ok(()) } else { Err(End::Status(limit::STATUS)) }
}

fn read(path: &Path) -> Result<Profile, String> {
    let path = if path.is_dir() { path.join("profile.json") } else { path.to_owned() };
    let shown = path.display();
    let bytes = std::fs::read(&path)
        .map_err(|error| format!("diff: can't read {shown} ({error}): give a profile.json"))?;
    let profile: Profile = serde_json::from_slice(&bytes).map_err(|error| {
        format!("diff: {shown} is no profile of onetrip {} ({error})", env!("CARGO_PKG_VERSION"))
    })?;
    if profile.version != VERSION {
        return Err(format!(
            "diff: {shown} is of version {} and this program reads version {VERSION}: profile anew",
            profile.version
        ));
    }
    Ok(profile)
}

/// Units that have one name, of one profile.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    units: u64,
    trips: f64,
    proven: f64,
    ms: f64,
}

impl Sum {
    fn mean(&self, of: f64) -> f64 {
        of / self.units.max(1) as f64
    }
}

/// By name, since the shape itself is what a change of a program changes.
fn sums(profile: &Profile) -> BTreeMap<&str, Sum> {
    let mut sums = BTreeMap::<&str, Sum>::new();
    for shape in &profile.shapes {
        let sum = sums.entry(&shape.name).or_default();
        sum.units += shape.count;
        sum.trips += shape.trips.now * shape.count as f64;
        sum.proven += shape.trips.proven * shape.count as f64;
        sum.ms += shape.time.network_ms + shape.time.server_ms + shape.time.program_ms;
    }
    sums
}

/// Rows that are shown.
const SHOWN: usize = 20;
/// Characters of a name that are shown.
const WIDTH: usize = 48;

fn compared(before: &Profile, after: &Profile) -> String {
    let mut lines = vec![
        changed("trips", before.trips.now, after.trips.now, thousands),
        changed("proven", before.trips.proven, after.trips.proven, thousands),
        changed("units", before.units as f64, after.units as f64, thousands),
        changed("unknown", before.unknown * 100.0, after.unknown * 100.0, |it| {
            format!("{it:.0} %")
        }),
        String::new(),
    ];
    lines.extend(shapes(before, after));
    let (old, new) = (&before.findings, &after.findings);
    for (word, findings, others) in [("new", new, old), ("gone", old, new)] {
        for finding in findings.iter().filter(|it| !others.iter().any(|other| is_same(it, other))) {
            lines.push(format!(
                "{word:<5} {}: {}; {} trips, {}",
                finding.kind,
                finding.title,
                thousands(finding.saves_trips),
                ms(finding.saves_ms)
            ));
            if let Some(statement) = finding.statements.last() {
                lines.push(format!("      {}", cut(statement, 72)));
            }
        }
    }
    if lines.last().is_some_and(String::is_empty) {
        lines.push("the same findings".to_owned());
    }
    lines.join("\n")
}

fn changed(name: &str, before: f64, after: f64, said: impl Fn(f64) -> String) -> String {
    format!("{name:<8} {} -> {}", said(before), said(after))
}

/// A row for each name whose trips of a unit or whose number of units changed, the most first.
fn shapes(before: &Profile, after: &Profile) -> Vec<String> {
    let (old, new) = (sums(before), sums(after));
    let names: BTreeMap<&str, (Sum, Sum)> = old
        .keys()
        .chain(new.keys())
        .map(|name| {
            let of = |sums: &BTreeMap<&str, Sum>| sums.get(name).copied().unwrap_or_default();
            (*name, (of(&old), of(&new)))
        })
        .collect();
    let mut rows: Vec<_> = names
        .into_iter()
        .filter(|(_, (a, b))| a.units != b.units || (a.trips - b.trips).abs() > 0.5)
        .collect();
    rows.sort_by_key(|(_, (a, b))| Reverse((b.trips - a.trips).abs() as u64));
    if rows.is_empty() {
        return vec!["the same trips".to_owned(), String::new()];
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["units of", "units", "trips of one", "proven", "ms of one"]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let more = rows.len().saturating_sub(SHOWN);
    for (name, (a, b)) in rows.into_iter().take(SHOWN) {
        let both = |of: fn(&Sum) -> f64| {
            let said = |sum: &Sum| match sum.units {
                0 => "-".to_owned(),
                _ => format!("{:.1}", sum.mean(of(sum))),
            };
            format!("{} -> {}", said(&a), said(&b))
        };
        table.add_row([
            cut(name, WIDTH),
            format!("{} -> {}", thousands(a.units as f64), thousands(b.units as f64)),
            both(|it| it.trips),
            both(|it| it.proven),
            both(|it| it.ms),
        ]);
    }
    let mut lines: Vec<String> = table.lines().map(|it| it.trim_end().to_owned()).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.push(String::new());
    lines
}

/// Findings are told apart by what they are about.
fn is_same(a: &Finding, b: &Finding) -> bool {
    a.kind == b.kind && a.statements == b.statements
}

#[cfg(test)]
mod tests {
    use onetrip_profile::{Shape, Trips};

    use super::*;

    fn profile(name: &str, trips: f64, findings: &[(&str, &str)]) -> Profile {
        let trips = Trips { now: trips, wire: trips, proven: 2.0, floor: 1.0 };
        let of_shape = |it: f64| it * 10.0;
        Profile {
            version: VERSION,
            units: 10,
            trips: Trips { now: of_shape(trips.now), proven: of_shape(2.0), ..trips },
            shapes: vec![Shape { name: name.to_owned(), count: 10, trips, ..Shape::default() }],
            findings: findings
                .iter()
                .map(|(kind, statement)| Finding {
                    kind: (*kind).to_owned(),
                    title: "a title".to_owned(),
                    statements: vec![(*statement).to_owned()],
                    ..Finding::default()
                })
                .collect(),
            ..Profile::default()
        }
    }

    #[test]
    fn trips_and_findings_that_changed_are_told() {
        let before = profile("select a", 12.0, &[("n+1", "select b"), ("parse", "select a")]);
        let after = profile("select a", 2.0, &[("parse", "select a"), ("idle", "select c")]);
        let said = compared(&before, &after);
        for line in
            ["trips    120 -> 20", "12.0 -> 2.0", "new   idle: a title", "gone  n+1: a title"]
        {
            assert!(said.contains(line), "{line}: {said}");
        }
        assert!(!said.contains("parse"), "{said}");
        let said = compared(&before, &before);
        assert!(said.contains("the same trips") && said.contains("the same findings"), "{said}");
    }
}
