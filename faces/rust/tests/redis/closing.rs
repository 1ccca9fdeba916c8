//! The end of a client, and what is not waited for there.

use std::time::Duration;

use onetrip::Outcome;
use onetrip::redis::{Client, Command, commands::*};

use crate::support::{client, config, key};

/// Fails where something never ends.
async fn patiently(test: impl Future<Output = ()>) {
    let ended = tokio::time::timeout(Duration::from_secs(20), test).await;
    assert!(ended.is_ok(), "something never ended");
}

#[tokio::test]
async fn a_closed_client_refuses_every_way_to_send() {
    let Some(client) = client().await else { return };
    patiently(async {
        client.close();
        let (pipeline, atomic) = (client.pipeline(), client.atomic());
        let (_, _) = (pipeline.incr("closed"), atomic.incr("closed"));
        let mut stream = client.stream::<(), _>([Command::new("PING")]);
        let blocked = client.cmd("BLPOP").arg(key("list")).arg(0).send::<()>();
        let pipelined = pipeline.run().await;
        let errors = [
            client.session().await.map(drop).unwrap_err(),
            blocked.await.unwrap_err(),
            pipelined.and_then(|replies| replies.all::<i64>()).unwrap_err(),
            atomic.run().await.map(drop).unwrap_err(),
            stream.next().await.unwrap().unwrap_err(),
        ];
        for error in errors {
            let (code, outcome) = (error.code(), error.outcome());
            assert_eq!((code, outcome), ("closed", Outcome::NotSent), "{error}");
        }
        assert!(client.subscription().next().await.is_none());
    })
    .await;
}

#[tokio::test]
async fn closing_waits_for_nothing_that_its_caller_holds() {
    let Some(client) = client().await else { return };
    patiently(async {
        let (list, watched) = (key("list"), key("watched"));
        let session = client.session().await.unwrap();
        session.watch([&watched]).await.unwrap();
        let popped = client.cmd("BLPOP").arg(&list).arg(0).send::<(String, String)>();
        let mut stream = client.stream::<String, _>((0..1_000).map(|_| Command::new("PING")));
        assert_eq!(stream.next().await.unwrap().unwrap(), "PONG");
        let mut subscription = client.subscribe([key("news")]).await.unwrap();
        client.close();
        assert!(subscription.next().await.is_none());
        // What its callers hold goes on, until they let it go.
        assert_eq!(session.cmd("PING").send::<String>().await.unwrap(), "PONG");
        while let Some(reply) = stream.next().await {
            assert_eq!(reply.unwrap(), "PONG");
        }
        session.cmd("RPUSH").arg(&list).arg("x").send::<i64>().await.unwrap();
        assert_eq!(popped.await.unwrap(), (list, "x".to_owned()));
        drop(session);
        while client.metrics().open > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_list_that_is_not_run_holds_nothing_up() {
    let Some(client) = client().await else { return };
    patiently(async {
        let key = key("count");
        let session = client.session().await.unwrap();
        let (pipeline, atomic) = (session.pipeline(), session.atomic());
        let (_, _) = (pipeline.incr(&key), atomic.incr(&key));
        // Nothing of either was sent, so there is nothing to wait behind.
        assert_eq!(session.incr(&key).await.unwrap(), 1);
        drop((pipeline, atomic));
        assert_eq!(client.get::<i64>(&key).await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn what_is_dropped_gives_its_connection_back() {
    const CONNECTIONS: usize = 2;
    let Some(config) = config() else { return };
    patiently(async {
        let config = config.limits(|limits| limits.connections_max = CONNECTIONS);
        let client = Client::connect_with(&config).await.unwrap();
        for _ in 0..3 * CONNECTIONS {
            let session = client.session().await.unwrap();
            session.watch([key("watched")]).await.unwrap();
            std::thread::spawn(move || drop(session)).join().unwrap();
            let mut stream = client.stream::<String, _>((0..).map(|_| Command::new("PING")));
            stream.next().await.unwrap().unwrap();
            std::thread::spawn(move || drop(stream)).join().unwrap();
            let popped = client.cmd("BLPOP").arg(key("list")).arg(0).send::<()>();
            drop(popped);
        }
        let mut sessions = Vec::new();
        for _ in 0..CONNECTIONS {
            sessions.push(client.session().await.unwrap());
        }
        for session in &sessions {
            assert_eq!(session.cmd("PING").send::<String>().await.unwrap(), "PONG");
        }
    })
    .await;
}
