//! The contract of the engine with RESP over many simulated networks; and whether the checks can fail.
#![allow(clippy::unwrap_used)]

use onetrip_lab::sim::redis::{Mutation, Own, Report, run, sweep};

/// What the seeds must have come across, and how often: a generator that stops reaching something would
/// test nothing in silence.
const COVERAGE: [(&str, u64); 37] = [
    ("atomic complete", 1500),
    ("cancelled", 2000),
    ("closed: by an error", 60),
    ("closed: goodbye", 50),
    ("closed: stalled", 80),
    ("closed: transport", 300),
    ("closed: violation", 50),
    ("complete with errors among its replies", 1000),
    ("cut: down", 80),
    ("cut: reset", 40),
    ("cut: silence", 40),
    ("cut: up", 80),
    ("drained", 500),
    ("dropped on its way", 900),
    ("ended Complete", 15000),
    ("ended NotSent at the close", 8000),
    ("ended NotSent at the deadline", 1200),
    ("ended NotSent, cancelled", 2000),
    ("ended Rejected at the close", 10),
    ("ended Rejected at the deadline", 1),
    ("ended Rejected by the server", 3500),
    ("ended Unknown at the close", 4000),
    ("ended Unknown at the deadline", 1500),
    ("ended Unknown by the server", 400),
    ("ended while waiting for room", 3000),
    ("event push", 10000),
    ("full", 800),
    ("part of a reply", 10000),
    ("refused", 5000),
    ("refused to wait", 5000),
    ("requests", 40000),
    ("room announced", 3000),
    ("script complete", 1500),
    ("script loaded", 800),
    ("sent again", 800),
    ("subscription confirmed", 3500),
    ("waited for room", 6000),
];

#[test]
fn the_contract_holds_with_resp_on_two_thousand_simulated_networks() {
    let report = sweep(1, 2000, |_| {}).unwrap_or_else(|failed| panic!("{failed}"));
    let missing: Vec<String> = COVERAGE
        .iter()
        .filter(|(what, least)| report.of(what) < *least)
        .map(|(what, least)| format!("{what}: {} of {least}", report.of(what)))
        .collect();
    assert!(missing.is_empty(), "the seeds no longer reach: {missing:#?}\n{report}");
}

#[test]
fn a_seed_repeats_its_run() {
    for seed in [1, 77, 4711] {
        let lines = |seed| {
            let (send, receive) = std::sync::mpsc::channel();
            let trace = move |line: &str| send.send(line.to_owned()).unwrap();
            run(seed, None, Some(Box::new(trace)));
            receive.into_iter().collect::<Vec<_>>()
        };
        let first = lines(seed);
        assert!(first.len() > 20);
        assert_eq!(first, lines(seed), "seed {seed}");
    }
}

const FORGETTABLE: [Mutation; 3] =
    [Mutation::DropDrained, Mutation::Own(Own::DropPush), Mutation::Own(Own::PushIsReply)];

#[test]
fn every_broken_promise_is_noticed() {
    for mutation in Mutation::all().filter(|mutation| !mutation.is_ambient()) {
        let (mut struck, mut unnoticed) = (0, Vec::new());
        for seed in 1..=100 {
            let run = run(seed, Some(mutation), None);
            if run.mutated {
                struck += 1;
                // Where the connection ends before anything else comes, nobody misses these.
                let spared = FORGETTABLE.contains(&mutation) && ended(&run.report);
                if run.findings.is_empty() && !spared {
                    unnoticed.push(seed);
                }
            }
        }
        assert!(struck >= 10, "{mutation:?} found an occasion in {struck} runs only");
        assert!(unnoticed.is_empty(), "{mutation:?} in {struck} runs, unnoticed in {unnoticed:?}");
    }
}

/// Whether the connection came to its end.
fn ended(report: &Report) -> bool {
    report.iter().any(|(what, _)| what.starts_with("closed: "))
}

#[test]
fn a_host_or_engine_that_is_wrong_throughout_is_noticed() {
    for mutation in Mutation::all().filter(|mutation| mutation.is_ambient()) {
        let noticed =
            (1..=100).filter(|seed| !run(*seed, Some(mutation), None).findings.is_empty());
        let noticed = noticed.count();
        assert!(noticed >= 5, "{mutation:?} was noticed in {noticed} runs of 100");
    }
}
