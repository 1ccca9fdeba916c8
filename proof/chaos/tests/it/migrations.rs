//! Kinds of DDL under a running client. `ONETRIP_SEED=n` repeats the choices of one seed,
//! `ONETRIP_SECONDS=n` goes on for so long, and `ONETRIP_CASE=text` runs the cases whose names
//! contain it.

use onetrip_chaos::Options;
use onetrip_chaos::migrations::{Setting, run};

#[test]
fn a_migration_changes_no_value_in_secret() {
    let only = std::env::var("ONETRIP_CASE").unwrap_or_default();
    let is_timed = std::env::var("ONETRIP_SECONDS").is_ok();
    let rounds = (!is_timed).then_some(if only.is_empty() { 20 } else { 3 });
    let report = run(&Options::of_a_test(), &Setting { rounds, only });
    println!("{report}");
    assert!(report.findings.is_empty(), "{}", report.findings.join("\n"));
    assert!(report.uses > 0, "{report}");
}
