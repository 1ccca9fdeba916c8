//! Commands that can't be sent, each with one clear error.

use std::time::Duration;

use onetrip::redis::Client;
use onetrip::{Kind, Outcome};

use crate::support::{client, config, key};

#[tokio::test]
async fn what_changes_its_connection_is_refused_on_the_shared_one() {
    let Some(client) = client().await else { return };
    for name in
        ["WATCH", "MULTI", "SELECT", "CLIENT REPLY", "MONITOR", "SUBSCRIBE", "HELLO", "WAIT"]
    {
        let error = client.cmd(name).arg("x").send::<()>().await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (Kind::Misuse, Outcome::NotSent), "{error}");
        assert!(error.to_string().starts_with(name), "{error}");
    }
}

#[tokio::test]
async fn an_argument_too_large_is_refused_before_it_is_sent() {
    let Some(config) = config() else { return };
    let config = config.limits(|limits| limits.argument_bytes_max = 1_000);
    let client = Client::connect_with(&config).await.unwrap();
    let error = client.cmd("SET").arg(key("k")).arg(vec![0; 1_001]).send::<()>().await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), ("argument_too_large", Outcome::NotSent));
    client.cmd("PING").send::<()>().await.unwrap();
}

#[tokio::test]
async fn a_closed_client_sends_nothing() {
    let Some(client) = client().await else { return };
    let clone = client.clone();
    let before = client.cmd("PING").send::<String>();
    client.close();
    assert_eq!(before.await.unwrap(), "PONG", "what was sent is answered");
    let error = clone.cmd("PING").send::<()>().await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), ("closed", Outcome::NotSent), "{error}");
    while client.metrics().open > 0 {
        tokio::task::yield_now().await;
    }
    let error = clone.cmd("PING").send::<()>().await.unwrap_err();
    assert!(error.to_string().contains("closed by this program"), "{error}");
}

#[tokio::test]
async fn a_reply_that_does_not_fit_says_what_it_is_and_that_the_command_ran() {
    let Some(client) = client().await else { return };
    let key = key("list");
    let error = client.cmd("RPUSH").arg(&key).arg("x").send::<Vec<String>>().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (Kind::Conversion, Outcome::Applied));
    let text = error.to_string();
    assert!(text.contains("RPUSH") && text.contains("integer"), "{text}");
    assert_eq!(client.cmd("LLEN").arg(&key).send::<i64>().await.unwrap(), 1);
}

#[tokio::test]
async fn a_deadline_leaves_the_connection_as_it_is() {
    let Some(client) = client().await else { return };
    let late = client.timeout(Duration::from_millis(30));
    let error = late.cmd("DEBUG SLEEP").arg("0").send::<()>().await;
    // The server may refuse DEBUG; a script takes its time as well.
    let _ = error;
    let script = onetrip::redis::Script::new(
        "while true do local t = redis.call('TIME') if tonumber(t[1]) * 1000000 + tonumber(t[2]) > tonumber(ARGV[1]) then return 1 end end",
    );
    let now: (i64, i64) = client.cmd("TIME").send().await.unwrap();
    let end = now.0 * 1_000_000 + now.1 + 200_000;
    let error = late.script::<i64>(script.call([""; 0], [end])).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (Kind::Timeout, Outcome::Unknown));
    assert_eq!(client.cmd("ECHO").arg("x").send::<String>().await.unwrap(), "x");
}

#[tokio::test]
async fn a_full_queue_refuses_where_it_is_asked_to() {
    let Some(config) = config() else { return };
    let config = config.limits(|limits| {
        limits.when_full = onetrip::config::WhenFull::Refuse;
        (limits.in_flight_max, limits.queue_max) = (1, 1);
    });
    let client = Client::connect_with(&config).await.unwrap();
    let replies: Vec<_> = (0..10).map(|_| client.cmd("PING").send::<()>()).collect();
    let mut refused = 0;
    for reply in replies {
        if let Err(error) = reply.await {
            assert_eq!((error.code(), error.outcome()), ("queue_full", Outcome::NotSent));
            refused += 1;
        }
    }
    assert_eq!(refused, 8);
}
