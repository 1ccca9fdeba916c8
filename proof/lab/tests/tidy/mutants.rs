//! The defects that `make proof` brings back: each is still one that can be brought back.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::documents::tracked;
use crate::root;

/// Each patch applies, and each test that shall notice it exists. Otherwise nobody would hear of it
/// before the proof gets there, which has no time for all of them in one run.
#[test]
fn every_defect_that_is_brought_back_fits_the_code_and_has_its_tests() {
    let Some(tracked) = tracked() else { return };
    let functions = functions(&tracked);
    let mut wrong = Vec::new();
    for path in tracked.iter().filter(|path| path.starts_with("proof/mutants/")) {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        let tests: Vec<_> = text.lines().filter_map(|it| it.strip_prefix("Killed by: ")).collect();
        if !applies(path) {
            wrong.push(format!("{path} does not apply"));
        }
        if tests.is_empty() {
            wrong.push(format!("{path} names no test"));
        }
        let gone = tests.iter().filter(|test| !exists(test, &functions));
        wrong.extend(gone.map(|test| format!("{path}: there is no test for {test:?}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn applies(patch: &str) -> bool {
    let mut git = Command::new("git");
    git.arg("-C").arg(root()).args(["apply", "--check"]).arg(root().join(patch));
    git.output().unwrap().status.success()
}

/// Whether something bears the name of this command: for JavaScript its file; for Rust a function
/// whose name contains the last part of the filter, or else a whole module or crate is meant.
fn exists(command: &str, functions: &BTreeSet<String>) -> bool {
    let name = command.split(' ').next_back().unwrap();
    if let Some(file) = command.strip_prefix("js ") {
        return root().join("faces/node").join(file.replace(".js", ".ts")).exists();
    }
    let filter = name.rsplit("::").next().unwrap();
    let is_crate = command.ends_with(&format!("-p {name}"));
    is_crate || functions.iter().any(|it| it.contains(filter))
}

/// The names of all functions in Rust.
fn functions(tracked: &BTreeSet<String>) -> BTreeSet<String> {
    let is_rust = |path: &&String| Path::new(path).extension().is_some_and(|it| it == "rs");
    let texts =
        tracked.iter().filter(is_rust).map(|path| std::fs::read_to_string(root().join(path)));
    texts.flat_map(|text| names(&text.unwrap())).collect()
}

fn names(text: &str) -> Vec<String> {
    let after = text.split("fn ").skip(1);
    let is_name = |it: &char| it.is_alphanumeric() || *it == '_';
    after.map(|rest| rest.chars().take_while(is_name).collect()).collect()
}
