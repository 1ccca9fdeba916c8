//! `onetrip demo`: what it prints, and what it leaves on a user's server and on the disk.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::database::{database, has_schema};
use crate::process::{Onetrip, closed, full};
use onetrip_lab::redis::{REDIS_SERVER_VARIABLE, found_or_skipped};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::tempdir;

#[test]
fn stopping_by_any_signal_leaves_no_schema_and_a_report_of_what_was_measured() {
    let url = database();
    let out = tempdir().unwrap();
    let out = out.path().to_str().unwrap();
    for (signal, name, status_of) in [
        (Signal::INT, "SIGINT", 128 + 2),
        (Signal::TERM, "SIGTERM", 128 + 15),
        (Signal::HUP, "SIGHUP", 128 + 1),
    ] {
        let arguments = ["demo", "--url", &url, "--out", out];
        let mut demo = Onetrip::start(&arguments, Stdio::null());
        demo.wait_for("1/54");
        demo.signal(signal);
        let (status, said) = demo.end();
        assert_eq!(status.code(), Some(status_of), "{said}");
        let end = format!("onetrip: demo: stopped by {name}, with what was measured so far\n");
        assert!(said.ends_with(&end), "{said}");
        assert!(!has_schema(&url), "{name}: {said}");
        let results = fs::read_to_string(format!("{out}/results.json")).unwrap();
        assert!(results.contains(&format!("stopped by {name}")), "{results}");
    }
}

#[test]
fn a_whole_one_tells_the_trips_and_names_its_report() {
    let out = tempdir().unwrap();
    let printed = fs::File::create(out.path().join("printed")).unwrap();
    let path = out.path().to_str().unwrap();
    let arguments = ["demo", "--repetitions", "2", "--rtt", "2", "--out", path];
    let (status, said) = Onetrip::start(&arguments, printed).end();
    assert!(status.success(), "{said}");
    let printed = fs::read_to_string(out.path().join("printed")).unwrap();
    let parts = ["each awaited", "one pipeline", "in flight", "all update the same row"];
    for part in
        parts.into_iter().chain(["predicted, if none waits for another", "once for each row"])
    {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let trips = |way: &str| {
        let line = printed.lines().find(|line| line.contains(way)).unwrap();
        line.split(way).nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(trips("BEGIN, 2 UPDATEs, COMMIT, each awaited"), "4");
    assert_eq!(trips("BEGIN rides along"), "3");
    assert_eq!(trips("one pipeline"), "1");
    let redis = ["one script", "GETs, pipelined automatically", "10,000 PINGs, no latency added"];
    match found_or_skipped() {
        Some(_) => {
            assert!(redis.iter().all(|part| printed.contains(part)), "{printed}");
            assert_eq!(trips("GET, then SET"), "2");
            assert_eq!(trips("one script"), "1");
        }
        None => {
            assert!(printed.contains("No redis-server or valkey-server was found"), "{printed}")
        }
    }
    assert!(printed.ends_with(&format!("The charts are in {path}/report.html\n")), "{printed}");
    let page = fs::read_to_string(out.path().join("report.html")).unwrap();
    for part in ["predicted, if none waits for another", "It says: ", "once for each row"] {
        assert!(page.contains(part), "{part} is not in the report");
    }
    the_transfers_are_drawn_as_they_were_counted(out.path());
}

/// In the figures, on the page, and in the file that is the picture alone.
fn the_transfers_are_drawn_as_they_were_counted(out: &Path) {
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let results: Value = serde_json::from_str(&read("results.json")).unwrap();
    let cells = results["cells"].as_array().unwrap();
    let recorded: Vec<&Value> =
        cells.iter().map(|it| &it["timeline"]).filter(|it| !it.is_null()).collect();
    let trips: Vec<u64> = recorded.iter().map(|it| it["trips"].as_u64().unwrap()).collect();
    assert_eq!(trips, [4, 3, 1, 1]);
    let messages = recorded.iter().map(|it| it["messages"].as_array().unwrap());
    let done: Vec<Vec<&str>> = messages
        .clone()
        .map(|all| all.iter().flat_map(|it| it["done"].as_array().unwrap()))
        .map(|all| all.map(|it| it.as_str().unwrap()).collect())
        .collect();
    let each = ["BEGIN", "UPDATE", "UPDATE", "COMMIT"];
    assert_eq!(done, [&each[..], &each[..], &each[1..3], &["CALL"]]);
    let messages: usize = messages.map(Vec::len).sum();
    // The key has an arrow of each kind, too.
    for (name, times) in [("report.html", 2), ("transfer.svg", 1)] {
        let text = read(name);
        let arrows =
            ["go", "come"].map(|it| text.matches(&format!("<path class=\"{it}\"")).count());
        assert_eq!(arrows.iter().sum::<usize>(), times * (messages + 2), "{name}");
        let drawn = text.matches("<g class=\"trip\">").count();
        assert_eq!(drawn as u64, times as u64 * trips.iter().sum::<u64>(), "{name}");
    }
}

#[test]
fn output_that_cannot_be_written_is_one_line_and_nobody_listening_is_none() {
    let out = tempdir().unwrap();
    let path = out.path().to_str().unwrap();
    let arguments = ["demo", "--repetitions", "1", "--rtt", "0", "--out", path];
    let (status, said) = Onetrip::start(&arguments, full()).end();
    assert_eq!(status.code(), Some(2), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("onetrip: demo: can't write to standard output: No space"), "{said}");
    let (status, said) = Onetrip::start(&arguments, closed()).end();
    let last =
        if found_or_skipped().is_some() { "removing the keys" } else { "dropping the tables" };
    assert!(status.success() && said.lines().last() == Some(last), "{said}");
}

#[test]
fn a_stop_in_the_part_on_redis_keeps_what_was_measured_before() {
    if found_or_skipped().is_none() {
        return;
    }
    let out = tempdir().unwrap();
    let out = out.path().to_str().unwrap();
    let arguments = ["demo", "--repetitions", "1", "--rtt", "0", "--out", out];
    let mut demo = Onetrip::start(&arguments, Stdio::null());
    demo.wait_for("2/10 ");
    demo.signal(Signal::INT);
    let (status, said) = demo.end();
    assert_eq!(status.code(), Some(128 + 2), "{said}");
    let end = "onetrip: demo: stopped by SIGINT, with what was measured so far\n";
    assert!(said.ends_with(end), "{said}");
    let results = fs::read_to_string(format!("{out}/results.json")).unwrap();
    for part in ["\"update_random_row\"", "\"GET then SET\"", "\"beside\""] {
        assert!(results.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_program_of_redis_that_is_none_is_told_before_anything_is_started() {
    let out = tempdir().unwrap();
    let mut demo = std::process::Command::new(env!("CARGO_BIN_EXE_onetrip"));
    demo.args(["demo", "--out", out.path().to_str().unwrap()])
        .env(REDIS_SERVER_VARIABLE, "/nowhere");
    let output = demo.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(REDIS_SERVER_VARIABLE) && said.contains("/nowhere"), "{said}");
}
