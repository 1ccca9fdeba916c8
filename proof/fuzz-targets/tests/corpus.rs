//! Every target over its corpus and over seeded changes of it.
//!
//! `ONETRIP_SEED=n` repeats the changes of one seed; `ONETRIP_RUNS=n` sets the number of changed
//! inputs for each target.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use onetrip_fuzz_targets::{Mutator, TARGETS, Target};

/// How many changed inputs a target gets. The targets named here take milliseconds for each input,
/// the others less than one.
fn runs(target: &Target) -> u64 {
    match target.name {
        "pool" | "values" => 200,
        "session" => 600,
        _ => 1500,
    }
}

#[test]
fn the_corpus_breaks_no_promise() {
    for target in TARGETS {
        for (path, data) in corpus(target) {
            check(target, &data, &path.display().to_string());
        }
    }
}

#[test]
fn changed_inputs_break_no_promise() {
    let seed = number("ONETRIP_SEED").unwrap_or_else(clock);
    let asked = number("ONETRIP_RUNS");
    // Written to stderr directly: the test harness keeps printed text until a test ends, and an
    // allocation that is too large ends the process before that.
    writeln!(std::io::stderr(), "ONETRIP_SEED={seed} repeats the changed inputs").unwrap();
    for target in TARGETS {
        let inputs: Vec<Vec<u8>> = corpus(target).into_iter().map(|(_, data)| data).collect();
        let mut mutator = Mutator::new(seed);
        for run in 0..asked.unwrap_or(runs(target)) {
            let data = mutator.next(&inputs);
            check(target, &data, &format!("ONETRIP_SEED={seed}, run {run}"));
        }
    }
}

#[test]
fn each_target_has_a_corpus_and_nothing_else_has() {
    let mut found: Vec<String> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(found, known);
    assert!(TARGETS.iter().all(|target| corpus(target).len() > 3));
}

#[test]
fn the_corpus_is_small() {
    let inputs: Vec<_> = TARGETS.iter().flat_map(corpus).collect();
    let largest = inputs.iter().map(|(_, data)| data.len()).max().unwrap();
    let all: usize = inputs.iter().map(|(_, data)| data.len()).sum();
    assert!(largest <= 8 << 10, "an input of {largest} bytes");
    assert!(all <= 300 << 10, "{all} bytes in all");
}

#[test]
fn a_target_that_takes_too_much_memory_is_noticed() {
    fn believes(data: &[u8]) {
        let len = u32::from_be_bytes(data.try_into().unwrap());
        assert_eq!(Vec::<u8>::with_capacity(len as usize).len(), 0);
    }
    let target = Target { run: believes, ..*Target::find("frames").unwrap() };
    target.check(&100_u32.to_be_bytes());
    let result = catch_unwind(|| target.check(&(1_u32 << 20).to_be_bytes()));
    assert!(result.is_err());
}

fn check(target: &Target, data: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target.check(data))) {
        eprintln!("{} fails for {what}: {}", target.name, data.escape_ascii());
        resume_unwind(panic);
    }
}

fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory().join(target.name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    // The order of a directory listing is undefined, and a seed has to mean the same everywhere.
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|number| number.parse().unwrap())
}

fn clock() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64
}
