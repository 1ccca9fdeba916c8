//! Each pitfall has a number, a row in docs/reference/pitfalls.md, and tests that bear the number.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The number of a pitfall, and a test that shows how it ends here.
type Shown = (u32, String);

/// All of them have to be there.
const NUMBERS: std::ops::RangeInclusive<u32> = 1..=52;

#[test]
fn every_pitfall_has_a_row_and_every_test_in_it_bears_its_number() {
    let (rows, marks) = (rows(), marks());
    for number in NUMBERS {
        assert!(
            rows.iter().any(|(row, _)| *row == number),
            "docs/reference/pitfalls.md has no P{number}"
        );
    }
    let missing: Vec<_> = rows.difference(&marks).collect();
    assert!(missing.is_empty(), "no test of that name is marked with that number: {missing:?}");
    let unnamed: Vec<_> = marks.difference(&rows).collect();
    assert!(unnamed.is_empty(), "docs/reference/pitfalls.md does not name {unnamed:?}");
}

/// What the table says: `| P12 | … | … | `a_test`, `another` |`.
fn rows() -> BTreeSet<Shown> {
    let text = std::fs::read_to_string(root().join("docs/reference/pitfalls.md")).unwrap();
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let number = cells.get(1)?.strip_prefix('P')?.parse::<u32>().ok()?;
        assert_eq!(cells.len(), 6, "P{number} has another number of columns");
        let tests = cells[4].split(", ").map(move |test| {
            let name = test.strip_prefix('`').and_then(|test| test.strip_suffix('`'));
            (number, name.unwrap_or_else(|| panic!("P{number}: {test:?} is no name")).to_owned())
        });
        Some(tests.collect::<Vec<_>>())
    });
    rows.flatten().collect()
}

/// Where crates stand; packages for Node and the benchmarks bring no such tests.
const CRATES: [&str; 7] =
    ["core", "faces/abi", "faces/c", "faces/rust", "tools", "proof/lab", "proof/chaos"];

/// What the tests say: `/// P12.`, as the first words of their doc comment.
fn marks() -> BTreeSet<Shown> {
    let mut marks = BTreeSet::new();
    for file in CRATES.iter().flat_map(|crates| sources(&root().join(crates))) {
        let (mut numbers, mut is_test) = (Vec::new(), false);
        for line in std::fs::read_to_string(&file).unwrap().lines().map(str::trim) {
            if let Some(comment) = line.strip_prefix("/// P") {
                numbers.extend(format!("P{comment}").split(' ').map_while(number));
            } else if line == "#[test]" || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some(name) =
                line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")
            {
                let name = name.split('(').next().unwrap();
                let marked = std::mem::take(&mut numbers).into_iter().filter(|_| is_test);
                marks.extend(marked.map(|number| (number, name.to_owned())));
                is_test = false;
            }
        }
    }
    marks
}

/// The number in `P12.`, `P12:` or `P12,`.
fn number(word: &str) -> Option<u32> {
    word.strip_prefix('P')?.strip_suffix(['.', ':', ','])?.parse().ok()
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
