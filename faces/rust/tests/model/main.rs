//! Threads that pass connections on around the pool's lock, under a scheduler that tries many
//! interleavings ([shuttle]). The code under test is the client's own: `src/pool/exchange.rs`, with
//! the engine's policy behind it, and the checker's locks and atomics in place of the standard
//! library's.
//!
//! A failure prints the schedule, which `shuttle::replay` repeats.
//!
//! [shuttle]: https://docs.rs/shuttle

#![allow(clippy::unwrap_used)]

#[path = "../../src/pool/cells.rs"]
#[expect(dead_code, reason = "this model has no list of shared connections")]
mod cells;
#[path = "../../src/pool/exchange.rs"]
#[allow(dead_code, reason = "no timer is set in this model")]
mod exchange;
#[path = "../../src/pool/hints.rs"]
#[expect(dead_code, reason = "this model has no growth")]
mod hints;
mod host;

/// In place of `src/sync.rs`.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};

    /// Few, since each shard is one more place where the scheduler may switch.
    pub(crate) const SHARDS: usize = 2;

    /// Each thread of the model has a shard of its own.
    pub(crate) fn thread_number() -> usize {
        shuttle::current::me().into()
    }
}

use host::{Fault, Host, model};
use shuttle::Runner;
use shuttle::scheduler::{PctScheduler, RandomScheduler};

/// Few interleavings fail, and some of them only after rare switches, so both kinds of scheduler
/// are used.
const RUNS: usize = 1_500;

fn check(test: impl Fn() + Send + Sync + 'static) {
    let test = std::sync::Arc::new(test);
    let again = test.clone();
    Runner::new(RandomScheduler::new(RUNS), config()).run(move || test());
    Runner::new(PctScheduler::new(3, RUNS), config()).run(move || again());
}

/// The policy needs more stack than the threads of the model have by default.
fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = 256 << 10;
    config
}

/// Whether an interleaving of a broken variant fails: a model that finds nothing proves nothing.
fn is_found(test: impl Fn() + Send + Sync + 'static) -> bool {
    let run = std::panic::AssertUnwindSafe(|| check(test));
    std::panic::catch_unwind(run).is_err()
}

#[test]
fn who_waits_gets_the_connection_that_another_thread_gives_back() {
    check(|| model(1, 3, 2, Fault::None));
}

#[test]
fn no_connection_is_in_two_hands() {
    check(|| model(2, 4, 2, Fault::None));
}

#[test]
fn a_pool_that_is_closed_gets_all_connections_back() {
    check(|| {
        let host = Host::new(2);
        let threads: Vec<_> = (0..2).map(|_| host.user(2, Fault::None)).collect();
        host.close();
        threads.into_iter().for_each(|it| it.join().unwrap());
        assert_eq!(host.connections(), 0, "one is still in a cell");
    });
}

#[test]
fn a_session_that_does_not_look_again_is_found_out() {
    assert!(is_found(|| model(1, 2, 1, Fault::NoSecondLook)));
}

#[test]
fn a_caller_that_does_not_look_into_the_cells_is_found_out() {
    assert!(is_found(|| model(1, 2, 1, Fault::NoCollection)));
}
