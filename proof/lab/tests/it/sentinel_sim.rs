//! The policy of a client of Redis Sentinel over many simulated failovers; and whether the checks
//! can fail.

use onetrip_lab::sim::{OfSentinel, run_sentinel, sweep_sentinel};

/// What the seeds must have come across, and how often.
const COVERAGE: [(&str, u64); 8] = [
    ("answered READONLY", 5),
    ("connected", 2_500),
    ("failover", 1_500),
    ("failover while not connected", 50),
    ("not found", 25),
    ("not the master", 8),
    ("the old master went on", 500),
    ("written to a former master that was not known to be one", 500),
];

#[test]
fn no_older_master_is_written_to_and_the_newest_is_found_in_three_hundred_runs() {
    let report = sweep_sentinel(1, 300, |_| {}).unwrap_or_else(|failed| panic!("{failed}"));
    for (what, least) in COVERAGE {
        assert!(report.of(what) >= least, "{what}: {} of {least}\n{report}", report.of(what));
    }
}

#[test]
fn a_seed_repeats_its_run() {
    let lines = |seed| {
        let (send, receive) = std::sync::mpsc::channel();
        let trace = move |line: &str| send.send(line.to_owned()).unwrap();
        let _ = run_sentinel(seed, None, Some(Box::new(trace)));
        receive.into_iter().collect::<Vec<_>>()
    };
    let first = lines(77);
    assert!(first.len() > 20);
    assert_eq!(first, lines(77));
}

#[test]
fn each_mistake_is_noticed() {
    for mistake in OfSentinel::ALL {
        let noticed =
            (1..=300).any(|seed| !run_sentinel(seed, Some(mistake), None).findings.is_empty());
        assert!(noticed, "{mistake:?}");
    }
}
