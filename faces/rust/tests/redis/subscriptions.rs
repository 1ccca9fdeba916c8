//! Published messages.

use std::net::SocketAddr;
use std::time::Duration;

use onetrip::Outcome;
use onetrip::redis::{Client, Config, Protocol, Subscription};
use onetrip_lab::proxy::{Direction, Fault, Proxy, ProxyConfig, Scope};
use onetrip_lab::redis::{Server, Settings};

use crate::support::{client, config, key};

async fn publish(client: &Client, channel: &str, text: &str) -> i64 {
    client.cmd("PUBLISH").arg(channel).arg(text).send().await.unwrap()
}

async fn both() -> Option<[Client; 2]> {
    both_with(&config()?).await
}

/// On a private server, whose connections no other test cuts.
async fn both_alone() -> Option<(Server, [Client; 2])> {
    let server = crate::support::server(Settings::default())?;
    let clients = both_with(&server.url().parse().unwrap()).await?;
    Some((server, clients))
}

async fn both_with(config: &Config) -> Option<[Client; 2]> {
    let resp2 = Client::connect_with(&config.clone().protocol(Protocol::Resp2)).await.unwrap();
    Some([Client::connect_with(config).await.unwrap(), resp2])
}

#[tokio::test]
async fn a_confirmed_subscription_misses_no_message() {
    let Some(clients) = both().await else { return };
    for client in clients {
        let channel = key("news");
        let mut subscription = client.subscribe([&channel]).await.unwrap();
        assert_eq!(publish(&client, &channel, "first").await, 1);
        assert_eq!(publish(&client, &channel, "second").await, 1);
        for text in ["first", "second"] {
            let message = subscription.next().await.unwrap();
            assert_eq!(
                (&message.channel[..], &message.payload[..]),
                (channel.as_bytes(), text.as_bytes())
            );
        }
    }
}

#[tokio::test]
async fn a_pattern_says_which_one_it_was() {
    let Some(clients) = both().await else { return };
    for client in clients {
        let channel = key("sport");
        let pattern = format!("{channel}*");
        let mut subscription = client.psubscribe([&pattern]).await.unwrap();
        publish(&client, &channel, "x").await;
        let message = subscription.next().await.unwrap();
        assert_eq!(message.pattern.as_deref(), Some(pattern.as_bytes()));
        assert_eq!(&message.channel[..], channel.as_bytes());
    }
}

#[tokio::test]
async fn what_nobody_reads_any_more_is_unsubscribed() {
    let Some(clients) = both().await else { return };
    for client in clients {
        let channel = key("news");
        let first = client.subscribe([&channel]).await.unwrap();
        let second = client.subscribe([&channel]).await.unwrap();
        drop(first);
        assert_eq!(publish(&client, &channel, "x").await, 1);
        drop(second);
        while publish(&client, &channel, "x").await > 0 {}
    }
}

#[tokio::test]
async fn after_a_lost_connection_the_channels_are_subscribed_again() {
    let Some((server, clients)) = both_alone().await else { return };
    let other = Client::connect(&server.url()).await.unwrap();
    for client in clients {
        let channel = key("news");
        let mut subscription = client.subscribe([&channel]).await.unwrap();
        other.cmd("CLIENT KILL").args(["TYPE", "pubsub"]).send::<i64>().await.unwrap();
        while subscription.reconnects() == 0 || publish(&other, &channel, "x").await == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(&subscription.next().await.unwrap().payload[..], b"x");
    }
}

#[tokio::test]
async fn a_slow_reader_loses_the_oldest_and_is_told_how_many() {
    let Some(client) = client().await else { return };
    let channel = key("flood");
    let mut subscription = client.subscribe([&channel]).await.unwrap();
    let all: Vec<_> =
        (0..1_100).map(|n| client.cmd("PUBLISH").arg(&channel).arg(n).send::<i64>()).collect();
    for reply in all {
        reply.await.unwrap();
    }
    // Messages come before the reply to PUBLISH.
    assert_eq!(&subscription.next().await.unwrap().payload[..], b"76");
    assert_eq!(subscription.dropped(), 76);
}

#[tokio::test]
async fn the_stream_ends_with_the_client() {
    let Some(client) = client().await else { return };
    let mut subscription = client.subscribe([key("news")]).await.unwrap();
    client.close();
    assert_eq!(subscription.next().await, None);
    assert_eq!(client.subscription().next().await, None);
}

#[tokio::test]
async fn a_closed_client_subscribes_to_nothing() {
    let Some(clients) = both().await else { return };
    for client in clients {
        client.close();
        let error = client.subscribe([key("news")]).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), ("closed", Outcome::NotSent));
    }
}

#[tokio::test]
async fn a_channel_that_was_refused_keeps_no_other_from_coming_back() {
    let settings = Settings::default().user("app", "on >secret ~* +@all resetchannels &news");
    let Some(server) = crate::support::server(settings) else { return };
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    for protocol in ["3", "2"] {
        let client = Client::connect(&format!("{url}?protocol={protocol}")).await.unwrap();
        let other = Client::connect(&url).await.unwrap();
        let mut subscription = client.subscribe(["news"]).await.unwrap();
        let error = subscription.subscribe(["news", "others"]).await.unwrap_err();
        assert_eq!(error.redis_code(), Some("NOPERM"), "{error}");
        other.cmd("CLIENT KILL").args(["TYPE", "pubsub"]).send::<i64>().await.unwrap();
        let back = async {
            while subscription.reconnects() == 0 || publish(&other, "news", "x").await == 0 {
                tokio::task::yield_now().await;
            }
            subscription.next().await
        };
        let limit = std::time::Duration::from_secs(600);
        let message = tokio::time::timeout(limit, back).await.expect("it comes back").unwrap();
        assert_eq!(&message.payload[..], b"x");
    }
}

async fn subscribers(client: &Client, channel: &str) -> i64 {
    let numbers: Vec<(String, i64)> =
        client.cmd("PUBSUB NUMSUB").arg(channel).send().await.unwrap();
    numbers[0].1
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(600), waiting).await.expect(what);
}

/// Cuts all connections with subscriptions, and waits until this one is subscribed again.
async fn reconnect(subscription: &Subscription, other: &Client, channel: &str) {
    let before = subscription.reconnects();
    other.cmd("CLIENT KILL").args(["TYPE", "pubsub"]).send::<i64>().await.unwrap();
    until("it comes back", async || {
        subscription.reconnects() > before && subscribers(other, channel).await > 0
    })
    .await;
}

/// A private server, a proxy, and a client through it.
async fn through(settings: impl FnOnce(Config) -> Config) -> Option<(Server, Proxy, Client)> {
    let server = crate::support::server(Settings::default())?;
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let proxy = Proxy::start(ProxyConfig::new(address)).unwrap();
    let url = server.url().replace(&address.to_string(), &proxy.addr().to_string());
    let client = Client::connect_with(&settings(url.parse().unwrap())).await.unwrap();
    Some((server, proxy, client))
}

#[tokio::test]
async fn a_subscription_that_got_no_connection_in_time_leaves_nothing_behind() {
    let impatient = |config: Config| {
        let config = config.protocol(Protocol::Resp2);
        config.limits(|limits| limits.wait_timeout = Duration::from_millis(50))
    };
    let Some((_server, proxy, client)) = through(impatient).await else { return };
    let direction = Direction::Down;
    proxy.fault(Fault::Stall { direction }, Scope::Future);
    let mut subscription = client.subscription();
    let error = subscription.subscribe(["first"]).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (onetrip::Kind::Timeout, Outcome::NotSent));
    proxy.fault(Fault::Resume { direction }, Scope::All);
    until("a connection comes", async || subscription.subscribe(["second"]).await.is_ok()).await;
    assert_eq!(subscribers(&client, "first").await, 0);
    reconnect(&subscription, &client, "second").await;
    assert_eq!(subscribers(&client, "first").await, 0);
}

#[tokio::test]
async fn a_subscription_whose_connection_was_lost_before_it_was_confirmed_leaves_nothing_behind() {
    let Some((_server, proxy, client)) = through(|config| config).await else { return };
    let mut subscription = client.subscribe(["first"]).await.unwrap();
    let direction = Direction::Down;
    proxy.fault(Fault::Stall { direction }, Scope::Present);
    let lost = async {
        let error = subscription.subscribe(["first", "second"]).await.unwrap_err();
        assert!(error.is_connection_lost(), "{error}");
    };
    let cut = async { proxy.fault(Fault::CutAfter { direction, bytes: 0 }, Scope::Present) };
    tokio::join!(lost, async {
        tokio::task::yield_now().await;
        cut.await;
        proxy.fault(Fault::Resume { direction }, Scope::All);
    });
    until("it comes back", async || subscribers(&client, "first").await == 1).await;
    assert_eq!(subscribers(&client, "second").await, 0);
}

#[tokio::test]
async fn a_dropped_subscribe_leaves_nothing_behind() {
    let Some((server, clients)) = both_alone().await else { return };
    let other = Client::connect(&server.url()).await.unwrap();
    for client in clients {
        let [first, second] = [key("news"), key("news")];
        let mut subscription = client.subscribe([&first]).await.unwrap();
        {
            let mut subscribes = std::pin::pin!(subscription.subscribe([&second]));
            std::future::poll_fn(|cx| {
                assert!(subscribes.as_mut().poll(cx).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            until("it was sent", async || subscribers(&other, &second).await == 1).await;
        }
        until("it is ended", async || subscribers(&other, &second).await == 0).await;
        reconnect(&subscription, &other, &first).await;
        assert_eq!(subscribers(&other, &second).await, 0);
    }
}

#[tokio::test]
async fn all_kinds_come_back_where_callers_find_no_room() {
    let Some(server) = crate::support::server(Settings::default()) else { return };
    let other = Client::connect(&server.url()).await.unwrap();
    let config: Config = server.url().parse().unwrap();
    let narrow = config.limits(|limits| {
        (limits.in_flight_max, limits.queue_max) = (1, 0);
        limits.when_full = onetrip::config::WhenFull::Refuse;
    });
    let client = Client::connect_with(&narrow).await.unwrap();
    let [channel, pattern] = [key("news"), key("sport")];
    let mut subscription = client.psubscribe([&pattern]).await.unwrap();
    subscription.subscribe([&channel]).await.unwrap();
    reconnect(&subscription, &other, &channel).await;
    until("the pattern too", async || publish(&other, &pattern, "x").await == 1).await;
}

#[tokio::test]
async fn a_channel_that_is_forbidden_later_keeps_no_other_from_coming_back() {
    let rules = "on >secret ~* +@all resetchannels &news &others";
    let settings = Settings::default().user("app", rules);
    let Some(server) = crate::support::server(settings) else { return };
    let other = Client::connect(&server.url()).await.unwrap();
    for protocol in ["3", "2"] {
        let grant = ["app", "resetchannels", "&news", "&others"];
        other.cmd("ACL SETUSER").args(grant).send::<()>().await.unwrap();
        let url = format!("redis://app:secret@127.0.0.1:{}?protocol={protocol}", server.port());
        let client = Client::connect(&url).await.unwrap();
        let subscription = client.subscribe(["news", "others"]).await.unwrap();
        // The server ends connections with subscriptions that their user may not have.
        other.cmd("ACL SETUSER").args(&grant[..3]).send::<()>().await.unwrap();
        until("it comes back", async || {
            subscription.reconnects() > 0 && publish(&other, "news", "x").await == 1
        })
        .await;
        assert_eq!(subscribers(&other, "others").await, 0);
    }
}

/// A server that has RESP3 and one that hasn't, and a client that connects to the first that is up.
async fn of_two_protocols() -> Option<(Server, Server, Config)> {
    let settings = Settings { password: false, ..Settings::default() };
    let without = settings.clone().setting("rename-command", "HELLO \"\"");
    let (resp3, resp2) = (crate::support::server(settings)?, crate::support::server(without)?);
    let url = format!("redis://127.0.0.1:{},127.0.0.1:{}", resp3.port(), resp2.port());
    Some((resp3, resp2, url.parse().unwrap()))
}

/// Publishes until a message arrives.
async fn comes(client: &Client, subscription: &mut Subscription) {
    let limit = Duration::from_secs(600);
    let heard = async {
        loop {
            if publish(client, "news", "x").await > 0 {
                return subscription.next().await.unwrap();
            }
        }
    };
    tokio::time::timeout(limit, heard).await.expect("it is subscribed again");
}

#[tokio::test]
async fn what_is_subscribed_stays_so_where_the_next_server_has_no_resp3() {
    let Some((mut resp3, resp2, config)) = of_two_protocols().await else { return };
    let client = Client::connect_with(&config).await.unwrap();
    let other = Client::connect(&resp2.url()).await.unwrap();
    let mut subscription = client.subscribe(["news"]).await.unwrap();
    assert_eq!(publish(&client, "news", "first").await, 1);
    assert_eq!(&subscription.next().await.unwrap().payload[..], b"first");
    resp3.kill().unwrap();
    comes(&other, &mut subscription).await;
    assert_eq!(client.cmd("ECHO").arg("x").send::<String>().await.unwrap(), "x");
    let mut second = client.subscribe(["more"]).await.unwrap();
    assert_eq!(publish(&other, "more", "y").await, 1);
    assert_eq!(&second.next().await.unwrap().payload[..], b"y");
}

#[tokio::test]
async fn a_message_comes_once_where_the_next_server_has_resp3() {
    let Some((mut resp3, mut resp2, config)) = of_two_protocols().await else { return };
    resp3.kill().unwrap();
    let client = Client::connect_with(&config).await.unwrap();
    let mut subscription = client.subscribe(["news"]).await.unwrap();
    resp3.restart().unwrap();
    resp2.kill().unwrap();
    let other = Client::connect(&resp3.url()).await.unwrap();
    comes(&other, &mut subscription).await;
    while client.metrics().open < 2 {
        tokio::task::yield_now().await;
    }
    client.cmd("PING").send::<()>().await.unwrap();
    assert_eq!(publish(&other, "news", "once").await, 1);
    let mut told = subscription.next().await.unwrap();
    while &told.payload[..] != b"once" {
        told = subscription.next().await.unwrap();
    }
    assert_eq!(publish(&other, "news", "twice").await, 1);
    assert_eq!(&subscription.next().await.unwrap().payload[..], b"twice");
}
