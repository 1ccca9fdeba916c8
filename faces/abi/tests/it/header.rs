//! The header declares the functions and constants as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use onetrip_abi::completion::{
    Completion, close, cluster_why, end, event, kind, outcome, pool_cause, role,
};
use onetrip_abi::export::{flag, key, member, place, refused, shows};
use onetrip_abi::export_cache::found;
use onetrip_abi::export_cluster::{flag as cluster_flag, unanswered};
use onetrip_abi::export_connect::{action, event as connect_event, fault};
use onetrip_abi::export_pool::condition;
use onetrip_abi::export_redis::{flag as redis_flag, traits};
use onetrip_abi::export_replicas::{number, shows as read, step, text};

const HEADER: &str = include_str!("../../include/onetrip.h");
const SOURCES: [&str; 8] = [
    include_str!("../../src/export.rs"),
    include_str!("../../src/export_connect.rs"),
    include_str!("../../src/export_pool.rs"),
    include_str!("../../src/export_redis.rs"),
    include_str!("../../src/export_replicas.rs"),
    include_str!("../../src/export_cluster.rs"),
    include_str!("../../src/export_cache.rs"),
    include_str!("../../src/export_sentinel.rs"),
];

/// Functions by name, each with the number of its parameters.
fn functions(text: &str, before: &str) -> BTreeMap<String, usize> {
    let found = text.match_indices(before).map(|(at, _)| &text[at + before.len()..]);
    let functions = found.filter_map(|rest| {
        let (name, rest) = rest.split_once('(')?;
        let (parameters, _) = rest.split_once(')')?;
        let parameters = parameters.trim_end().trim_end_matches(',');
        let count = parameters.split(',').filter(|it| !matches!(it.trim(), "" | "void")).count();
        let is_name = name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
        is_name.then(|| (name.to_owned(), count))
    });
    functions.collect()
}

/// The header without its comments.
fn declarations() -> String {
    let mut text = String::new();
    let mut rest = HEADER;
    while let Some((before, behind)) = rest.split_once("/*") {
        text.push_str(before);
        rest = behind.split_once("*/").unwrap().1;
    }
    text + rest
}

#[test]
fn each_function_is_declared_with_as_many_parameters_as_it_has() {
    let in_source = functions(&SOURCES.concat(), "extern \"C\" fn ");
    assert!(in_source.len() > 20, "{in_source:?}");
    let in_header: BTreeMap<String, usize> = functions(&declarations(), "onetrip_")
        .into_iter()
        .map(|(name, count)| (format!("onetrip_{name}"), count))
        .collect();
    assert_eq!(in_header, in_source);
}

#[test]
fn each_number_of_the_header_is_the_one_in_the_source() {
    let expected: BTreeSet<(String, i64)> = [
        ("READY", kind::READY),
        ("DATA", kind::DATA),
        ("PIECE", kind::PIECE),
        ("END", kind::END),
        ("RESTARTED", kind::RESTARTED),
        ("EVENT", kind::EVENT),
        ("FULL", kind::FULL),
        ("DRAINED", kind::DRAINED),
        ("CANCEL", kind::CANCEL),
        ("NOT_CANCELLED", kind::NOT_CANCELLED),
        ("ASTRAY", kind::ASTRAY),
        ("CLOSED", kind::CLOSED),
        ("FORGOTTEN", kind::FORGOTTEN),
        ("PASSWORD", kind::PASSWORD),
        ("FEED", kind::FEED),
        ("READ", kind::READ),
        ("HELD_UP", kind::HELD_UP),
        ("POSITION", kind::POSITION),
        ("UNCERTAIN", kind::UNCERTAIN),
        ("GUARD_PASSED", kind::GUARD_PASSED),
        ("GUARD_BEHIND", kind::GUARD_BEHIND),
        ("GUARD_FAILED", kind::GUARD_FAILED),
        ("IDENTIFIED", kind::IDENTIFIED),
        ("UNSENT", kind::UNSENT),
        ("POOL_OPEN", kind::POOL_OPEN),
        ("POOL_GRANTED", kind::POOL_GRANTED),
        ("POOL_PLACED", kind::POOL_PLACED),
        ("POOL_FAILED", kind::POOL_FAILED),
        ("POOL_RESET", kind::POOL_RESET),
        ("POOL_CLOSE", kind::POOL_CLOSE),
        ("POOL_SCOUT", kind::POOL_SCOUT),
        ("CLUSTER_SEND", kind::CLUSTER_SEND),
        ("CLUSTER_SEND_ASKING", kind::CLUSTER_SEND_ASKING),
        ("CLUSTER_REPLY", kind::CLUSTER_REPLY),
        ("CLUSTER_ERROR", kind::CLUSTER_ERROR),
        ("CLUSTER_FAILED", kind::CLUSTER_FAILED),
        ("CLUSTER_ASK", kind::CLUSTER_ASK),
        ("CLUSTER_OPEN", kind::CLUSTER_OPEN),
        ("CLUSTER_CLOSE", kind::CLUSTER_CLOSE),
        ("CLUSTER_UNSUBSCRIBE", kind::CLUSTER_UNSUBSCRIBE),
        ("CLUSTER_RESUBSCRIBED", kind::CLUSTER_RESUBSCRIBED),
        ("SENTINEL_OPEN", kind::SENTINEL_OPEN),
        ("SENTINEL_CLOSE", kind::SENTINEL_CLOSE),
        ("SENTINEL_DIAL", kind::SENTINEL_DIAL),
        ("SENTINEL_LEAVE", kind::SENTINEL_LEAVE),
        ("SENTINEL_NOT_FOUND", kind::SENTINEL_NOT_FOUND),
        ("ROLE_MASTER", role::MASTER),
        ("ROLE_REPLICA", role::REPLICA),
        ("CLUSTER_REPEATABLE", cluster_flag::REPEATABLE),
        ("CLUSTER_FROM_REPLICA", cluster_flag::FROM_REPLICA),
        ("CLUSTER_OWN", cluster_flag::OWN),
        ("CLUSTER_WHOLE", cluster_flag::WHOLE),
        ("UNANSWERED_LOST", unanswered::LOST),
        ("UNANSWERED_EXPIRED", unanswered::EXPIRED),
        ("UNANSWERED_TAKEN_BACK", unanswered::TAKEN_BACK),
        ("WHY_LOST", cluster_why::LOST),
        ("WHY_REDIRECTS", cluster_why::REDIRECTS),
        ("WHY_OUTSIDE", cluster_why::OUTSIDE),
        ("WHY_UNSERVED", cluster_why::UNSERVED),
        ("WHY_SERVER", cluster_why::SERVER),
        ("WHY_MISMATCH", cluster_why::MISMATCH),
        ("WHY_DEADLINE", cluster_why::DEADLINE),
        ("WHY_GIVEN_UP", cluster_why::GIVEN_UP),
        ("WHY_NO_MEMORY", cluster_why::NO_MEMORY),
        ("WHY_CLOSED", cluster_why::CLOSED),
        ("WHY_CROSS_SLOT", cluster_why::CROSS_SLOT),
        ("WHY_KEYS_UNKNOWN", cluster_why::KEYS_UNKNOWN),
        ("WHY_NODE_BY_NODE", cluster_why::NODE_BY_NODE),
        ("WHY_FULL", cluster_why::FULL),
        ("POOL_LINE_FULL", pool_cause::LINE_FULL),
        ("POOL_DEADLINE", pool_cause::DEADLINE),
        ("POOL_OPEN_FAILED", pool_cause::OPEN_FAILED),
        ("POOL_CLOSED", pool_cause::CLOSED),
        ("CONDITION_CLEAN", condition::CLEAN),
        ("CONDITION_DIRTY", condition::DIRTY),
        ("CONDITION_DIRTY_HOLDING", condition::DIRTY_HOLDING),
        ("CONDITION_BROKEN", condition::BROKEN),
        ("CONNECT_RESOLVE", action::RESOLVE),
        ("CONNECT_DIAL", action::DIAL),
        ("CONNECT_ASK_FOR_TLS", action::ASK_FOR_TLS),
        ("CONNECT_BEGIN_TLS", action::BEGIN_TLS),
        ("CONNECT_LOG_IN", action::LOG_IN),
        ("CONNECT_DONE", action::DONE),
        ("CONNECT_FAILED", action::FAILED),
        ("CONNECT_IDENTIFY", action::IDENTIFY),
        ("CONNECT_RESOLVED", connect_event::RESOLVED),
        ("CONNECT_CONNECTED", connect_event::CONNECTED),
        ("CONNECT_ANSWERED", connect_event::ANSWERED),
        ("CONNECT_SECURED", connect_event::SECURED),
        ("CONNECT_EARLY", connect_event::EARLY),
        ("CONNECT_UNREACHABLE", fault::UNREACHABLE),
        ("CONNECT_HANDSHAKE", fault::HANDSHAKE),
        ("CONNECT_LOGIN_FAILED", fault::LOG_IN),
        ("CONNECT_SERVER", fault::SERVER),
        ("CONNECT_OURS", fault::OURS),
        ("CONNECT_LATE", fault::LATE),
        ("CONNECT_SESSION_REFUSED", fault::SESSION),
        ("END_COMPLETE", end::COMPLETE),
        ("END_PROVISIONAL", end::PROVISIONAL),
        ("END_SERVER", end::SERVER),
        ("END_ABORTED", end::ABORTED),
        ("END_DEADLINE", end::DEADLINE),
        ("END_CANCELLED", end::CANCELLED),
        ("END_CLOSED", end::CLOSED),
        ("END_BEGIN", end::BEGIN),
        ("END_SAVEPOINT", end::SAVEPOINT),
        ("END_ROLLED_BACK", end::ROLLED_BACK),
        ("END_UNCONFIRMED", end::UNCONFIRMED),
        ("OUTCOME_NONE", outcome::NONE),
        ("OUTCOME_NOT_SENT", outcome::NOT_SENT),
        ("OUTCOME_REJECTED", outcome::REJECTED),
        ("OUTCOME_APPLIED", outcome::APPLIED),
        ("OUTCOME_UNKNOWN", outcome::UNKNOWN),
        ("EVENT_NOTICE", event::NOTICE),
        ("EVENT_NOTIFICATION", event::NOTIFICATION),
        ("EVENT_PARAMETER_STATUS", event::PARAMETER_STATUS),
        ("EVENT_PUSH", event::PUSH),
        ("CLOSE_HOST", close::HOST),
        ("CLOSE_SERVER", close::SERVER),
        ("CLOSE_VIOLATION", close::VIOLATION),
        ("CLOSE_STALLED", close::STALLED),
        ("CLOSE_LOGIN", close::LOGIN),
        ("CLOSE_NO_MEMORY", close::NO_MEMORY),
        ("CLOSE_UNUSABLE", close::UNUSABLE),
        ("CLOSE_NOT_RESET", close::NOT_RESET),
        ("CLOSE_OTHER_ROLE", close::OTHER_ROLE),
        ("CLOSE_REFUSED", close::REFUSED),
        ("SHOWS_CONTROL", shows::CONTROL),
        ("SHOWS_LOCAL", shows::LOCAL),
        ("SHOWS_SESSION", shows::SESSION),
        ("SHOWS_ALONE", shows::ALONE),
        ("SHOWS_COPY", shows::COPY),
        ("SHOWS_CALL", shows::CALL),
        ("SHOWS_SEVERAL", shows::SEVERAL),
        ("SHOWS_READ", shows::READ),
        ("SHOWS_SAVEPOINT", shows::SAVEPOINT),
        ("SHOWS_COMMIT", shows::COMMIT),
        ("SHOWS_COPY_IN", shows::COPY_IN),
        ("SHOWS_QUERY", shows::QUERY),
        ("SHOWS_MAY_LEAVE", shows::MAY_LEAVE),
        ("SHOWS_RENAMES", shows::RENAMES),
        ("SHOWS_SHAREABLE", shows::SHAREABLE),
        ("SIMPLE", flag::SIMPLE),
        ("BINARY", flag::BINARY),
        ("MEMBER", flag::MEMBER),
        ("UNPREPARED", flag::UNPREPARED),
        ("COPY_IN", flag::COPY_IN),
        ("STREAM", flag::STREAM),
        ("REPEATABLE", flag::REPEATABLE),
        ("DESCRIBE", flag::DESCRIBE),
        ("KEY_STAYS", key::STAYS),
        ("PLACE_SHARED", place::SHARED),
        ("PLACE_PIPELINE", place::PIPELINE),
        ("PLACE_ALONE", place::ALONE),
        ("PLACE_SESSION", place::SESSION),
        ("PLACE_TRANSACTION", place::TRANSACTION),
        ("PLACE_READ", place::READ),
        ("MEMBER_SKIPPED", member::SKIPPED),
        ("READ_OWN", read::OWN),
        ("READ_AFTER", read::AFTER),
        ("READ_ANYTHING", read::ANYTHING),
        ("STEP_PRIMARY", step::PRIMARY),
        ("STEP_PAUSE", step::PAUSE),
        ("STEP_LATE", step::LATE),
        ("STEP_NO_REPLICA", step::NO_REPLICA),
        ("STEP_REPLICA", step::REPLICA),
        ("REPLICA_READS", number::READS),
        ("REPLICA_BEHIND", number::BEHIND),
        ("REPLICA_SERVES", number::SERVES),
        ("REPLICA_LAG", number::LAG),
        ("SAY_NEWEST", text::NEWEST),
        ("SAY_QUESTION", text::QUESTION),
        ("SAY_PROBE", text::PROBE),
        ("REDIS_LEAVES", redis_flag::LEAVES),
        ("REDIS_CONFIRMED", redis_flag::CONFIRMED),
        ("REDIS_ATOMIC", redis_flag::ATOMIC),
        ("REDIS_KNOWN", traits::KNOWN),
        ("REDIS_READONLY", traits::READONLY),
        ("REDIS_WRITE", traits::WRITE),
        ("REDIS_MAY_LEAVE", traits::LEAVES),
        ("REDIS_NO_MULTI", traits::NO_MULTI),
        ("REDIS_KEYS_KNOWN", traits::KEYS_KNOWN),
        ("REDIS_DEPENDS", traits::DEPENDS),
        ("REDIS_CACHEABLE", traits::CACHEABLE),
        ("REDIS_CHANGES", traits::CHANGES),
        ("FOUND_NOTHING", found::NOTHING as u32),
        ("FOUND_JOINED", found::JOINED as u32),
        ("FOUND_FETCH", found::FETCH as u32),
        ("REDIS_PLACE_SHIFT", traits::PLACE),
        ("REDIS_SHARED", traits::SHARED),
        ("REDIS_OWN", traits::OWN),
        ("REDIS_SESSION", traits::SESSION),
        ("REDIS_NOWHERE", traits::REFUSED),
    ]
    .map(|(name, number)| (name.to_owned(), number.into()))
    .into();
    let text = declarations();
    let numbers = text.split(['{', '}', ',', ';']).filter_map(|item| {
        let (name, number) = item.trim().split_once(" = ")?;
        Some((name.strip_prefix("ONETRIP_")?.to_owned(), number.trim().parse().ok()?))
    });
    assert_eq!(numbers.collect::<BTreeSet<_>>(), expected);
    for (name, number) in [
        ("CLOSED", refused::CLOSED),
        ("FULL", refused::FULL),
        ("MALFORMED", refused::MALFORMED),
        ("NAME_TAKEN", refused::NAME_TAKEN),
        ("NO_MEMORY", refused::NO_MEMORY),
    ] {
        let line = format!("#define ONETRIP_REFUSED_{name} ({number:.1})\n");
        assert!(HEADER.contains(&line), "{line}");
    }
    let version = onetrip_abi::export::onetrip_abi_version();
    assert!(HEADER.contains(&format!("#define ONETRIP_ABI_VERSION {version}\n")));
}

#[test]
fn a_c_compiler_takes_the_header_and_lays_a_record_out_as_rust_does() {
    let offsets = [
        ("token", std::mem::offset_of!(Completion, token)),
        ("b", std::mem::offset_of!(Completion, b)),
        ("len", std::mem::offset_of!(Completion, len)),
        ("block", std::mem::offset_of!(Completion, block)),
    ];
    let checks: String = offsets
        .iter()
        .map(|(field, at)| {
            format!("_Static_assert(offsetof(onetrip_completion, {field}) == {at}, \"{field}\");\n")
        })
        .collect();
    let size = size_of::<Completion>();
    let program = format!(
        "#include \"onetrip.h\"\n{checks}_Static_assert(sizeof(onetrip_completion) == {size}, \"size\");\n"
    );
    let folder = std::env::temp_dir().join(format!("onetrip-header-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("check.c");
    std::fs::write(&file, program).unwrap();
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let output = Command::new("cc")
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-fsyntax-only",
            "-I",
            include,
        ])
        .arg(&file)
        .output();
    std::fs::remove_dir_all(&folder).unwrap();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
