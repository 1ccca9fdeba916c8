//! A bounded run, a condition that is asked for until it is true, and errors with their outcome.

use std::fmt::Debug;
use std::time::Duration;

use onetrip::{Client, Error, Outcome};

/// A test that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        let ended = tokio::time::timeout(PATIENCE, test).await;
        assert!(ended.is_ok(), "something never ended");
    });
}

/// Asks until `wish` returns true. The run's patience bounds it.
pub(crate) async fn until(mut wish: impl AsyncFnMut() -> bool) {
    while !wish().await {
        tokio::task::yield_now().await;
    }
}

#[track_caller]
pub(crate) fn error<T: Debug>(result: Result<T, Error>) -> Error {
    result.expect_err("this should have failed")
}

/// Checks for an error with this outcome and this code.
#[track_caller]
pub(crate) fn failed<T: Debug>(result: Result<T, Error>, outcome: Outcome, code: &str) -> Error {
    let error = error(result);
    assert_eq!((error.outcome(), error.code()), (outcome, code), "{error}");
    error
}

/// Checks that a client works, and that its reply is the right one.
pub(crate) async fn assert_usable(client: &Client) {
    let reply = client.query_one("select 20 + $1", &[&22]).await.unwrap();
    assert_eq!(reply.get::<i32>(0), 42);
}
