//! `onetrip demo`: what it leaves on a user's server and on the disk.

use std::fs;
use std::process::Stdio;

use crate::database::{database, has_schema};
use crate::process::{Onetrip, closed, full};
use rustix::process::Signal;
use tempfile::tempdir;

#[test]
fn stopping_by_any_signal_leaves_no_schema_and_a_report_of_what_was_measured() {
    let url = database();
    let out = tempdir().unwrap();
    let out = out.path().to_str().unwrap();
    for (signal, name) in
        [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP")]
    {
        let arguments = ["demo", "--url", &url, "--out", out];
        let mut demo = Onetrip::start(&arguments, Stdio::null());
        demo.wait_for("1/54");
        demo.signal(signal);
        let (status, said) = demo.end();
        assert_eq!(status.code(), Some(2), "{said}");
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
    let arguments = ["demo", "--repetitions", "1", "--rtt", "2", "--out", path];
    let (status, said) = Onetrip::start(&arguments, printed).end();
    assert!(status.success(), "{said}");
    let printed = fs::read_to_string(out.path().join("printed")).unwrap();
    for part in ["each awaited", "one pipeline", "on their way at once", "all update the same row"]
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
    assert!(printed.ends_with(&format!("The charts are in {path}/report.html\n")), "{printed}");
    assert!(fs::read_to_string(out.path().join("report.html")).unwrap().contains("<svg"));
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
    assert!(status.success() && said.ends_with("dropping the tables\n"), "{said}");
}
