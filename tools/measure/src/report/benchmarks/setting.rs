//! Where the rows of a page were measured.

use std::collections::BTreeSet;

use super::markdown::{escaped, table};
use super::rows::Row;
use super::sittings::{Measured, Sitting};

pub(super) fn setting(measured: &Measured) -> String {
    let sittings = &measured.sittings;
    let all: Vec<Vec<(&str, String)>> = sittings.iter().map(Sitting::facts).collect();
    let is_common = |fact: &(&str, String)| all.iter().all(|facts| facts.contains(fact));
    let common = all.first().into_iter().flatten().filter(|fact| is_common(fact));
    let peers = escaped(&peers(&measured.rows).into_iter().collect::<Vec<_>>().join(", "));
    let cells = |(name, text): &(&str, String)| vec![(*name).to_owned(), escaped(text)];
    let facts: Vec<Vec<String>> =
        common.map(cells).chain([vec!["peers".to_owned(), peers]]).collect();
    let mut text =
        format!("\n## Where it was measured\n\n{}", table(&["what", "value"], facts.into_iter()));
    if all.iter().any(Vec::is_empty) {
        let which = if sittings.len() > 1 { " for a part of the rows" } else { "" };
        text += &format!("\nNothing was written down of the machine{which}.\n");
    }
    if sittings.len() > 1 {
        text += &format!("\nIt was measured in parts:\n\n{}", parts(sittings, &all));
    }
    text
}

/// A row for each sitting, with what is not the same in all of them.
fn parts(sittings: &[Sitting], all: &[Vec<(&str, String)>]) -> String {
    let value = |facts: &[(&str, String)], name: &str| {
        facts.iter().find(|it| it.0 == name).map(|it| it.1.clone()).unwrap_or_default()
    };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in all.iter().flatten() {
        let differs = all.windows(2).any(|it| value(&it[0], name) != value(&it[1], name));
        if differs && !names.contains(name) {
            names.push(name);
        }
    }
    let most = sittings.iter().filter_map(|it| it.rows.as_ref()).map(Vec::len).max();
    let cells = |(sitting, facts): (&Sitting, &Vec<(&str, String)>)| {
        let differing = names.iter().map(|name| escaped(&value(facts, name)));
        let is_most = sitting.rows.as_ref().map(Vec::len) == most;
        let rows = if is_most { "all others".to_owned() } else { groups(sitting) };
        differing.chain([rows]).collect()
    };
    let header: Vec<&str> = names.iter().copied().chain(["rows"]).collect();
    table(&header, sittings.iter().zip(all).map(cells))
}

/// What its rows begin with.
fn groups(sitting: &Sitting) -> String {
    let mut groups: Vec<String> = Vec::new();
    for row in sitting.rows.iter().flatten() {
        let group = format!("`{}`", row.split('.').next().unwrap_or(row));
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups.join(", ")
}

/// Those that have a version.
fn peers(rows: &[Row]) -> BTreeSet<String> {
    let versions = rows.iter().filter_map(|row| row.peer_version.clone());
    let is_version =
        |word: &str| word.starts_with(|it: char| it.is_ascii_digit()) && word.contains('.');
    versions.filter(|peer| peer.split_whitespace().skip(1).any(is_version)).collect()
}
