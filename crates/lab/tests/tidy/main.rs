//! The shape of the house: which crate may depend on which.

#![allow(clippy::unwrap_used)]

mod circles;
mod functions;
mod lines;
mod source;

use std::path::{Path, PathBuf};

/// A crate, the crates of this workspace that it may depend on, and those of others: `None` for any.
type Allowed = (&'static str, &'static [&'static str], Option<&'static [&'static str]>);

/// Everything below `client` has a closed list, so that no clock, socket or runtime comes in unseen.
const GRAPH: [Allowed; 10] = [
    ("engine", &[], Some(&["bytes"])),
    (
        "postgres",
        &["onetrip-engine"],
        Some(&["bytes", "base64ct", "hmac", "md-5", "sha2", "stringprep"]),
    ),
    ("redis", &["onetrip-engine"], Some(&["bytes"])),
    ("client", &["onetrip-engine", "onetrip-postgres", "onetrip-redis"], None),
    ("abi", &["onetrip-engine", "onetrip-postgres", "onetrip-redis"], Some(&["bytes"])),
    ("lab", &["onetrip-engine", "onetrip-postgres", "onetrip-redis"], None),
    ("cli", &["onetrip", "onetrip-lab", "onetrip-measure"], None),
    ("chaos", &["onetrip", "onetrip-lab"], None),
    ("measure", &["onetrip", "onetrip-lab"], None),
    (
        "fuzz-targets",
        &[
            "onetrip-abi",
            "onetrip-engine",
            "onetrip-postgres",
            "onetrip-redis",
            "onetrip",
            "onetrip-lab",
        ],
        None,
    ),
];

#[test]
fn crates_depend_only_on_what_is_below_them() {
    for (name, inside, outside) in GRAPH {
        let dependencies = dependencies(&root().join("crates").join(name).join("Cargo.toml"));
        assert!(!dependencies.is_empty(), "{name}: no dependencies were found");
        for dependency in dependencies {
            let allowed = match dependency.starts_with("onetrip") {
                true => inside.contains(&dependency.as_str()),
                false => outside.is_none_or(|outside| outside.contains(&dependency.as_str())),
            };
            assert!(allowed, "crates/{name} may not depend on {dependency}");
        }
    }
}

#[test]
fn every_crate_of_the_workspace_stands_in_the_graph() {
    let mut found: Vec<String> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut known: Vec<String> = GRAPH.iter().map(|(name, ..)| (*name).to_owned()).collect();
    found.sort();
    known.sort();
    assert_eq!(found, known);
}

/// A glossary that explains every word of the code is one that nobody reads.
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
