//! The shape of the house: which crate may depend on which, and what is published.

#![allow(clippy::unwrap_used)]

mod circles;
mod documents;
mod examples;
mod exports;
mod functions;
mod lines;
mod mutants;
mod published;
mod said;
mod source;

use std::path::{Path, PathBuf};

/// The folder of a crate, the crates of this workspace that it may depend on, and those of others:
/// `None` for any.
type Allowed = (&'static str, &'static [&'static str], Option<&'static [&'static str]>);

/// Everything in core/ and the ABI have a closed list, so that no clock, socket or runtime comes in
/// unseen.
const GRAPH: [Allowed; 16] = [
    ("core/engine", &[], Some(&["bytes"])),
    (
        "core/postgres",
        &["onetrip-engine"],
        Some(&["bytes", "base64ct", "hmac", "md-5", "sha2", "stringprep"]),
    ),
    ("core/redis", &["onetrip-engine"], Some(&["bytes"])),
    ("core/client", &["onetrip-engine", "onetrip-postgres", "onetrip-redis"], Some(&["bytes"])),
    ("faces/rust", &["onetrip-engine", "onetrip-postgres", "onetrip-redis"], None),
    (
        "faces/abi",
        &["onetrip-client", "onetrip-engine", "onetrip-postgres", "onetrip-redis"],
        Some(&["bytes"]),
    ),
    ("faces/arrow", &["onetrip-postgres"], Some(&[])),
    ("faces/c", &["onetrip-client", "onetrip-engine", "onetrip-postgres", "onetrip-redis"], None),
    ("proof/lab", &["onetrip-engine", "onetrip-postgres", "onetrip-redis"], None),
    (
        "tools/cli",
        &["onetrip", "onetrip-lab", "onetrip-measure", "onetrip-postgres", "onetrip-profile"],
        None,
    ),
    ("proof/chaos", &["onetrip", "onetrip-lab"], None),
    ("proof/counted", &["onetrip"], None),
    ("tools/measure", &["onetrip", "onetrip-lab"], None),
    ("tools/profile", &["onetrip-postgres", "onetrip-redis"], None),
    ("tools/transfer", &["onetrip", "onetrip-lab"], None),
    (
        "proof/fuzz-targets",
        &[
            "onetrip-abi",
            "onetrip-engine",
            "onetrip-postgres",
            "onetrip-redis",
            "onetrip",
            "onetrip-lab",
            "onetrip-profile",
        ],
        None,
    ),
];

#[test]
fn crates_depend_only_on_what_is_below_them() {
    for (name, inside, outside) in GRAPH {
        let dependencies = dependencies(&root().join(name).join("Cargo.toml"));
        assert!(!dependencies.is_empty(), "{name}: no dependencies were found");
        for dependency in dependencies {
            let allowed = match dependency.starts_with("onetrip") {
                true => inside.contains(&dependency.as_str()),
                false => outside.is_none_or(|outside| outside.contains(&dependency.as_str())),
            };
            assert!(allowed, "{name} may not depend on {dependency}");
        }
    }
}

#[test]
fn every_crate_of_the_workspace_stands_in_the_graph() {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = text.split("members = [").nth(1).unwrap().split(']').next().unwrap();
    let members = members.split('"').skip(1).step_by(2);
    let mut found: Vec<String> = members.map(str::to_owned).collect();
    let mut known: Vec<String> = GRAPH.iter().map(|(name, ..)| (*name).to_owned()).collect();
    found.sort();
    known.sort();
    assert_eq!(found, known);
}

/// A glossary that explains every word of the code would not be read.
#[test]
fn the_glossary_has_few_words_and_each_once() {
    let text = std::fs::read_to_string(root().join("GLOSSARY.md")).unwrap();
    let terms = text.lines().filter_map(|line| line.strip_prefix("| **")?.split("**").next());
    let mut terms: Vec<&str> = terms.collect();
    let len = terms.len();
    assert!((1..=60).contains(&len), "{len} words");
    terms.sort_unstable();
    terms.dedup();
    assert_eq!(terms.len(), len, "a word stands there twice");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names in the `[dependencies]` section of a manifest.
fn dependencies(manifest: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(manifest).unwrap();
    let section = text.split("\n[dependencies]\n").nth(1).unwrap();
    section
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .map(str::to_owned)
        .collect()
}
