//! What only shows between two steps of a connection's coming and going, against a real server.

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
