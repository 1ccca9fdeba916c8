//! Scripts: EVAL first, EVALSHA after.

use onetrip::Outcome;
use onetrip::redis::{Client, Script};

use crate::support::{client, key};

async fn calls(client: &Client, command: &str) -> i64 {
    let stats: String = client.cmd("INFO").arg("commandstats").send().await.unwrap();
    let line =
        stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// A script that no other test uses, so that the server does not know it.
fn script() -> Script {
    Script::new(format!("return redis.call('INCRBY', KEYS[1], ARGV[1]) -- {}", key("script")))
}

#[tokio::test]
async fn the_text_is_sent_once_and_then_the_hash_in_pipelines_too() {
    let Some(server) = crate::support::server(Default::default()) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let (script, key) = (script(), key("n"));
    let pipeline = client.pipeline();
    let first = pipeline.script::<i64>(script.call([&key], [1]));
    let second = pipeline.script::<i64>(script.call([&key], [2]));
    let replies = pipeline.run().await.unwrap();
    assert_eq!((replies.get(first).unwrap(), replies.get(second).unwrap()), (1, 3));
    assert_eq!(client.script::<i64>(script.call([&key], [3])).await.unwrap(), 6);
    assert_eq!((calls(&client, "eval").await, calls(&client, "evalsha").await), (1, 2));
}

#[tokio::test]
async fn a_script_that_the_server_forgot_is_loaded_again() {
    let Some(client) = client().await else { return };
    let (script, key) = (script(), key("n"));
    assert_eq!(client.script::<i64>(script.call([&key], [1])).await.unwrap(), 1);
    client.cmd("SCRIPT FLUSH").send::<()>().await.unwrap();
    assert_eq!(client.script::<i64>(script.call([&key], [1])).await.unwrap(), 2);
    assert_eq!(client.metrics().counts.healed, 1);
}

#[tokio::test]
async fn with_something_sent_behind_it_the_error_is_the_callers() {
    let Some(client) = client().await else { return };
    let (script, key) = (script(), key("n"));
    client.script::<i64>(script.call([&key], [1])).await.unwrap();
    client.cmd("SCRIPT FLUSH").send::<()>().await.unwrap();
    // All leave in one write, and repeating the first would let the second overtake it.
    let call = client.script::<i64>(script.call([&key], [1]));
    let behind = client.cmd("GET").arg(&key).send::<i64>();
    let error = call.await.unwrap_err();
    assert_eq!((error.redis_code(), error.outcome()), (Some("NOSCRIPT"), Outcome::Rejected));
    assert_eq!(behind.await.unwrap(), 1);
    assert_eq!(client.script::<i64>(script.call([&key], [1])).await.unwrap(), 2);
}

#[tokio::test]
async fn an_error_from_within_leaves_what_was_written() {
    let Some(client) = client().await else { return };
    let key = key("n");
    let script =
        Script::new("redis.call('SET', KEYS[1], 1) return redis.call('LPUSH', KEYS[1], 1)");
    let error = client.script::<i64>(script.call([&key], [0; 0])).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    assert_eq!(client.cmd("GET").arg(&key).send::<i64>().await.unwrap(), 1);
}

#[tokio::test]
async fn in_an_atomic_list_it_runs_whatever_the_connection_knows() {
    let Some(client) = client().await else { return };
    let (script, key) = (script(), key("n"));
    for n in 1..=2 {
        let list = client.atomic();
        let call = list.script::<i64>(script.call([&key], [1]));
        assert_eq!(list.run().await.unwrap().get(call).unwrap(), n);
    }
}

#[tokio::test]
async fn pipelines_whose_scripts_were_forgotten_send_the_texts_the_next_time() {
    let Some(server) = crate::support::server(Default::default()) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let (script, key) = (script(), key("n"));
    client.script::<i64>(script.call([&key], [1])).await.unwrap();

    client.cmd("SCRIPT FLUSH").send::<()>().await.unwrap();
    let run = || {
        let pipeline = client.pipeline();
        let call = pipeline.script::<i64>(script.call([&key], [1]));
        let running = pipeline.run();
        async move { running.await.unwrap().get(call) }
    };
    assert_eq!(run().await.unwrap_err().redis_code(), Some("NOSCRIPT"));
    assert_eq!(run().await.unwrap(), 2);
}

#[tokio::test]
async fn in_an_atomic_list_a_script_that_the_server_forgot_runs_with_the_others() {
    let Some(server) = crate::support::server(Default::default()) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let other = Client::connect(&server.url()).await.unwrap();
    let session = client.session().await.unwrap();
    let (script, n, m) = (script(), key("n"), key("m"));
    for round in 1..=10 {
        // Both connections know the script's hash.
        client.script::<i64>(script.call([&n], [0])).await.unwrap();
        session.script::<i64>(script.call([&n], [0])).await.unwrap();
        session.watch([&n]).await.unwrap();
        other.cmd("SCRIPT FLUSH").send::<()>().await.unwrap();
        let run = |list: onetrip::redis::Atomic<'_>| {
            let added = list.cmd("INCR").arg(&m).send::<i64>();
            let called = list.script::<i64>(script.call([&n], [1]));
            let running = list.run();
            async move {
                let replies = running.await.unwrap();
                (replies.get(added).unwrap(), replies.get(called).unwrap())
            }
        };
        assert_eq!(run(session.atomic()).await, (2 * round - 1, 2 * round - 1));
        other.cmd("SCRIPT FLUSH").send::<()>().await.unwrap();
        assert_eq!(run(client.atomic()).await, (2 * round, 2 * round));
    }
}

#[tokio::test]
async fn between_multi_and_exec_by_hand_a_script_that_the_server_forgot_runs_with_the_others() {
    let Some(server) = crate::support::server(Default::default()) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let session = client.session().await.unwrap();
    let (script, n) = (script(), key("n"));
    session.script::<i64>(script.call([&n], [1])).await.unwrap();
    for round in 0..3 {
        client.cmd("SCRIPT FLUSH").send::<()>().await.unwrap();
        // The pipeline is built before MULTI, and sent behind it.
        let pipeline = session.pipeline();
        let _ = pipeline.script::<String>(script.call([&n], [1]));
        let _ = pipeline.script::<String>(script.call([&n], [1]));
        session.cmd("MULTI").send::<()>().await.unwrap();
        session.script::<String>(script.call([&n], [1])).await.unwrap();
        pipeline.run().await.unwrap();
        let all: Vec<i64> = session.cmd("EXEC").send().await.unwrap();
        assert_eq!(all, [2, 3, 4].map(|n| n + 3 * round));
    }
}

#[tokio::test]
async fn a_script_that_was_only_queued_is_not_taken_for_known() {
    let Some(server) = crate::support::server(Default::default()) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let session = client.session().await.unwrap();
    let (script, n) = (script(), key("n"));
    session.cmd("MULTI").send::<()>().await.unwrap();
    session.script::<String>(script.call([&n], [1])).await.unwrap();
    session.cmd("DISCARD").send::<()>().await.unwrap();
    let call = session.script::<i64>(script.call([&n], [1]));
    let behind = session.cmd("GET").arg(&n).send::<i64>();
    assert_eq!((call.await.unwrap(), behind.await.unwrap()), (1, 1));
}

#[tokio::test]
async fn a_hash_in_an_atomic_list_that_the_server_does_not_know_says_that_it_did_not_run() {
    let Some(client) = client().await else { return };
    let list = client.atomic();
    let call = list.cmd("EVALSHA").arg(script().sha()).arg(0).send::<i64>();
    let error = list.run().await.unwrap().get(call).unwrap_err();
    assert_eq!((error.redis_code(), error.outcome()), (Some("NOSCRIPT"), Outcome::Rejected));
}

#[tokio::test]
async fn a_pipeline_whose_script_was_refused_unread_sends_its_text_the_next_time() {
    let settings =
        onetrip_lab::redis::Settings::default().user("app", "on >secret ~* &* +@all -eval");
    let Some(server) = crate::support::server(settings) else { return };
    let admin = Client::connect(&server.url()).await.unwrap();
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let client = Client::connect(&url).await.unwrap();
    let (script, key) = (script(), key("n"));
    let run = || {
        let pipeline = client.pipeline();
        let call = pipeline.script::<i64>(script.call([&key], [1]));
        let running = pipeline.run();
        async move { running.await.unwrap().get(call) }
    };
    assert_eq!(run().await.unwrap_err().redis_code(), Some("NOPERM"));
    admin.cmd("ACL SETUSER").arg("app").arg("+eval").send::<()>().await.unwrap();
    assert_eq!(run().await.unwrap(), 1);
}

#[tokio::test]
async fn an_argument_that_is_too_large_is_refused_for_scripts_too() {
    let Some(client) = client().await else { return };
    let large = vec![0; onetrip_redis::command::ARGUMENT_BYTES_MAX + 1];
    let call = || script().call(["key"], [&large]);
    let (pipeline, list) = (client.pipeline(), client.atomic());
    let _ = (pipeline.script::<()>(call()), list.script::<()>(call()));
    let session = client.session().await.unwrap();
    for error in [
        client.script::<()>(call()).await.unwrap_err(),
        session.script::<()>(call()).await.unwrap_err(),
        pipeline.run().await.unwrap_err(),
        list.run().await.unwrap_err(),
    ] {
        assert_eq!((error.code(), error.outcome()), ("argument_too_large", Outcome::NotSent));
    }
    client.cmd("PING").send::<()>().await.unwrap();
}
