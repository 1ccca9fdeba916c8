//! Each program has a table of tests; each of these is a test here.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use onetrip_lab::{postgres, redis};

use crate::staged::{Linked, compiled, done, home};

fn program(name: &'static str) -> PathBuf {
    static PROGRAMS: [OnceLock<PathBuf>; 4] = [const { OnceLock::new() }; 4];
    let (place, source, flags) = match name {
        "postgres" => (0, "postgres.c", "-std=c11"),
        "redis" => (1, "redis.c", "-std=c11"),
        "cpp17" => (2, "cpp.cpp", "-std=c++17"),
        _ => (3, "cpp.cpp", "-std=c++20"),
    };
    let source = home().join("tests/c").join(source);
    PROGRAMS[place].get_or_init(|| compiled(&source, &[flags], Linked::Shared)).clone()
}

/// The names of a program's tests.
fn named(name: &'static str) -> Vec<String> {
    let listed = done(&mut Command::new(program(name))).stdout;
    String::from_utf8(listed).unwrap().lines().map(str::to_owned).collect()
}

fn run(name: &'static str, test: &str, url: &str) {
    done(Command::new(program(name)).args([test, url]));
}

/// A module of tests, each of which is one of the program's.
macro_rules! tests {
    ($module:ident, $program:literal, $url:expr; $($test:ident)*) => {
        mod $module {
            use super::*;

            $(#[test]
            fn $test() {
                if let Some(url) = $url {
                    run($program, stringify!($test), &url);
                }
            })*

            pub(super) const NAMES: &[&str] = &[$(stringify!($test)),*];
        }
    };
}

fn of_postgres() -> Option<String> {
    Some(postgres::shared().url())
}

fn of_redis() -> Option<String> {
    redis::shared().map(|server| server.url())
}

tests! { c, "postgres", of_postgres();
    values_come_as_they_were_sent
    an_error_says_its_outcome
    what_is_wrong_is_said_and_nothing_is_sent
    nobody_is_let_in_without_a_password
    statements_answer_their_own_callers
    a_pipeline_is_atomic_and_names_its_cause
    segments_stand_or_fall_by_themselves
    a_batch_stores_all_or_nothing
    a_million_statements_are_bounded
    a_late_statement_is_cancelled
    a_transaction_commits_what_stands
    a_session_keeps_its_state_and_leaves_none
    a_conflict_is_run_again
    a_stream_is_taken_as_it_comes
    a_copy_stores_all_or_nothing
    notifications_are_heard
    a_lost_connection_says_what_may_have_run
    the_end_of_a_lost_transaction_speaks_of_all_of_it
    a_loop_drives_it
    another_process_is_refused
    closing_waits_for_answers_or_cuts
}

tests! { c_redis, "redis", of_redis();
    commands_answer_their_own_callers
    an_error_says_its_outcome
    pipelines_have_a_reply_for_each
    a_pipeline_of_any_length_is_bounded
    messages_of_channels_are_heard
    a_late_command_may_have_run
}

tests! { cpp17, "cpp17", of_postgres();
    rows_are_a_range
    errors_are_thrown_with_their_outcome
    pipelines_and_transactions
}

tests! { cpp20, "cpp20", of_postgres();
    coroutines_go_on_in_the_loop
}

tests! { cpp_redis, "cpp17", of_redis();
    commands_of_redis
}

#[test]
fn no_test_of_a_program_is_left_out() {
    assert_eq!(named("postgres"), c::NAMES);
    assert_eq!(named("redis"), c_redis::NAMES);
    assert_eq!(named("cpp17"), [cpp17::NAMES, cpp_redis::NAMES].concat());
    assert_eq!(named("cpp20"), [cpp17::NAMES, cpp20::NAMES, cpp_redis::NAMES].concat());
}

/// The header is C99, too, and C++17 beside others; what is installed says of itself how it is used.
#[test]
fn headers_and_libraries_are_used_as_they_are_installed() {
    let source = home().join("tests/c/transfer.c");
    let url = postgres::shared().url();
    for (flags, how) in
        [(["-std=c99", "-pedantic"], Linked::Static), (["-std=c17", "-Wshadow"], Linked::Shared)]
    {
        let program = compiled(&source, &flags, how);
        let said = done(Command::new(program).arg(&url)).stdout;
        assert_eq!(String::from_utf8(said).unwrap(), "1 has 95\n2 has 5\n");
    }
    let written = crate::staged::installed().join("lib/pkgconfig/onetrip.pc");
    let written = std::fs::read_to_string(written).unwrap();
    assert!(written.contains(&format!("Version: {}\n", env!("CARGO_PKG_VERSION"))), "{written}");
    let symbols = done(
        Command::new("nm")
            .arg("-D")
            .arg("--defined-only")
            .arg(crate::staged::installed().join("lib/libonetrip.so.0")),
    );
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let exported = symbols.lines().filter_map(|line| line.split(' ').nth(2));
    let exported: std::collections::BTreeSet<_> = exported.collect();
    let header = std::fs::read_to_string(home().join("include/onetrip/onetrip.h")).unwrap();
    assert_eq!(exported, declared(&header));
}

/// The functions that a header declares, but for those that it defines.
fn declared(header: &str) -> std::collections::BTreeSet<&str> {
    let mut found = std::collections::BTreeSet::new();
    let ends = |line: &str| line.starts_with(|c: char| c.is_ascii_lowercase());
    for line in header.lines().filter(|line| ends(line) && !line.starts_with("static")) {
        let Some((before, _)) = line.split_once('(') else { continue };
        let name = before.rsplit([' ', '*']).next().unwrap_or_default();
        if name.starts_with("ot_") {
            found.insert(name);
        }
    }
    found
}
