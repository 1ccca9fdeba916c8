//! Commands that block, on connections of their own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use crate::support::{client, config, key, server};
use onetrip::redis::{Client, Config, Script};
use onetrip_lab::redis::Settings;

#[tokio::test]
async fn a_command_that_blocks_stalls_nobody() {
    let Some(client) = client().await else { return };
    let (list, other) = (key("list"), key("other"));
    let popped = client.cmd("BLPOP").arg(&list).arg(0).send::<(String, String)>();
    // On one connection this would never be answered.
    client.cmd("SET").arg(&other).arg(1).send::<()>().await.unwrap();
    client.cmd("RPUSH").arg(&list).arg("x").send::<i64>().await.unwrap();
    assert_eq!(popped.await.unwrap(), (list, "x".to_owned()));
}

#[tokio::test]
async fn reading_a_stream_blocks_only_with_block() {
    let Some(client) = client().await else { return };
    let stream = key("stream");
    let before = client.metrics().open;
    client.cmd("XADD").arg(&stream).arg("*").arg("a").arg("1").send::<String>().await.unwrap();
    client.cmd("XREAD").arg("STREAMS").arg(&stream).arg("0").send::<()>().await.unwrap();
    assert_eq!(client.metrics().open, before, "no connection was opened for it");
    let read = client.cmd("XREAD").args(["BLOCK", "0", "STREAMS", &stream, "$"]).send::<()>();
    // The command is sent once there is a connection, and `$` is resolved only then.
    while blocked(&client).await == 0 {}
    client.cmd("XADD").arg(&stream).arg("*").arg("a").arg("2").send::<String>().await.unwrap();
    read.await.unwrap();
}

async fn blocked(client: &Client) -> i64 {
    let info: String = client.cmd("INFO").arg("clients").send().await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).unwrap();
    line.trim().parse().unwrap()
}

#[tokio::test]
async fn a_dropped_one_takes_nothing_that_comes_later() {
    let Some(client) = client().await else { return };
    let list = key("list");
    let popped = client.cmd("BLPOP").arg(&list).arg(0).send::<(String, String)>();
    let mut popped = Box::pin(popped);
    while blocked_on(&client, &list).await == 0 {
        std::future::poll_fn(|cx| {
            let _ = popped.as_mut().poll(cx);
            std::task::Poll::Ready(())
        })
        .await;
    }
    drop(popped);
    while blocked_on(&client, &list).await > 0 {}
    // The client has closed it.
    while client.metrics().closed == 0 {
        assert_eq!(client.metrics().lost, 0);
        tokio::task::yield_now().await;
    }
    client.cmd("RPUSH").arg(&list).arg("x").send::<i64>().await.unwrap();
    assert_eq!(client.cmd("LLEN").arg(&list).send::<i64>().await.unwrap(), 1);
}

/// The test holds the runtime's only thread, so no task of the client runs behind the drop: the
/// peer sees what the drop did by itself. When the server looks at it is up to the server.
#[tokio::test]
async fn the_end_of_a_dropped_ones_connection_has_left_once_the_drop_returns() {
    let Some(server) = server(Settings { password: false, ..Settings::default() }) else { return };
    let (port, events) = relay(server.port());
    let client = Client::connect_with(&Config::new().server("127.0.0.1", port)).await.unwrap();
    for _ in 0..50 {
        let popped = client.cmd("BLPOP").arg("list").arg(0).send::<(String, String)>();
        let mut popped = Box::pin(popped);
        while events.try_recv() != Ok(Seen::Blocks) {
            std::future::poll_fn(|cx| {
                let _ = popped.as_mut().poll(cx);
                std::task::Poll::Ready(())
            })
            .await;
            tokio::task::yield_now().await;
        }
        drop(popped);
        let seen = events.recv_timeout(Duration::from_secs(60));
        assert_eq!(seen, Ok(Seen::Ends));
    }
}

#[derive(Debug, PartialEq)]
enum Seen {
    /// BLPOP came on a connection.
    Blocks,
    /// The client ended a connection on which BLPOP had come.
    Ends,
}

/// A port behind which bytes are passed on to that one, and what is seen of BLPOP there.
fn relay(to: u16) -> (u16, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (events, seen) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
            let (mut replies, mut back) =
                (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut replies, &mut back));
            let events = events.clone();
            std::thread::spawn(move || pass(client, server, &events));
        }
    });
    (port, seen)
}

fn pass(mut client: TcpStream, mut server: TcpStream, events: &Sender<Seen>) {
    let (mut buffer, mut blocks) = ([0; 4096], false);
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        let _ = server.write_all(&buffer[..length]);
        if buffer[..length].windows(5).any(|word| word == b"BLPOP") {
            blocks = true;
            let _ = events.send(Seen::Blocks);
        }
    }
    let _ = server.shutdown(std::net::Shutdown::Both);
    if blocks {
        let _ = events.send(Seen::Ends);
    }
}

/// How many connections wait in BLPOP. Other tests may have some as well, so the connections of
/// this test are named after the key: the list of clients shows the command, but not its arguments.
async fn blocked_on(client: &Client, _: &str) -> usize {
    let list: String = client.cmd("CLIENT LIST").send().await.unwrap();
    list.lines().filter(|line| line.contains("cmd=blpop") && line.contains("flags=b")).count()
}

#[tokio::test]
async fn the_time_in_line_for_a_connection_counts() {
    let Some(config) = config() else { return };
    let config = config.limits(|limits| limits.connections_max = 1);
    let client = Client::connect_with(&config).await.unwrap();
    let _session = client.session().await.unwrap();
    let late = client.timeout(Duration::from_millis(20));
    let error = late.cmd("BLPOP").arg(key("list")).arg(0).send::<()>().await.unwrap_err();
    assert_eq!(error.kind(), onetrip::Kind::Timeout, "{error}");
    assert_eq!(error.outcome(), onetrip::Outcome::NotSent);
}

#[tokio::test]
async fn one_that_was_answered_and_not_taken_leaves_a_connection_at_rest() {
    let Some(config) = config() else { return };
    let config = config.limits(|limits| limits.connections_max = 1);
    let client = Client::connect_with(&config).await.unwrap();
    let list = key("list");
    client.cmd("RPUSH").arg(&list).arg("x").send::<i64>().await.unwrap();
    let popped = client.cmd("BLPOP").arg(&list).arg(0).send::<(String, String)>();
    while client.cmd("LLEN").arg(&list).send::<i64>().await.unwrap() > 0 {}
    while client.metrics().in_flight > 0 {
        tokio::task::yield_now().await;
    }
    drop(popped);
    let id = |session: &onetrip::redis::Session| session.cmd("CLIENT ID").send::<i64>();
    let session = client.session().await.unwrap();
    let first = id(&session).await.unwrap();
    // When the session is dropped, the UNWATCH is all that is unanswered.
    session.watch([&list]).await.unwrap();
    drop(session);
    let session = client.session().await.unwrap();
    assert_eq!(id(&session).await.unwrap(), first, "the connection was lent again");
}

#[tokio::test]
async fn what_its_caller_wants_alone_goes_to_a_connection_of_its_own() {
    let Some(client) = client().await else { return };
    let id = async |client: &Client| client.cmd("CLIENT ID").send::<i64>().await.unwrap();
    let shared = id(&client).await;
    assert_ne!(id(&client.alone()).await, shared);
    assert_eq!(id(&client).await, shared);
    let script = Script::new("return redis.call('GET', KEYS[1])");
    let key = key("script");
    client.cmd("SET").arg(&key).arg("x").send::<()>().await.unwrap();
    for _ in 0..3 {
        let value = client.alone().script::<String>(script.call([&key], [0; 0])).await.unwrap();
        assert_eq!(value, "x");
    }
    let pipeline = client.alone().pipeline();
    let piped = pipeline.cmd("CLIENT ID").send::<i64>();
    let replies = pipeline.run().await.unwrap();
    assert_eq!(replies.get(piped).unwrap(), shared, "a pipeline goes as before");
}
