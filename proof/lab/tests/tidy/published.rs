//! What is published says what it is, and everybody may use it: its licence, and those of what it
//! depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;
use spdx::{Expression, LicenseItem, LicenseReq, ParseMode};

use crate::root;

/// The crates, by the order in which they are published.
const CRATES: [&str; 8] = [
    "onetrip-engine",
    "onetrip-postgres",
    "onetrip-redis",
    "onetrip-lab",
    "onetrip",
    "onetrip-measure",
    "onetrip-profile",
    "onetrip-cli",
];

/// Each lets a program be passed on under any licence, where it goes along.
const ALLOWED: [&str; 10] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// What cargo says of the workspace, with everything optional.
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--all-features", "--format-version", "1"]);
    let output = cargo.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
});

#[test]
fn crates_are_published_on_purpose() {
    let found: BTreeSet<&str> = published().map(|it| text(it, "name")).collect();
    assert_eq!(found, BTreeSet::from(CRATES));
}

#[test]
fn every_published_crate_says_what_it_is() {
    for package in published() {
        let name = text(package, "name");
        for key in ["description", "license", "repository", "rust_version", "readme"] {
            assert!(!text(package, key).is_empty(), "{name} has no {key}");
        }
        for (key, most) in [("keywords", 5), ("categories", 5)] {
            let count = items(package, key).len();
            assert!((1..=most).contains(&count), "{name} has {count} {key}");
        }
        assert!(package.pointer("/metadata/docs/rs").is_some(), "{name} has nothing for docs.rs");
    }
}

#[test]
fn every_published_crate_carries_the_licence() {
    let ours = std::fs::read_to_string(root().join("LICENSE")).unwrap();
    for package in published() {
        let folder = std::path::Path::new(text(package, "manifest_path")).parent().unwrap();
        let theirs = std::fs::read_to_string(folder.join("LICENSE")).unwrap_or_default();
        assert!(theirs == ours, "{}/LICENSE is no link to ours", folder.display());
    }
}

#[test]
fn what_published_crates_depend_on_has_an_allowed_licence() {
    let packages: BTreeMap<&str, &Value> =
        items(&METADATA, "packages").iter().map(|it| (text(it, "id"), it)).collect();
    let nodes: BTreeMap<&str, &Value> =
        items(&METADATA["resolve"], "nodes").iter().map(|it| (text(it, "id"), it)).collect();
    let mut waiting: Vec<&str> = published().map(|it| text(it, "id")).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if seen.insert(id) {
            check(text(packages[id], "name"), text(packages[id], "license"));
            waiting.extend(
                items(nodes[id], "deps")
                    .iter()
                    .filter(|it| is_shipped(it))
                    .map(|it| text(it, "pkg")),
            );
        }
    }
    assert!(seen.len() > CRATES.len(), "no dependencies were found");
}

#[test]
fn what_the_packages_for_node_depend_on_has_an_allowed_licence() {
    let lock = std::fs::read(root().join("faces/node/package-lock.json")).unwrap();
    let lock: Value = serde_json::from_slice(&lock).unwrap();
    let packages = lock["packages"].as_object().unwrap();
    let shipped: Vec<_> = packages.iter().filter(|(_, it)| it["dev"] != true).collect();
    assert!(shipped.len() > 1, "no dependencies were found");
    for (name, package) in shipped {
        check(name, text(package, "license"));
    }
}

/// A dependency that is no part of tests alone.
fn is_shipped(dependency: &Value) -> bool {
    items(dependency, "dep_kinds").iter().any(|it| it["kind"] != "dev")
}

fn check(name: &str, licence: &str) {
    let expression = Expression::parse_mode(licence, ParseMode::LAX);
    let expression =
        expression.unwrap_or_else(|error| panic!("{name} has the licence {licence:?}: {error}"));
    assert!(expression.evaluate(is_allowed), "{name} has the licence {licence}");
}

fn is_allowed(requirement: &LicenseReq) -> bool {
    let LicenseItem::Spdx { id, .. } = &requirement.license else { return false };
    requirement.addition.is_none() && ALLOWED.contains(&id.name)
}

fn published() -> impl Iterator<Item = &'static Value> {
    let ours = |it: &&Value| it["source"].is_null() && it["publish"].is_null();
    items(&METADATA, "packages").iter().filter(ours)
}

/// Nothing where there is no such key.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}
