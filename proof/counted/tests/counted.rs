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

/// The works of the program.
const WORKS: [Work; 10] = [
    Work::new("query"),
    Work::new("pool_query"),
    Work { apart: Some(BURST_APART), ..Work::new("burst") },
    Work { apart: Some(RESET_APART), ..Work::new("transaction") },
    Work { operations: MANY, at_once: true, ..Work::new("rows") },
    Work { operations: MANY, at_once: true, ..Work::new("copy_in") },
    Work { operations: MANY, at_once: true, ..Work::new("copy_out") },
    Work::new("redis_get"),
    Work::new("redis_set"),
    Work { at_once: true, ..Work::new("redis_burst") },
];

struct Work {
    name: &'static str,
    /// So many, and three times as many: the difference is free of what the start takes.
    operations: u32,
    /// Its calls of the system depend on when the bytes come.
    at_once: bool,
    apart: Option<Apart>,
}

const FEW: u32 = 500;
/// Of rows, so that one call of the system more for all of them is less than a rise.
const MANY: u32 = 5_000;

impl Work {
    const fn new(name: &'static str) -> Work {
        Work { name, operations: FEW, at_once: false, apart: None }
    }
}

/// Replies that come together or apart, depending on how busy the machine is. Each that comes apart
/// takes a call of the system more, and up to so much else. So up to `calls_max` more for an
/// operation are not seen; in the other works they are.
struct Apart {
    calls_max: f64,
    instructions: f64,
    allocations: f64,
}

/// Behind COMMIT the server resets the connection. The reply to that comes with COMMIT's or behind
/// it: beside 16 endless loops 1.3 calls more for a transaction.
const RESET_APART: Apart = Apart { calls_max: 1.5, instructions: 3100.0, allocations: 0.6 };

/// A hundred replies come in a few reads or in more: beside four endless loops 0.15 calls more for a
/// query, of 475 instructions each.
const BURST_APART: Apart = Apart { calls_max: 0.3, instructions: 500.0, allocations: 0.0 };

/// What rises by less than this has not risen: reads are cut now here, now there.
const RISE_MAX: f64 = 1.01;

/// Less than one in 20 operations counts as nothing, since tables and buffers grow now and then.
const NOTHING: f64 = 0.05;

/// A rise is counted again so often: what has risen has risen each time.
const TRIES: usize = 3;

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
    for work in &WORKS {
        let name = work.name;
        let url = if name.starts_with("redis") { redis.url() } else { postgres.url() };
        let wanted = &table["works"][name];
        let mut counts = counted(&program, work, &url);
        counts.retain(|kind, _| !(work.at_once && *kind == "system calls"));
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
        println!("{name}: {counts:?}");
        risen.extend(rises);
        found.insert(name.to_owned(), json!(counts));
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
fn rises(work: &Work, counts: &Counts, wanted: &Value, is_alike: bool) -> Vec<String> {
    let mut rises = Vec::new();
    let name = work.name;
    for (kind, count) in counts {
        if *kind == "instructions" && !is_alike {
            continue;
        }
        let Some(most) = wanted[kind].as_f64() else {
            rises.push(format!("{name}: the table has no {kind}"));
            continue;
        };
        let due = count - excused(work, kind, counts, wanted);
        if due > most * RISE_MAX && due > most + NOTHING {
            rises.push(format!("{name} takes {count} {kind}, and {most} in the table"));
        }
    }
    rises
}

/// What replies took that came apart, and together for the table.
fn excused(work: &Work, kind: &str, counts: &Counts, wanted: &Value) -> f64 {
    let calls = (counts.get("system calls"), wanted["system calls"].as_f64());
    let (Some(apart), (Some(calls), Some(wanted))) = (&work.apart, calls) else { return 0.0 };
    let each = match kind {
        "instructions" => apart.instructions,
        "allocations" => apart.allocations,
        _ => 1.0,
    };
    each * (calls - wanted).clamp(0.0, apart.calls_max)
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

fn counted(program: &Path, work: &Work, url: &str) -> Counts {
    let few = work.operations;
    let [less, more] = [few, 3 * few].map(|it| taken(program, work.name, url, it));
    let each = |at: usize| rounded((more[at] - less[at]) / f64::from(2 * few));
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
