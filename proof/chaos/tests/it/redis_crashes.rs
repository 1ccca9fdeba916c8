//! Ten seconds of chaos with a cluster of Redis servers whose masters crash. `ONETRIP_SEED=n`
//! repeats the faults of one seed, `ONETRIP_SECONDS=n` sets another duration.

use onetrip_chaos::{Kind, Options, redis};
use onetrip_lab::redis::found_or_skipped;

#[test]
fn what_a_replica_had_stays_when_masters_crash() {
    if found_or_skipped().is_some() {
        let report = redis::run_crashes(&Options::of_a_test());
        report.judge(&Kind::REDIS_CRASHES);
        assert!(report.tally.copied > 0, "no write was copied: {report}");
    }
}
