//! Sharded channels of a cluster.

use std::time::Duration;

use onetrip::Outcome;
use onetrip::redis::commands::PubSubCommands;
use onetrip::redis::{Client, Command, Config, Protocol, Subscription};
use onetrip_lab::redis::{Answer, Cluster};

use super::cluster::{connect, start};

/// The hash slot of `bar`.
const SLOT: u16 = 5061;

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(600);

/// How many subscribers of `bar` a node has.
fn readers(cluster: &Cluster, node: usize) -> i64 {
    let ask = Command::new("PUBSUB SHARDNUMSUB").arg("bar");
    match cluster.nodes()[node].plain().unwrap().tell(&ask).unwrap().items() {
        [_, Answer::Number(count)] => *count,
        other => panic!("{other:?} are no numbers of subscribers"),
    }
}

async fn subscribed(client: &Client, channels: &[&str]) -> Subscription {
    let mut subscription = client.subscription();
    subscription.ssubscribe(channels).await.unwrap();
    subscription
}

/// Waits until the wish is true.
async fn until(what: &str, mut wish: impl AsyncFnMut() -> bool) {
    let wait = async { while !wish().await {} };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "{what}, and not in time");
}

/// Publishes numbers until one of them is read, which must be the only one to be read.
async fn reaches(client: &Client, subscription: &mut Subscription, from: u32) -> u32 {
    let mut next = from;
    let read = loop {
        let published = client.spublish("bar", next).await;
        let read = subscription.next();
        if published.is_ok_and(|readers| readers > 0) {
            break tokio::time::timeout(PATIENCE, read).await.expect("a reader reads").unwrap();
        }
        next += 1;
    };
    assert_eq!(&read.payload[..], next.to_string().as_bytes());
    assert_eq!(&read.channel[..], b"bar");
    next + 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn channels_of_all_nodes_are_subscribed_where_their_slots_are() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    // These are on three nodes, and are subscribed by one call.
    let channels = ["foo", "bar", "hello"];
    let mut subscription = subscribed(&client, &channels).await;
    for channel in channels {
        assert_eq!(client.spublish(channel, "x").await.unwrap(), 1);
        let message = subscription.next().await.unwrap();
        assert_eq!((&message.channel[..], &message.payload[..]), (channel.as_bytes(), &b"x"[..]));
    }
    assert_eq!(client.spublish("other", "x").await.unwrap(), 0);
    assert_eq!(subscription.reconnects(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_follows_its_slot_and_its_readers_are_told() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let (mut one, mut other) = (subscribed(&client, &["bar"]).await, client.subscription());
    other.ssubscribe(["bar", "foo"]).await.unwrap();
    let (first, mut number) = (cluster.master_of(SLOT).unwrap(), 0);
    for moves in 1..=6 {
        let from = (first + moves - 1) % 3;
        cluster.move_slot(SLOT, from, (first + moves) % 3).unwrap();
        cluster.wait_ok().unwrap();
        until("readers are told", async || one.reconnects() >= moves as u64).await;
        assert_eq!(readers(&cluster, from), 0);
        let last = number;
        number = reaches(&client, &mut one, number).await;
        // No message comes twice, and each reader has all that were published.
        let read = tokio::time::timeout(PATIENCE, other.next()).await.expect("both read").unwrap();
        assert_eq!(&read.payload[..], (number - 1).to_string().as_bytes(), "from {last}");
    }
    assert_eq!(one.reconnects(), other.reconnects());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_outlives_the_crash_of_its_master() {
    let Some(mut cluster) = start(3, 3) else { return };
    let client = connect(&cluster).await;
    let mut subscription = subscribed(&client, &["bar", "foo"]).await;
    let master = cluster.master_of(SLOT).unwrap();
    cluster.kill_node(master).unwrap();
    cluster.wait_ok().unwrap();
    until("it is subscribed again", async || subscription.reconnects() > 0).await;
    reaches(&client, &mut subscription, 0).await;
    assert_eq!(client.spublish("foo", "x").await.unwrap(), 1, "others stay");
    assert_eq!(&subscription.next().await.unwrap().channel[..], b"foo");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_told_once_its_channels_are_subscribed_again() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let mut subscription = subscribed(&client, &["bar"]).await;
    let (node, mut number) = (cluster.master_of(SLOT).unwrap(), 0);
    for lost in 1..=5 {
        let kill = Command::new("CLIENT KILL TYPE pubsub");
        cluster.nodes()[node].plain().unwrap().tell(&kill).unwrap();
        until("it is subscribed again", async || subscription.reconnects() >= lost).await;
        assert_eq!(readers(&cluster, node), 1);
        number = reaches(&client, &mut subscription, number).await;
    }
    assert_eq!(subscription.reconnects(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_nobody_reads_is_unsubscribed_at_its_node() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let node = cluster.master_of(SLOT).unwrap();
    let (mut one, other) =
        (subscribed(&client, &["bar"]).await, subscribed(&client, &["bar"]).await);
    assert_eq!(readers(&cluster, node), 1, "they share it");
    one.unsubscribe(["bar"]);
    client.cmd("GET").arg("bar").send::<()>().await.unwrap();
    assert_eq!(readers(&cluster, node), 1, "one reads it");
    drop(other);
    until("nobody reads it", async || readers(&cluster, node) == 0).await;
    one.ssubscribe(["bar"]).await.unwrap();
    reaches(&client, &mut one, 0).await;
    let mut given_up = client.subscription();
    drop(given_up.ssubscribe(["bar"]));
    reaches(&client, &mut one, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_ends_with_its_client() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let mut subscription = subscribed(&client, &["bar"]).await;
    client.close();
    assert_eq!(subscription.next().await, None);
    assert_eq!(subscription.ssubscribe(["foo"]).await.unwrap_err().outcome(), Outcome::NotSent);
}

#[tokio::test]
async fn sharded_channels_of_a_cluster_need_resp3() {
    let Some(cluster) = start(3, 0) else { return };
    let config: Config = cluster.urls()[0].parse().unwrap();
    let config = config.cluster(true).protocol(Protocol::Resp2);
    let client = Client::connect_with(&config).await.unwrap();
    let error = client.subscription().ssubscribe(["bar"]).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), ("sharded_needs_resp3", Outcome::NotSent));
}
