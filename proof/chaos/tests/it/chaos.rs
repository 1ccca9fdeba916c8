//! Ten seconds of chaos with PostgreSQL. `ONETRIP_SEED=n` repeats the faults of one seed,
//! `ONETRIP_SECONDS=n` sets another duration.

use onetrip_chaos::{Kind, Options, postgres};

#[test]
fn what_the_client_says_is_true_while_everything_breaks() {
    postgres::run(&Options::of_a_test()).judge(&Kind::POSTGRES);
}
