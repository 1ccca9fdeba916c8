//! What shows only between two steps of opening or losing a connection, against a real server.

use std::time::Duration;

use onetrip_lab::redis::{Server, Settings, found_or_skipped};

use super::*;
use crate::redis::{Client, Protocol};

fn server() -> Option<Server> {
    let installation = Some(found_or_skipped()?);
    Some(Server::start(Settings { installation, ..Settings::default() }).unwrap())
}

async fn subscribers(client: &Client, channel: &str) -> i64 {
    let numbers: Vec<(String, i64)> =
        client.cmd("PUBSUB NUMSUB").arg(channel).send().await.unwrap();
    numbers[0].1
}

#[tokio::test]
async fn what_is_unsubscribed_before_its_connection_is_published_is_unsubscribed() {
    let Some(server) = server() else { return };
    let other = Client::connect(&server.url()).await.unwrap();
    let config: Config = server.url().parse().unwrap();
    let client = Client::connect_with(&config.protocol(Protocol::Best)).await.unwrap();
    let subscription = client.subscribe(["news"]).await.unwrap();
    let current = &client.inner.node.shared.current;
    let link = current.write().unwrap().take();
    drop(subscription);
    *current.write().unwrap() = link;
    let ended = async { while subscribers(&other, "news").await > 0 {} };
    tokio::time::timeout(Duration::from_secs(10), ended).await.expect("it is unsubscribed");
}

/// The connection ends, and the pool has not been told yet.
fn end_unheard(link: &Link) {
    let mut core = link.lock();
    let error = core.lost("of the test");
    core.close(error);
}

#[tokio::test]
async fn calls_that_meet_their_connection_at_its_end_wait_for_the_next_in_their_order() {
    let Some(server) = server() else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let pool = &client.inner.node.shared;
    end_unheard(&pool.current().unwrap());
    let replies: Vec<_> = (0..10).map(|_| client.cmd("INCR").arg("n").send::<i64>()).collect();
    for (n, reply) in (1..).zip(replies) {
        assert_eq!(reply.await.unwrap(), n);
    }
}

/// Callers in line are given a connection that has ended by then.
#[tokio::test]
async fn those_who_are_given_a_connection_at_its_end_keep_their_order_in_line() {
    let Some(server) = server() else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let pool = &client.inner.node.shared;
    let link = pool.current().unwrap();
    // The pool opens another connection, and has this one to give meanwhile.
    pool.lost(link.pool_slot.id);
    let replies: Vec<_> = (0..10).map(|_| client.cmd("INCR").arg("n").send::<i64>()).collect();
    let opening = || pool.lock().opening.keys().next().copied();
    let id = loop {
        match opening() {
            Some(id) => break id,
            None => tokio::task::yield_now().await,
        }
    };
    end_unheard(&link);
    pool.with(|state, now| {
        state.opening.remove(&id).unwrap().abort();
        state.links.insert(id, link.clone());
        state.policy.handle_opened(now, id);
    });
    for (n, reply) in (1..).zip(replies) {
        assert_eq!(reply.await.unwrap(), n);
    }
}

#[tokio::test]
async fn a_session_is_not_given_a_connection_that_has_ended() {
    let Some(server) = server() else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let pool = &client.inner.node.own;
    drop(client.session().await.unwrap());
    let link = pool.lock().links.values().next().unwrap().clone();
    end_unheard(&link);
    let session = client.session().await.unwrap();
    assert_eq!(session.cmd("ECHO").arg("x").send::<String>().await.unwrap(), "x");
}
