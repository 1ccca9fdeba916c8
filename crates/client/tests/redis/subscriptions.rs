//! Published messages.

use onetrip::Outcome;
use onetrip::redis::{Client, Protocol};
use onetrip_lab::redis::Settings;

use crate::support::{client, config, key};

async fn publish(client: &Client, channel: &str, text: &str) -> i64 {
    client.cmd("PUBLISH").arg(channel).arg(text).send().await.unwrap()
}

async fn both() -> Option<[Client; 2]> {
    let config = config()?;
    let resp2 = Client::connect_with(&config.clone().protocol(Protocol::Resp2)).await.unwrap();
    Some([Client::connect_with(&config).await.unwrap(), resp2])
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
    let Some(clients) = both().await else { return };
    let Some(other) = client().await else { return };
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
    // Messages come before the reply to who published them.
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
        assert_eq!((error.code(), error.outcome()), ("connection_ended", Outcome::NotSent));
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
        let limit = std::time::Duration::from_secs(10);
        let message = tokio::time::timeout(limit, back).await.expect("it comes back").unwrap();
        assert_eq!(&message.payload[..], b"x");
    }
}
