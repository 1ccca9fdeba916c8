//! Commands one by one and together.

use bytes::Bytes;
use onetrip::Outcome;

use crate::support::{client, key};

#[tokio::test]
async fn calls_made_before_the_first_is_awaited_are_answered_in_order() {
    let Some(client) = client().await else { return };
    let key = key("n");
    let replies: Vec<_> = (0..5_000).map(|_| client.cmd("INCR").arg(&key).send::<i64>()).collect();
    for (n, reply) in (1..).zip(replies) {
        assert_eq!(reply.await.unwrap(), n);
    }
}

#[tokio::test]
async fn a_value_of_any_bytes_comes_back_as_it_was() {
    let Some(client) = client().await else { return };
    let key = key("bytes");
    let value: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    client.cmd("SET").arg(&key).arg(&value).send::<()>().await.unwrap();
    let read: Bytes = client.cmd("GET").arg(&key).send().await.unwrap();
    assert_eq!(read, value);
}

#[tokio::test]
async fn an_error_of_the_server_names_the_command_and_says_that_nothing_happened() {
    let Some(client) = client().await else { return };
    let key = key("string");
    client.cmd("SET").arg(&key).arg("x").send::<()>().await.unwrap();
    let error = client.cmd("LPUSH").arg(&key).arg("y").send::<i64>().await.unwrap_err();
    assert_eq!(error.redis_code(), Some("WRONGTYPE"));
    assert_eq!(error.outcome(), Outcome::Rejected);
    assert!(error.to_string().starts_with("LPUSH: WRONGTYPE"), "{error}");
}

#[tokio::test]
async fn pipelines_have_an_error_for_each_command() {
    let Some(client) = client().await else { return };
    let key = key("mixed");
    let pipeline = client.pipeline();
    let set = pipeline.cmd("SET").arg(&key).arg("x").send::<()>();
    let wrong = pipeline.cmd("LPUSH").arg(&key).arg("y").send::<i64>();
    let get = pipeline.cmd("GET").arg(&key).send::<Bytes>();
    let replies = pipeline.run().await.unwrap();
    replies.get(set).unwrap();
    assert_eq!(replies.get(wrong).unwrap_err().redis_code(), Some("WRONGTYPE"));
    assert_eq!(replies.get(get).unwrap(), "x");
}
