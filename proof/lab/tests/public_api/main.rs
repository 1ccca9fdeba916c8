//! Compares the public items of the crate `onetrip` with the list in
//! docs/reference/public-api/crate-onetrip.txt, so that every change of them is deliberate and
//! visible.
//!
//! `ONETRIP_WRITE=1 cargo test -p onetrip-lab --test public_api` writes the list anew. Rustdoc's
//! JSON changes with the compiler, so the list is compared only under the compiler that it was
//! written with.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use public_api::PublicApi;

/// The items of lower crates that this crate exports under its own name, by their names there.
const BELOW: [(&str, &[&str]); 3] = [
    ("onetrip-engine", &["IdleOrder", "Outcome"]),
    (
        "onetrip-postgres",
        &[
            "Isolation",
            "LoadBalanceHosts",
            "PipelineStatus",
            "Position",
            "PositionError",
            "Reads",
            "ServerError",
            "SslMode",
            "SslNegotiation",
            "TargetSessionAttrs",
            "TransactionStatus",
        ],
    ),
    (
        "onetrip-redis",
        &[
            "Attributes",
            "Command",
            "ErrorReply",
            "ErrorValue",
            "Items",
            "Kind",
            "Malformed",
            "Pairs",
            "Reads",
            "Reply",
            "ToArg",
            "Value",
        ],
    ),
];

#[test]
fn the_public_interface_is_the_one_that_is_listed() {
    let file = root().join("docs/reference/public-api/crate-onetrip.txt");
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    let compiler = compiler();
    let is_writing = std::env::var_os("ONETRIP_WRITE").is_some();
    let written_by = committed.lines().next().unwrap_or_default().trim_start_matches("# ");
    if !is_writing && written_by != compiler {
        return println!("skipped: this is {compiler}, and the list is from {written_by}");
    }
    let list = format!("# {compiler}\n{HEAD}\n{}\n", lines().join("\n"));
    if is_writing {
        std::fs::write(&file, list).unwrap();
        return;
    }
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<String>>();
    let (known, found) = (lines(&committed), lines(&list));
    let gone = known.difference(&found).map(|line| format!("- {line}"));
    let new = found.difference(&known).map(|line| format!("+ {line}"));
    let changes: Vec<String> = gone.chain(new).collect();
    assert!(
        changes.is_empty(),
        "if this is deliberate, write the list anew:\n{}",
        changes.join("\n")
    );
}

const HEAD: &str = "#
# What a program can name of the crate onetrip, with all features, and of the types that it exports
# from the crates below it. Derived and automatic traits are left out. Do not edit:
# `ONETRIP_WRITE=1 cargo test -p onetrip-lab --test public_api` writes it.
";

/// All items, those of the crates below it last.
fn lines() -> Vec<String> {
    let mut lines = items("onetrip");
    let exported = lines.iter().filter_map(|line| line.strip_prefix("pub use onetrip::"));
    // Those of postgres-types are listed by name alone.
    let count = exported.filter(|it| !it.starts_with("types::")).count();
    let known: usize = BELOW.iter().map(|(_, names)| names.len()).sum();
    assert_eq!(count, known, "is one missing in BELOW?");
    for (name, exported) in BELOW {
        let is_exported = |line: &String| owner(line).is_some_and(|it| exported.contains(&it));
        lines.extend(items(name).into_iter().filter(is_exported));
    }
    lines
}

/// The type that an item of a crate below is, or is a part of: the first name in its path that is
/// one of a type.
fn owner(line: &str) -> Option<&str> {
    let path = line.split(|it: char| !(it.is_alphanumeric() || "_:".contains(it)));
    let path = path.into_iter().find(|it| it.starts_with("onetrip_"))?;
    path.split("::").find(|it| it.starts_with(char::is_uppercase))
}

/// What rustdoc finds in a crate of the workspace.
fn items(name: &str) -> Vec<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustdoc", "--quiet", "--locked", "--lib", "--all-features", "-p", name]);
    cargo.args(["--", "-Z", "unstable-options", "--output-format", "json"]);
    // A target directory for rustdoc alone: this variable would make other builds compile
    // everything anew.
    let rustdoc = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/public_api/rustdoc");
    let output = cargo.env("RUSTDOC", rustdoc).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = target().join(format!("doc/{}.json", name.replace('-', "_")));
    let api: PublicApi = public_api::Builder::from_rustdoc_json(file)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .unwrap();
    api.items().map(|item| short(&item.to_string())).collect()
}

/// Removes the internal path of a standard library name, which does not matter to users.
fn short(line: &str) -> String {
    let is_path = |it: char| it.is_alphanumeric() || it == '_' || it == ':';
    let mut shorter = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(begin) = rest.find(is_path) {
        let end = rest[begin..].find(|it| !is_path(it)).map_or(rest.len(), |len| begin + len);
        let path = &rest[begin..end];
        let is_std = ["core::", "alloc::", "std::"].iter().any(|it| path.starts_with(it));
        let name = path.find(char::is_uppercase).filter(|_| is_std).unwrap_or(0);
        shorter.push_str(&rest[..begin]);
        shorter.push_str(&path[name..]);
        rest = &rest[end..];
    }
    shorter + rest
}

fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Where this test was built, which is below the one of its profile.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(3).unwrap().to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
