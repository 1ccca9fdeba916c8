//! Ten seconds of chaos with a Redis server. `ONETRIP_SEED=n` repeats the faults of one seed,
//! `ONETRIP_SECONDS=n` sets another duration.

use onetrip_chaos::{Kind, Options, redis};
use onetrip_lab::redis::found_or_skipped;

#[test]
fn what_the_client_says_is_true_while_everything_breaks() {
    if found_or_skipped().is_some() {
        redis::run(&Options::of_a_test()).judge(&Kind::REDIS);
    }
}
