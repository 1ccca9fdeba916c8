//! What one operation of each hot way takes of the client for Rust, counted and not timed, so that
//! it is the same however busy the machine is: instructions and calls of the system, as valgrind
//! counts them, and allocations. Nothing may take more than `table.json` says. Who means to raise a
//! figure writes the table with `ONETRIP_WRITE=1` and says in the commit why.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use onetrip_lab::postgres::{Options, PrivatePostgres};
use onetrip_lab::redis::{Server, Settings};
use serde_json::{Value, json};

/// The works of the program, and whether 100 operations are asked for at once: then their calls of
/// the system depend on when the replies come.
const WORKS: [(&str, bool); 10] = [
    ("query", false),
    ("pool_query", false),
    ("burst", true),
    ("transaction", false),
    ("rows", true),
    ("copy_in", true),
    ("copy_out", true),
    ("redis_get", false),
    ("redis_set", false),
    ("redis_burst", true),
];

/// What rises by less than this has not risen: reads are cut now here, now there.
const RISE_MAX: f64 = 1.01;

/// Less than one in 20 operations counts as nothing, since tables and buffers grow now and then.
const NOTHING: f64 = 0.05;

/// Behind COMMIT the server resets the connection. The reply to that comes together with COMMIT's or
/// apart from it, depending on how busy the machine is, and each that comes apart takes a call of
/// the system more, and up to so much of the others: beside 16 endless loops 1.3 for a transaction.
/// So one more call of a transaction's own is not seen here; in the other works it is.
const REPLIES_APART: (&str, f64) = ("transaction", 1.5);
const APART: [(&str, f64); 2] = [("instructions", 3100.0), ("allocations", 0.6)];

/// A rise is counted again so often: what has risen has risen each time.
const TRIES: usize = 3;

/// Operations, and three times as many: the difference is free of what the start takes.
const OPERATIONS: u32 = 500;

/// What an operation takes, by kind.
type Counts = BTreeMap<&'static str, f64>;

#[test]
fn nothing_takes_more_than_the_table_says() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return println!("skipped: what an operation takes: valgrind is not installed");
    }
    let program = build();
    let postgres = PrivatePostgres::start(Options::default()).unwrap();
    let redis = Server::start(Settings::default()).unwrap();
    let (compiler, table) = (compiler(), table());
    // Another compiler chooses other instructions.
    let is_alike = table["compiler"] == json!(compiler);
    let is_written = std::env::var_os("ONETRIP_WRITE").is_some();
    let (mut found, mut risen) = (serde_json::Map::new(), Vec::new());
    for (work, at_once) in WORKS {
        let url = if work.starts_with("redis") { redis.url() } else { postgres.url() };
        let wanted = &table["works"][work];
        let mut counts = counted(&program, work, &url);
        counts.retain(|kind, _| !(at_once && *kind == "system calls"));
        let mut rises = rises(work, &counts, wanted, is_alike);
        for _ in 1..TRIES {
            if rises.is_empty() || is_written {
                break;
            }
            let again = counted(&program, work, &url);
            for (kind, count) in &mut counts {
                *count = count.min(again[kind]);
            }
            rises = self::rises(work, &counts, wanted, is_alike);
        }
        println!("{work}: {counts:?}");
        risen.extend(rises);
        found.insert(work.to_owned(), json!(counts));
    }
    if is_written {
        let table = json!({ "compiler": compiler, "works": found });
        let text = serde_json::to_string_pretty(&table).unwrap();
        return std::fs::write(path(), text + "\n").unwrap();
    }
    assert!(
        risen.is_empty(),
        "{}\nIf the change means to: ONETRIP_WRITE=1 cargo test -p onetrip-counted writes \
         proof/counted/table.json, and its commit says why.",
        risen.join("\n")
    );
    if !is_alike {
        println!("the table was made by {}: instructions were not compared", table["compiler"]);
    }
}

/// What has risen above the table.
fn rises(work: &str, counts: &Counts, wanted: &Value, is_alike: bool) -> Vec<String> {
    let mut rises = Vec::new();
    let apart = apart(work, counts, wanted);
    for (kind, count) in counts {
        if *kind == "instructions" && !is_alike {
            continue;
        }
        let Some(wanted) = wanted[kind].as_f64() else {
            rises.push(format!("{work}: the table has no {kind}"));
            continue;
        };
        let each = APART.iter().find(|(of, _)| of == kind).map_or(1.0, |(_, each)| *each);
        let due = count - apart * each;
        if due > wanted * RISE_MAX && due > wanted + NOTHING {
            rises.push(format!("{work} takes {count} {kind}, and {wanted} in the table"));
        }
    }
    rises
}

/// How many replies more than for the table came apart, for each operation.
fn apart(work: &str, counts: &Counts, wanted: &Value) -> f64 {
    match (counts.get("system calls"), wanted["system calls"].as_f64()) {
        (Some(calls), Some(wanted)) if work == REPLIES_APART.0 => {
            (calls - wanted).clamp(0.0, REPLIES_APART.1)
        }
        _ => 0.0,
    }
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("table.json")
}

fn table() -> Value {
    let text = std::fs::read_to_string(path()).unwrap_or("{}".to_owned());
    serde_json::from_str(&text).unwrap()
}

fn compiler() -> String {
    let said = output(Command::new("rustc").arg("--version"));
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let said = String::from_utf8(said.stdout).unwrap();
    format!("{} for {}", said.trim(), model.trim_start_matches([' ', '\t', ':']))
}

/// Builds the program.
fn build() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&root).args([
        "build",
        "--quiet",
        "--profile",
        "counted",
        "-p",
        "onetrip-counted",
    ]);
    output(&mut cargo);
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), |it| root.join(it));
    target.join("counted/onetrip-counted")
}

fn counted(program: &Path, work: &str, url: &str) -> Counts {
    let [few, many] = [OPERATIONS, 3 * OPERATIONS].map(|it| taken(program, work, url, it));
    let each = |at: usize| rounded((many[at] - few[at]) / f64::from(2 * OPERATIONS));
    BTreeMap::from([("instructions", each(0)), ("system calls", each(1)), ("allocations", each(2))])
}

fn rounded(count: f64) -> f64 {
    (count * 100.0).round() / 100.0
}

/// Instructions, calls of the system and allocations of so many operations, with the start for the
/// first two.
fn taken(program: &Path, work: &str, url: &str, operations: u32) -> [f64; 3] {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-systime=yes"])
        .arg(program)
        .args([work, url, &operations.to_string()]);
    let output = output(&mut valgrind);
    let said = String::from_utf8_lossy(&output.stderr);
    // ==1234== Collected : 123456 789 1011
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let (_, collected) = collected.expect("valgrind counts nothing");
    let mut numbers = collected.split_whitespace().map(|it| it.parse::<f64>().unwrap());
    let [instructions, calls] = std::array::from_fn(|_| numbers.next().unwrap());
    let [allocations, _]: [f64; 2] = serde_json::from_slice(&output.stdout).unwrap();
    [instructions, calls, allocations]
}

fn output(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error} (scripts/setup)"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {said}");
    output
}
