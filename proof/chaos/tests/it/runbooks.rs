//! The runbooks of docs/operations/runbooks.md, carried out while 200 tasks write. `ONETRIP_SEED=n`
//! repeats what the writers choose.

use onetrip_chaos::{Kind, Options, Report, runbooks};

/// Carries out a runbook: nothing may be lost or doubled, and every call must end with a true
/// outcome.
fn carried_out(title: &str) -> Report {
    let report = runbooks::run(title, &Options::of_a_test());
    println!("{title}: {report}");
    assert!(
        report.findings.is_empty(),
        "{title}, seed {}:\n{}",
        report.seed,
        report.findings.join("\n")
    );
    assert!(report.tally.acknowledged > 0, "{title}: {report}");
    // A call waits for a connection, unless it has a deadline. Only what has its connection already
    // can lose it before it sends something: on 8 connections, a transaction of at most 4 rows each,
    // or a COPY of at most 31.
    let faults: u64 = report.faults.values().sum();
    for (is_copy, rows_max) in [(false, 4), (true, 31)] {
        let ways = report.tally.ways.iter().filter(|(way, _)| (**way == "COPY") == is_copy);
        let patient = ways.filter(|(way, _)| !way.contains("deadline"));
        let not_sent: u64 = patient.filter_map(|(_, claims)| claims.get("NotSent")).sum();
        assert!(not_sent <= 8 * rows_max * faults, "{title}: {:?}", report.tally.ways);
    }
    report
}

#[test]
fn a_rolling_restart_loses_nothing() {
    assert_eq!(carried_out("Rolling restart").faults[&Kind::FastRestart], 1);
}

#[test]
fn a_planned_switchover_loses_nothing() {
    assert_eq!(carried_out("Planned switchover").faults[&Kind::FastRestart], 1);
}

#[test]
fn a_rotation_of_a_password_is_noticed_by_no_call() {
    let report = carried_out("Rotation of a password");
    assert!(report.faults.is_empty() && report.tally.unknown == 0, "{report}");
}
