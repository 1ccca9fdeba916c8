//! Runs the same expressions, random ones and the built-in scripts through an installed pgbench.

use std::path::{Path, PathBuf};
use std::process::Command;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::table::VALUES;
use super::value;
use crate::script::parse::Action;
use crate::script::{BUILTINS, Script, builtin};

#[test]
fn a_pgbench_that_is_found_agrees_on_every_expression() {
    let Some(pgbench) = pgbench() else {
        println!("skipped: no pgbench beside the server");
        return;
    };
    let script: String =
        VALUES.iter().map(|(text, _)| format!("\\set x debug({text})\n")).collect();
    let output = run(&pgbench, &script);
    let lines = output.lines().filter_map(|line| line.strip_prefix("debug(script=0,"));
    let shown: Vec<&str> = lines.filter_map(|line| Some(line.split_once("): ")?.1)).collect();
    assert_eq!(shown.len(), VALUES.len(), "{output}");
    for ((text, wanted), shown) in VALUES.iter().zip(shown) {
        assert_eq!(shown, *wanted, "{text}");
    }
}

/// Compares with the real pgbench, in addition to the recorded values.
#[test]
fn a_pgbench_that_is_found_agrees_on_hashes_and_permutations() {
    let Some(pgbench) = pgbench() else {
        println!("skipped: no pgbench beside the server");
        return;
    };
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let texts: Vec<String> = (0..200)
        .map(|number| {
            let (value, seed): (i64, i64) = (random.random(), random.random());
            let size = (random.random::<i64>().unsigned_abs() >> random.random_range(1..63)).max(1);
            let (value, seed) = (value.max(-i64::MAX), seed.max(-i64::MAX));
            match number % 3 {
                0 => format!("hash_fnv1a({value}, {seed})"),
                1 => format!("hash({value}, {seed})"),
                _ => format!("permute({value}, {size}, {seed})"),
            }
        })
        .collect();
    let script: String = texts.iter().map(|text| format!("\\set x debug({text})\n")).collect();
    let output = run(&pgbench, &script);
    let lines = output.lines().filter_map(|line| line.strip_prefix("debug(script=0,"));
    let shown: Vec<&str> = lines.filter_map(|line| Some(line.split_once("): ")?.1)).collect();
    assert_eq!(shown.len(), texts.len(), "{output}");
    for (text, shown) in texts.iter().zip(shown) {
        assert_eq!(value(text).unwrap().described(), shown, "{text}");
    }
}

fn pgbench() -> Option<PathBuf> {
    let found = onetrip_lab::postgres::find_all().ok()?;
    // `permute` came with 14.
    let newest = found.iter().filter(|it| it.major() >= 14).map(|it| it.bin().join("pgbench"));
    let system = PathBuf::from("/usr/bin/pgbench");
    newest.chain([system]).find(|path| path.exists())
}

/// What a script shows on the error output.
fn run(pgbench: &Path, script: &str) -> String {
    let server = onetrip_lab::postgres::shared();
    let directory = std::env::temp_dir();
    let file = directory.join(format!("onetrip-{}-{}.sql", std::process::id(), script.len()));
    std::fs::write(&file, script).unwrap();
    let mut command = Command::new(pgbench);
    command.arg("-n").args(["-t", "1", "-f"]).arg(&file).arg(server.url());
    let output = command.output().unwrap();
    std::fs::remove_file(&file).unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_built_in_scripts_do_what_those_of_a_pgbench_that_is_found_do() {
    let Some(pgbench) = pgbench() else {
        println!("skipped: no pgbench beside the server");
        return;
    };
    for name in BUILTINS {
        let output = Command::new(&pgbench).arg(format!("--show-script={name}")).output().unwrap();
        let theirs = Script::parse(name, &String::from_utf8_lossy(&output.stderr)).unwrap();
        assert_eq!(steps(&theirs), steps(&builtin(name).unwrap()), "{name}");
    }
}

/// Neither case nor white space matter to the server.
fn steps(script: &Script) -> Vec<String> {
    let step = |action: &Action| match action {
        Action::Statement(source) => {
            let text = source.text.text.to_lowercase();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        }
        action => format!("{action:?}"),
    };
    script.steps.iter().map(|it| step(&it.action)).collect()
}
