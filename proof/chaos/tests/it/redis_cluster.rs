//! Ten seconds of chaos with a cluster of Redis servers. `ONETRIP_SEED=n` repeats the faults of one
//! seed, `ONETRIP_SECONDS=n` sets another duration.

use onetrip_chaos::{Kind, Options, redis};
use onetrip_lab::redis::found_or_skipped;

#[test]
fn what_was_acknowledged_stays_while_nodes_die_and_slots_move() {
    if found_or_skipped().is_some() {
        redis::run_cluster(&Options::of_a_test()).judge(&Kind::REDIS_CLUSTER);
    }
}
