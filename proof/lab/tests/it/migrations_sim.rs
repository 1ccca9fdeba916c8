//! What a client of PostgreSQL remembers, over many simulated migrations; and whether the checks can
//! fail.

use onetrip_lab::sim::{OfMigrations, run_migrations, sweep_migrations};

/// What the seeds must have come across, and how often.
const COVERAGE: [(&str, u64); 20] = [
    ("a migration waited", 100),
    ("a name that was taken", 400),
    ("by its name", 2_500),
    ("by its text", 9_000),
    ("connections cut", 5),
    ("copies", 400),
    ("copies that were found out", 8),
    ("failed as it would anew", 900),
    ("failed for a migration", 40),
    ("failed since statements were lost", 12),
    ("loosened", 1_800),
    ("migrations", 1_200),
    ("misfits", 20),
    ("misread", 2),
    ("parsed under a name", 4_000),
    ("paths set", 50),
    ("rows read", 8_000),
    ("sent again, as its text is by now", 120),
    ("transactions", 60),
    ("values stored", 10_000),
];

#[test]
fn no_value_is_wrong_and_an_error_comes_once_in_250_runs() {
    let report = sweep_migrations(1, 250, |_| {}).unwrap_or_else(|failed| panic!("{failed}"));
    for (what, least) in COVERAGE {
        assert!(report.of(what) >= least, "{what}: {} of {least}\n{report}", report.of(what));
    }
}

#[test]
fn a_seed_repeats_its_run() {
    let lines = |seed| {
        let (send, receive) = std::sync::mpsc::channel();
        let trace = move |line: &str| send.send(line.to_owned()).unwrap();
        let _ = run_migrations(seed, None, Some(Box::new(trace)));
        receive.into_iter().collect::<Vec<_>>()
    };
    let first = lines(77);
    assert!(first.len() > 20);
    assert_eq!(first, lines(77));
}

#[test]
fn each_mistake_is_noticed() {
    for mistake in OfMigrations::ALL {
        let noticed =
            (1..=400).any(|seed| !run_migrations(seed, Some(mistake), None).findings.is_empty());
        assert!(noticed, "{mistake:?}");
    }
}
