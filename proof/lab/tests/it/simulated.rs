//! The tests that every simulation has to pass.

use onetrip_lab::sim::{Mutation, Report, Side, run, sweep};

/// The contract holds over two thousand seeds, in which each of these occurs at least this often.
/// Without that check, a generator could silently stop reaching a case.
pub(crate) fn assert_holds<S: Side>(coverage: &[(&str, u64)]) {
    let report = sweep::<S>(1, 2000, |_| {}).unwrap_or_else(|failed| panic!("{failed}"));
    let missing: Vec<String> = coverage
        .iter()
        .filter(|(what, least)| report.of(what) < *least)
        .map(|(what, least)| format!("{what}: {} of {least}", report.of(what)))
        .collect();
    assert!(missing.is_empty(), "the seeds no longer reach: {missing:#?}\n{report}");
}

pub(crate) fn assert_repeats<S: Side>() {
    for seed in [1, 77, 4711] {
        let lines = |seed| {
            let (send, receive) = std::sync::mpsc::channel();
            let trace = move |line: &str| send.send(line.to_owned()).unwrap();
            run::<S>(seed, None, Some(Box::new(trace)));
            receive.into_iter().collect::<Vec<_>>()
        };
        let first = lines(seed);
        assert!(first.len() > 20);
        assert_eq!(first, lines(seed), "seed {seed}");
    }
}

/// Each of these mutations is noticed in every run that applies it. If the connection ends before
/// anything else comes, those in `forgettable` may stay unnoticed.
pub(crate) fn assert_noticed<S: Side>(
    mutations: impl Iterator<Item = Mutation<S::Mutation>>,
    forgettable: &[Mutation<S::Mutation>],
) {
    for mutation in mutations {
        let (mut struck, mut unnoticed) = (0, Vec::new());
        for seed in 1..=100 {
            let run = run::<S>(seed, Some(mutation), None);
            if run.mutated {
                struck += 1;
                let spared = forgettable.contains(&mutation) && ended(&run.report);
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

/// Mutations that affect a whole run are noticed in some of the runs.
pub(crate) fn assert_ambient_noticed<S: Side>() {
    for mutation in Mutation::<S::Mutation>::all().filter(|mutation| mutation.is_ambient()) {
        let noticed =
            (1..=100).filter(|seed| !run::<S>(*seed, Some(mutation), None).findings.is_empty());
        let noticed = noticed.count();
        assert!(noticed >= 5, "{mutation:?} was noticed in {noticed} runs of 100");
    }
}
