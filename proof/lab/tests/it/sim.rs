//! The contract of the engine over many simulated networks; and whether the checks can fail.

use crate::simulated;
use onetrip_lab::sim::{Mutation, OfPostgres, Postgres, Report, run, sweep};

/// What the seeds must have come across, and how often.
const COVERAGE: [(&str, u64); 70] = [
    ("requests", 40_000),
    ("cut: up", 80),
    ("cut: down", 80),
    ("cut: reset", 40),
    ("cut: silence", 40),
    ("closed: goodbye", 40),
    ("closed: transport", 300),
    ("closed: FATAL", 50),
    ("closed: violation", 50),
    ("closed: stalled", 50),
    ("ended Complete", 10_000),
    ("ended Provisional", 5000),
    ("ended Rejected by the server", 2000),
    ("ended Unknown by the server", 80),
    ("ended Rejected, aborted", 1000),
    ("ended Unknown, aborted", 20),
    ("ended NotSent, aborted", 250),
    ("ended NotSent at the deadline", 2500),
    ("ended Unknown at the deadline", 800),
    ("ended Rejected at the deadline", 1),
    ("ended NotSent, cancelled", 1500),
    ("ended NotSent at the close", 8000),
    ("ended Unknown at the close", 3000),
    ("ended Rejected at the close", 1),
    ("ended while waiting for room", 2000),
    ("sent again and answered", 60),
    ("group granted", 1500),
    ("group withdrawn", 30),
    ("group flushed", 200),
    ("slow reader took some", 10_000),
    ("replies no longer counted", 80),
    ("refused in a group", 5000),
    ("transaction committed", 80),
    ("transaction rolled back", 150),
    ("waited for room", 4000),
    ("room announced", 2000),
    ("refused", 3000),
    ("refused to wait", 3000),
    ("dropped on its way", 1000),
    ("cancelled", 1500),
    ("cancel wanted", 5000),
    ("cancel of a group wanted", 800),
    ("cancel asked for", 400),
    ("cancel given up", 800),
    ("cancel sent", 300),
    ("cancel hit", 120),
    ("cancel hit nothing", 100),
    ("cancel astray", 20),
    ("full", 800),
    ("drained", 500),
    ("shared a sync point", 1000),
    ("sent again for a neighbour", 80),
    ("event notice", 5000),
    ("event notification", 3000),
    ("event parameter status", 3000),
    ("owner changed", 200),
    ("owner changed, with a reset", 80),
    ("reset", 100),
    ("reset that failed", 30),
    ("closed: not reset", 2),
    ("closed: changed by one of all", 2),
    ("found what was its own", 400),
    ("names are kept", 80),
    ("names are lost", 40),
    ("names are not known to be kept", 100),
    ("run", 200),
    ("run with sync points", 40),
    ("transaction left open", 8),
    ("transaction that did not wait", 25),
    ("skipped behind a reset", 10),
];

#[test]
fn the_contract_holds_on_two_thousand_simulated_networks() {
    simulated::assert_holds::<Postgres>(&COVERAGE);
}

#[test]
fn a_seed_repeats_its_run() {
    simulated::assert_repeats::<Postgres>();
}

#[test]
fn every_broken_promise_is_noticed() {
    let each =
        Mutation::all().filter(|mutation| !(mutation.is_ambient() || is_of_owners(mutation)));
    simulated::assert_noticed::<Postgres>(each, &[Mutation::DropDrained]);
}

#[test]
fn a_host_or_engine_that_is_wrong_throughout_is_noticed() {
    simulated::assert_ambient_noticed::<Postgres>();
}

/// Whether it is of the protocol, where a session changes hands.
fn is_of_owners(mutation: &Mutation<OfPostgres>) -> bool {
    matches!(mutation, Mutation::Own(own) if own.is_of_owners())
}

#[test]
fn whoever_forgets_what_another_left_in_the_session_is_noticed() {
    for mutation in Mutation::all().filter(is_of_owners) {
        let mut seeds = 1..=2000;
        let noticed = seeds.find(|seed| {
            let run = run::<Postgres>(*seed, Some(mutation), None);
            run.mutated && !run.findings.is_empty()
        });
        assert!(noticed.is_some(), "{mutation:?} goes unnoticed");
    }
}

#[test]
fn reports_add_up() {
    let mut total = Report::default();
    for seed in 1..=5 {
        total.merge(&run::<Postgres>(seed, None, None).report);
    }
    assert_eq!(total.of("runs"), 5);
    assert_eq!(sweep::<Postgres>(1, 5, |_| {}).unwrap(), total);
}
