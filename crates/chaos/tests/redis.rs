//! Ten seconds of chaos with a Redis server, and as many with a cluster. `ONETRIP_SEED=n` repeats the faults of one
//! seed, `ONETRIP_SECONDS=n` asks for another time.

use std::time::Duration;

use onetrip_chaos::{Kind, Options, Report, redis};
use onetrip_lab::redis::found_or_skipped;

fn options() -> Options {
    let seconds = std::env::var("ONETRIP_SECONDS").ok().and_then(|text| text.parse().ok());
    let options = Options::new(Duration::from_secs(seconds.unwrap_or(10)));
    println!("ONETRIP_SEED={}", options.seed);
    options
}

/// Fails on what was found, and where nothing was met: that shows nothing.
fn judge(report: &Report, kinds: &[Kind]) {
    println!("{report}");
    let findings = report.findings.join("\n");
    assert!(findings.is_empty(), "seed {}:\n{findings}", report.seed);
    assert!(kinds.iter().all(|kind| report.faults.contains_key(kind)), "{report}");
    let tally = &report.tally;
    let met = [tally.acknowledged, tally.unknown, tally.not_sent, tally.rejected, report.lost];
    assert!(met.iter().all(|count| *count > 0), "{report}");
    assert!(tally.unknown <= tally.in_flight, "{report}");
}

#[test]
fn what_the_client_says_is_true_while_everything_breaks() {
    if found_or_skipped().is_some() {
        judge(&redis::run(&options()), &Kind::REDIS);
    }
}

#[test]
fn nothing_is_lost_while_nodes_of_a_cluster_die_and_slots_move() {
    if found_or_skipped().is_some() {
        judge(&redis::run_cluster(&options()), &Kind::REDIS_CLUSTER);
    }
}
