//! Streams of commands.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use futures_core::Stream;
use onetrip::Outcome;
use onetrip::redis::{Command, CommandSource, CommandStream, FromReply};

use crate::support::{client, config, key, server};
use onetrip::redis::Client;

async fn next<T: FromReply, I: CommandSource + Unpin>(
    stream: &mut CommandStream<T, I>,
) -> Option<Result<T, onetrip::Error>> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

#[tokio::test]
async fn replies_come_in_order_however_many_commands_there_are() {
    let Some(client) = client().await else { return };
    let commands = (0..50_000).map(|n| Command::new("ECHO").arg(n));
    let mut replies = client.stream::<i64, _>(commands).window(1_000);
    for n in 0..50_000 {
        assert_eq!(next(&mut replies).await.unwrap().unwrap(), n);
    }
    assert!(next(&mut replies).await.is_none());
    assert_eq!(replies.progress().answered, 50_000);
}

#[tokio::test]
async fn commands_are_taken_when_the_window_has_room() {
    let Some(client) = client().await else { return };
    let taken = std::cell::Cell::new(0);
    let commands = (0..10_000).map(|n| {
        taken.set(n + 1);
        Command::new("ECHO").arg(n)
    });
    let mut replies = client.stream::<i64, _>(commands).window(100);
    for n in 0..10_000 {
        assert_eq!(next(&mut replies).await.unwrap().unwrap(), n);
        assert!(taken.get() <= n + 1 + 100, "{} were taken after {n}", taken.get());
    }
}

#[tokio::test]
async fn a_command_that_fails_stops_nothing() {
    let Some(client) = client().await else { return };
    let key = key("text");
    let commands = vec![
        Command::new("SET").arg(&key).arg("x"),
        Command::new("LPUSH").arg(&key).arg("y"),
        Command::new("STRLEN").arg(&key),
    ];
    let mut replies = client.stream::<onetrip::redis::Value, _>(commands);
    next(&mut replies).await.unwrap().unwrap();
    let error = next(&mut replies).await.unwrap().unwrap_err();
    assert_eq!((error.redis_code(), error.outcome()), (Some("WRONGTYPE"), Outcome::Rejected));
    assert_eq!(next(&mut replies).await.unwrap().unwrap(), onetrip::redis::Value::Int(1));
    assert!(next(&mut replies).await.is_none());
}

#[tokio::test]
async fn replies_larger_than_what_is_kept_untaken_stop_the_server_and_not_the_stream() {
    let Some(client) = client().await else { return };
    let key = key("large");
    client.cmd("SET").arg(&key).arg(vec![b'x'; 3 << 20]).send::<()>().await.unwrap();
    let commands = (0..20).map(|_| Command::new("GET").arg(&key));
    let mut replies = client.stream::<bytes::Bytes, _>(commands);
    let mut count = 0;
    while let Some(reply) = next(&mut replies).await {
        assert_eq!(reply.unwrap().len(), 3 << 20);
        count += 1;
    }
    assert_eq!(count, 20);
}

#[tokio::test]
async fn after_a_lost_connection_each_command_that_was_taken_has_an_end() {
    let Some(mut server) = server(Default::default()) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let commands = (0..1_000_000).map(|n| Command::new("ECHO").arg(n));
    let mut replies = client.stream::<i64, _>(commands).window(5_000);
    for n in 0..10_000 {
        assert_eq!(next(&mut replies).await.unwrap().unwrap(), n);
    }
    server.kill().unwrap();
    let (mut answered, mut unknown) = (10_000, 0);
    while let Some(reply) = next(&mut replies).await {
        match reply {
            Ok(n) if unknown == 0 => {
                assert_eq!(n, answered);
                answered += 1;
            }
            Ok(_) => panic!("a reply behind one that was lost"),
            Err(error) => {
                assert!(matches!(error.outcome(), Outcome::Unknown | Outcome::NotSent), "{error}");
                unknown += 1;
            }
        }
    }
    assert_eq!(replies.progress().sent, (answered + unknown) as u64);
    assert!(unknown <= 5_000, "{unknown} were on their way");
}

/// A stream whose commands come one by one, with a wait before each.
struct Slow(i64);

impl Stream for Slow {
    type Item = Command;

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Command>> {
        self.0 += 1;
        if self.0 % 2 == 1 {
            cx.waker().wake_by_ref();
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready((self.0 <= 200).then(|| Command::new("ECHO").arg(self.0 / 2)))
    }
}

#[tokio::test]
async fn commands_may_come_as_a_stream_too() {
    let Some(client) = client().await else { return };
    let mut replies = client.stream_of::<i64, _>(Slow(0));
    for n in 1..=100 {
        assert_eq!(replies.next().await.unwrap().unwrap(), n);
    }
    assert!(replies.next().await.is_none());
}

#[tokio::test]
async fn what_a_dropped_stream_did_not_take_stops_nobody() {
    let Some(config) = config() else { return };
    let config = config.limits(|limits| limits.connections_max = 1);
    let client = Client::connect_with(&config).await.unwrap();
    let key = key("large");
    client.cmd("SET").arg(&key).arg(vec![b'x'; 300 << 10]).send::<()>().await.unwrap();
    let limit = std::time::Duration::from_secs(600);
    for _ in 0..8 {
        let gets = (0..2).map(|_| Command::new("GET").arg(&key));
        let mut replies = client.stream::<Vec<u8>, _>(gets);
        while replies.progress().sent < 2 {
            poll_fn(|cx| {
                let _ = Pin::new(&mut replies).poll_next(cx);
                Poll::Ready(())
            })
            .await;
            tokio::task::yield_now().await;
        }
        let all = async {
            while client.metrics().in_flight > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(limit, all).await.expect("both are read");
    }
    let session = tokio::time::timeout(limit, client.session()).await.unwrap().unwrap();
    let get = session.cmd("GET").arg(&key).send::<Vec<u8>>();
    let value = tokio::time::timeout(limit, get).await.expect("it is answered").unwrap();
    assert_eq!(value.len(), 300 << 10);
}

#[tokio::test]
async fn a_reply_that_is_too_large_is_the_only_one_that_is_dropped() {
    let Some(config) = config() else { return };
    let config = config.limits(|limits| limits.reply_bytes_max = 1 << 20);
    let client = Client::connect_with(&config).await.unwrap();
    let (large, small) = (key("large"), key("small"));
    client.cmd("SET").arg(&large).arg(vec![b'x'; 3 << 20]).send::<()>().await.unwrap();
    client.cmd("SET").arg(&small).arg(vec![b'x'; 400 << 10]).send::<()>().await.unwrap();
    let keys = [&small, &small, &small, &large, &small];
    let pipeline = client.pipeline();
    for key in keys {
        let _ = pipeline.cmd("GET").arg(key).send::<Vec<u8>>();
    }
    let replies = pipeline.run().await.unwrap();
    let mut replies: Vec<_> = (0..keys.len()).map(|at| replies.at::<Vec<u8>>(at)).collect();
    let mut stream = client.stream::<Vec<u8>, _>(keys.map(|key| Command::new("GET").arg(key)));
    while let Some(reply) = stream.next().await {
        replies.push(reply);
    }
    assert_eq!(replies.len(), 2 * keys.len());
    for (key, reply) in keys.iter().cycle().zip(replies) {
        match reply {
            Ok(value) => assert_eq!((value.len(), *key), (400 << 10, &small)),
            Err(error) => {
                assert_eq!((error.code(), *key), ("result_too_large", &large));
                assert_eq!(error.outcome(), onetrip::Outcome::Applied);
            }
        }
    }
}

#[tokio::test]
async fn the_deadline_of_a_stream_is_for_the_wait_for_its_connection() {
    let Some(config) = config() else { return };
    let config = config.limits(|limits| limits.connections_max = 1);
    let client = Client::connect_with(&config).await.unwrap();
    let late = client.timeout(std::time::Duration::from_millis(20));
    let commands = || (0..2).map(|n| Command::new("ECHO").arg(n));
    let _session = client.session().await.unwrap();
    let mut stream = late.stream::<i64, _>(commands());
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (onetrip::Kind::Timeout, Outcome::NotSent));
    assert!(stream.next().await.is_none());
    assert_eq!(stream.progress().sent, 0);
}

#[tokio::test]
async fn a_connection_whose_stream_sent_what_is_not_known_serves_nobody_else() {
    let Some(client) = client().await else { return };
    for (name, is_lent_again) in [("ECHO", true), ("NOSUCH", false)] {
        let session = client.session().await.unwrap();
        let id: i64 = session.cmd("CLIENT ID").send().await.unwrap();
        drop(session);
        let mut replies = client.stream::<String, _>([Command::new(name).arg("x")]);
        let _ = next(&mut replies).await.unwrap();
        assert!(next(&mut replies).await.is_none());
        let session = client.session().await.unwrap();
        let now: i64 = session.cmd("CLIENT ID").send().await.unwrap();
        assert_eq!(now == id, is_lent_again, "{name}");
    }
}
