//! The numbers and signatures of the ABI in TypeScript are written from those in Rust.
//!
//! `ONETRIP_WRITE=1 cargo test -p onetrip-lab --test tidy exports` writes them anew.

use std::fmt::Write;

use crate::root;

const FILE: &str = "faces/node/src/engine/exports.ts";
const HEAD: &str = "\
// The numbers and signatures of the ABI. Do not edit: written from the Rust of `faces/abi` and
// `core/client` by `ONETRIP_WRITE=1 cargo test -p onetrip-lab --test tidy exports`.
//
// Numbers are const enums. The compiler puts their values where they are used, so packages hold no
// tables of them.

";

#[test]
fn the_numbers_and_signatures_in_typescript_are_those_in_rust() {
    let wanted = format!("{HEAD}{}{}", signatures(), NUMBERS.map(numbers).concat());
    let file = root().join(FILE);
    if std::env::var_os("ONETRIP_WRITE").is_some() {
        return std::fs::write(file, wanted).unwrap();
    }
    let committed = std::fs::read_to_string(file).unwrap();
    let changed = wanted.lines().find(|line| !committed.lines().any(|it| it == *line));
    assert!(committed == wanted, "{FILE} is not what Rust says; first new line: {changed:?}");
}

/// A const enum: its name, the file and the module of its numbers, which of them it has, and those
/// that are of TypeScript alone.
type Numbers = (&'static str, &'static str, &'static str, fn(&str) -> bool, &'static str);

const COMPLETION: &str = "core/client/src/completion.rs";
const CONNECT: &str = "core/client/src/connect.rs";
const CODES: &str = "faces/abi/src/codes.rs";
const REPLICAS: &str = "faces/abi/src/export_replicas.rs";
const LOOK: &str = "core/client/src/redis/look.rs";
const NUMBERS: [Numbers; 27] = [
    ("Kind", COMPLETION, "kind", all, ""),
    ("ClusterWhy", COMPLETION, "cluster_why", all, ""),
    ("Role", COMPLETION, "role", all, ""),
    ("End", COMPLETION, "end", all, ""),
    ("Event", COMPLETION, "event", all, ""),
    // The module failed.
    ("Close", COMPLETION, "close", all, "  LOST = 8,\n"),
    ("PoolCause", COMPLETION, "pool_cause", all, "  LOST = 5,\n"),
    ("Connect", CONNECT, "action", all, ""),
    ("ConnectEvent", CONNECT, "event", all, ""),
    ("ConnectFault", CONNECT, "fault", all, ""),
    ("Flag", "core/client/src/flag.rs", "", all, ""),
    ("ClusterFlag", "core/client/src/cluster.rs", "flag", all, ""),
    ("RedisFlag", "core/client/src/redis/submission.rs", "flag", all, ""),
    ("Traits", LOOK, "traits", |name| !is_place(name), ""),
    ("Place", LOOK, "traits", is_place, ""),
    ("Trait", CODES, "shows", all, ""),
    ("Key", CODES, "key", all, ""),
    ("StatementPlace", CODES, "place", all, ""),
    ("Member", CODES, "member", all, ""),
    // For a message.
    ("Refused", CODES, "refused", all, ""),
    ("Found", "faces/abi/src/export_cache.rs", "found", all, ""),
    ("Unanswered", "faces/abi/src/export_cluster.rs", "unanswered", all, ""),
    ("Condition", "faces/abi/src/export_pool.rs", "condition", all, ""),
    ("Shows", REPLICAS, "shows", all, ""),
    ("Step", REPLICAS, "step", all, ""),
    ("Say", REPLICAS, "text", all, ""),
    ("ReplicaNumber", REPLICAS, "number", all, ""),
];

fn all(_: &str) -> bool {
    true
}

/// Of the numbers of a command of Redis, those that are values of its place, and no bits.
fn is_place(name: &str) -> bool {
    matches!(name, "SHARED" | "OWN" | "SESSION" | "REFUSED")
}

/// A const enum from `pub const NAME: TYPE = VALUE;`.
fn numbers((name, path, module, has, own): Numbers) -> String {
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    let body = match module {
        "" => text.as_str(),
        _ => {
            let found = text.split_once(&format!("pub mod {module} {{\n"));
            let body = found.unwrap_or_else(|| panic!("{path} has no module {module}")).1;
            body.split_once("\n}\n").unwrap().0
        }
    };
    let mut written = format!("\n/** From `{path}`. */\n");
    writeln!(written, "export const enum {name} {{").unwrap();
    for item in body.lines().filter_map(|line| line.trim().strip_prefix("pub const ")) {
        let (constant, rest) = item.split_once(": ").unwrap();
        let value = rest.split_once(" = ").unwrap().1.trim_end_matches(';').trim_end_matches(".0");
        if has(constant) {
            writeln!(written, "  {constant} = {value},").unwrap();
        }
    }
    written + own + "}\n"
}

/// All functions that Rust exports, whatever the file. Pointers are numbers, and so is a `bool`.
fn signatures() -> String {
    let directory = root().join("faces/abi/src");
    let files = std::fs::read_dir(directory).unwrap().map(|it| it.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|it| it.extension().is_some_and(|it| it == "rs")).collect();
    files.sort();
    let mut written = "/** The exports of the module. Pointers are numbers. */\n".to_owned();
    written.push_str("export interface Exports {\n  readonly memory: WebAssembly.Memory\n");
    let mut version = "";
    let text = files.iter().map(|it| std::fs::read_to_string(it).unwrap()).collect::<String>();
    for found in text.split("extern \"C\" fn ").skip(1) {
        let (name, rest) = found.split_once('(').unwrap();
        let (parameters, rest) = rest.split_once(')').unwrap();
        let (returned, body) = rest.split_once('{').unwrap();
        if name == "onetrip_abi_version" {
            version = body.split_once('}').unwrap().0.trim();
        }
        let parameters = parameters.split(',').filter(|it| !it.trim().is_empty());
        let parameters: Vec<_> = parameters.map(|it| parameter(name, it)).collect();
        let returned = match returned.trim().strip_prefix("-> ") {
            Some(kind) => typescript(name, kind),
            None => "void",
        };
        let line = format!("  {name}({}): {returned}\n", parameters.join(", "));
        written += &match line.len() {
            ..=101 => line,
            _ => format!("  {name}(\n    {},\n  ): {returned}\n", parameters.join(",\n    ")),
        };
    }
    written + "}\n\n/** The version of the ABI. */\nexport const ABI_VERSION = " + version + "\n"
}

fn parameter(function: &str, given: &str) -> String {
    let (name, kind) = given.trim().split_once(": ").unwrap();
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        camel.push_str(&word[..1].to_uppercase());
        camel.push_str(&word[1..]);
    }
    format!("{camel}: {}", typescript(function, kind))
}

/// An integer of 64 bits would be a `bigint`; so far none crosses.
fn typescript(function: &str, kind: &str) -> &'static str {
    let is_number = matches!(kind.trim(), "u32" | "i32" | "usize" | "f64" | "bool" | "u16" | "u8");
    assert!(is_number || kind.trim().starts_with('*'), "{function}: {kind} is not known here");
    "number"
}
