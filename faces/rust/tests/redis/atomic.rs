//! MULTI and EXEC, and sessions that watch keys.

use onetrip::redis::Client;
use onetrip::{Kind, Outcome};
use onetrip_lab::redis::Settings;

use crate::support::{client, config, key, server};

#[tokio::test]
async fn an_atomic_list_runs_as_a_whole() {
    let Some(client) = client().await else { return };
    let key = key("counter");
    let list = client.atomic();
    let first = list.cmd("INCRBY").arg(&key).arg(5).send::<i64>();
    let second = list.cmd("INCRBY").arg(&key).arg(7).send::<i64>();
    let replies = list.run().await.unwrap();
    assert_eq!((replies.get(first).unwrap(), replies.get(second).unwrap()), (5, 12));
}

#[tokio::test]
async fn a_list_with_a_command_that_is_refused_does_not_run() {
    let Some(client) = client().await else { return };
    let key = key("unset");
    let list = client.atomic();
    let _ = list.cmd("SET").arg(&key).arg("x").send::<()>();
    let _ = list.cmd("GET").send::<()>();
    let error = list.run().await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Rejected);
    assert!(error.to_string().contains("command 2 of 2"), "{error}");
    let value: Option<String> = client.cmd("GET").arg(&key).send().await.unwrap();
    assert_eq!(value, None);
}

#[tokio::test]
async fn an_error_while_it_runs_is_that_of_its_command() {
    let Some(client) = client().await else { return };
    let key = key("text");
    let list = client.atomic();
    let _ = list.cmd("SET").arg(&key).arg("x").send::<()>();
    let wrong = list.cmd("LPUSH").arg(&key).arg("y").send::<i64>();
    let length = list.cmd("STRLEN").arg(&key).send::<i64>();
    let replies = list.run().await.unwrap();
    assert_eq!(replies.get(wrong).unwrap_err().redis_code(), Some("WRONGTYPE"));
    assert_eq!(replies.get(length).unwrap(), 1);
}

#[tokio::test]
async fn a_watched_key_that_was_changed_stops_the_list() {
    let Some(client) = client().await else { return };
    let key = key("stock");
    let session = client.session().await.unwrap();
    session.watch([&key]).await.unwrap();
    client.cmd("SET").arg(&key).arg(1).send::<()>().await.unwrap();
    let list = session.atomic();
    let _ = list.cmd("SET").arg(&key).arg(2).send::<()>();
    let error = list.run().await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), ("watched_key_changed", Outcome::Rejected));
    let value: i64 = client.cmd("GET").arg(&key).send().await.unwrap();
    assert_eq!(value, 1);
}

#[tokio::test]
async fn what_one_session_watched_is_nothing_to_the_next() {
    let Some(client) = client().await else { return };
    let key = key("watched");
    let session = client.session().await.unwrap();
    session.watch([&key]).await.unwrap();
    let id: i64 = session.cmd("CLIENT ID").send().await.unwrap();
    drop(session);
    client.cmd("SET").arg(&key).arg(1).send::<()>().await.unwrap();
    let session = client.session().await.unwrap();
    let same: i64 = session.cmd("CLIENT ID").send().await.unwrap();
    assert_eq!(id, same, "the connection was lent again");
    let list = session.atomic();
    let set = list.cmd("INCR").arg(&key).send::<i64>();
    assert_eq!(list.run().await.unwrap().get(set).unwrap(), 2);
}

#[tokio::test]
async fn a_list_that_is_given_up_leaves_nothing_watched_for_the_next() {
    let Some(client) = client().await else { return };
    let key = key("given up");
    let session = client.session().await.unwrap();
    session.watch([&key]).await.unwrap();
    let id: i64 = session.cmd("CLIENT ID").send().await.unwrap();
    drop(session.atomic());
    drop(session);
    client.cmd("SET").arg(&key).arg(1).send::<()>().await.unwrap();
    let session = client.session().await.unwrap();
    let same: i64 = session.cmd("CLIENT ID").send().await.unwrap();
    assert_eq!(id, same, "the connection was lent again");
    let list = session.atomic();
    let set = list.cmd("INCR").arg(&key).send::<i64>();
    assert_eq!(list.run().await.unwrap().get(set).unwrap(), 2);
}

#[tokio::test]
async fn a_session_that_selected_another_database_is_not_lent_again() {
    let Some(client) = client().await else { return };
    let key = key("elsewhere");
    let session = client.session().await.unwrap();
    session.cmd("SELECT").arg(3).send::<()>().await.unwrap();
    session.cmd("SET").arg(&key).arg(1).send::<()>().await.unwrap();
    drop(session);
    let session = client.session().await.unwrap();
    let value: Option<i64> = session.cmd("GET").arg(&key).send().await.unwrap();
    assert_eq!(value, None);
}

#[tokio::test]
async fn a_list_that_was_never_run_leaves_nothing_watched() {
    let Some(client) = client().await else { return };
    let key = key("watched");
    let session = client.session().await.unwrap();
    session.watch([&key]).await.unwrap();
    drop(session.atomic());
    drop(session);
    client.cmd("SET").arg(&key).arg(1).send::<()>().await.unwrap();
    let session = client.session().await.unwrap();
    let list = session.atomic();
    let incremented = list.cmd("INCR").arg(&key).send::<i64>();
    assert_eq!(list.run().await.unwrap().get(incremented).unwrap(), 2);
}

#[tokio::test]
async fn where_multi_was_refused_nobody_says_that_nothing_ran() {
    let settings = Settings::default().user("app", "on >secret ~* &* +@all -multi");
    let Some(server) = server(settings) else { return };
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let client = Client::connect(&url).await.unwrap();
    let list = client.atomic();
    let _ = list.cmd("INCR").arg("n").send::<i64>();
    let error = list.run().await.unwrap_err();
    assert_eq!((error.redis_code(), error.outcome()), (Some("NOPERM"), Outcome::Unknown));
    assert_eq!(client.cmd("GET").arg("n").send::<i64>().await.unwrap(), 1, "it ran by itself");
    let list = client.atomic();
    let _ = list.cmd("LPUSH").arg("n").arg(1).send::<i64>();
    let error = list.run().await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Rejected, "that one did not run");
}

#[tokio::test]
async fn a_list_does_not_begin_within_a_multi_of_the_sessions_own() {
    let Some(client) = client().await else { return };
    let key = key("n");
    let session = client.session().await.unwrap();
    session.cmd("MULTI").send::<()>().await.unwrap();
    session.cmd("SET").arg(&key).arg("first").send::<String>().await.unwrap();
    let list = session.atomic();
    let _ = list.cmd("GET").arg(&key).send::<String>();
    let error = list.run().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (Kind::Misuse, Outcome::NotSent), "{error}");
    session.cmd("EXEC").send::<()>().await.unwrap();
    let list = session.atomic();
    let get = list.cmd("GET").arg(&key).send::<String>();
    assert_eq!(list.run().await.unwrap().get(get).unwrap(), "first");
}

#[tokio::test]
async fn a_connection_whose_exec_was_taken_back_is_not_lent_again() {
    let Some(config) = config() else { return };
    let config = config.limits(|limits| (limits.in_flight_max, limits.connections_max) = (1, 1));
    let client = Client::connect_with(&config).await.unwrap();
    let session = client.session().await.unwrap();
    session.cmd("MULTI").send::<()>().await.unwrap();
    let queued = session.cmd("ECHO").arg("x").send::<String>();
    // EXEC waits for the window, and is never sent.
    drop(session.cmd("EXEC").send::<()>());
    assert_eq!(queued.await.unwrap(), "QUEUED");
    drop(session);
    let session = client.session().await.unwrap();
    assert_eq!(session.cmd("ECHO").arg("y").send::<String>().await.unwrap(), "y");
}

#[tokio::test]
async fn where_multi_was_refused_a_list_that_blocks_stalls_nobody() {
    let settings = Settings::default().user("app", "on >secret ~* &* +@all -multi");
    let Some(server) = server(settings) else { return };
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let client = Client::connect(&url).await.unwrap();
    let list = client.atomic();
    let _ = list.cmd("BLPOP").arg("list").arg(0).send::<(String, String)>();
    let mut running = std::pin::pin!(list.run());
    std::future::poll_fn(|cx| {
        assert!(running.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    let limit = std::time::Duration::from_secs(600);
    let push = client.cmd("RPUSH").arg("list").arg("x").send::<i64>();
    tokio::time::timeout(limit, push).await.expect("nobody is stalled").unwrap();
    let error = running.await.unwrap_err();
    assert_eq!((error.redis_code(), error.outcome()), (Some("NOPERM"), Outcome::Unknown));
}

#[tokio::test]
async fn what_blocks_does_not_within_a_list() {
    let Some(config) = config() else { return };
    let config = config.limits(|limits| limits.connections_max = 1);
    let client = Client::connect_with(&config).await.unwrap();
    for _ in 0..2 {
        let list = client.atomic();
        let popped = list.cmd("BLPOP").arg(key("list")).arg(0).send::<Option<(String, String)>>();
        let replies = list.run().await.unwrap();
        assert_eq!(replies.get(popped).unwrap(), None);
    }
    let opened = client.metrics().opened;
    assert_eq!(opened, 2, "one connection of their own served both");
}

#[tokio::test]
async fn a_session_whose_list_may_block_is_not_lent_again_before_it_is_answered() {
    let settings = Settings::default().user("app", "on >secret ~* &* +@all -multi");
    let Some(server) = server(settings) else { return };
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let config = url.parse::<onetrip::redis::Config>().unwrap();
    let config = config.limits(|limits| limits.connections_max = 1);
    let client = Client::connect_with(&config).await.unwrap();
    let session = client.session().await.unwrap();
    let list = session.atomic();
    let _ = list.cmd("BLPOP").arg("list").arg(0).send::<(String, String)>();
    drop(list.run());
    drop(session);
    let limit = std::time::Duration::from_secs(600);
    let next = async {
        let session = client.session().await.unwrap();
        session.cmd("ECHO").arg("x").send::<String>().await.unwrap()
    };
    assert_eq!(tokio::time::timeout(limit, next).await.expect("it is served"), "x");
}

/// Commands behind it would be queued in a MULTI that nobody ends, and each `QUEUED` would be taken
/// for a reply.
#[tokio::test]
async fn where_exec_is_refused_nobody_is_left_within_multi() {
    let settings = Settings::default().setting("rename-command", "EXEC \"\"");
    let Some(server) = server(settings) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let list = client.atomic();
    let _ = list.cmd("SET").arg("k").arg("x").send::<()>();
    let running = list.run();
    let behind = client.cmd("GET").arg("k").send::<Option<String>>();
    assert_eq!(running.await.unwrap_err().outcome(), Outcome::Unknown);
    assert_eq!(behind.await.unwrap_err().outcome(), Outcome::Unknown);
    assert_eq!(client.cmd("GET").arg("k").send::<Option<String>>().await.unwrap(), None);
    client.cmd("SET").arg("k").arg("y").send::<()>().await.unwrap();
    assert_eq!(client.cmd("GET").arg("k").send::<String>().await.unwrap(), "y");
}

#[tokio::test]
async fn what_a_session_watched_is_nothing_to_the_next_where_unwatch_is_forbidden() {
    let settings = Settings::default().user("app", "on >secret ~* &* +@all -unwatch");
    let Some(server) = server(settings) else { return };
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let client = Client::connect(&url).await.unwrap();
    for round in 1..=3 {
        let session = client.session().await.unwrap();
        session.watch(["n"]).await.unwrap();
        drop(session);
        client.cmd("SET").arg("n").arg(0).send::<()>().await.unwrap();
        // The first session may get the connection before it has ended. Then the list did not run,
        // but not because of a watched key.
        let session = client.session().await.unwrap();
        let list = session.atomic();
        let _ = list.cmd("INCR").arg("n").send::<i64>();
        if let Err(error) = list.run().await {
            assert_eq!(error.outcome(), Outcome::Unknown, "{round}: {error}");
        }
    }
}

#[tokio::test]
async fn a_session_that_ran_what_is_not_known_is_not_lent_again() {
    let Some(client) = client().await else { return };
    for (command, is_lent_again) in [("OBJECT HELP", true), ("NOSUCH", false)] {
        let session = client.session().await.unwrap();
        let id: i64 = session.cmd("CLIENT ID").send().await.unwrap();
        let _ = session.cmd(command).send::<Vec<String>>().await;
        drop(session);
        let session = client.session().await.unwrap();
        let next: i64 = session.cmd("CLIENT ID").send().await.unwrap();
        assert_eq!(id == next, is_lent_again, "{command}");
    }
}
