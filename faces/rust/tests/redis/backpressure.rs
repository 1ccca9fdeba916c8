//! Large values on a slow line with small buffers: both sides wait for each other, and it goes on
//! all the same; no live peer is taken for a dead one.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use onetrip::redis::commands::*;
use onetrip::redis::{Client, Config, Limits};
use onetrip::{Kind, Outcome};
use onetrip_lab::proxy::{Direction, Fault, Link, Proxy, ProxyConfig, Scope};
use onetrip_lab::redis::shared;

use crate::support::key;

/// How many bytes the proxy holds, beside the sockets of the system.
const LINE_BYTES: usize = 64 << 10;

/// A proxy to the shared server with this link each way, and a client through it.
async fn through(link: Link, limits: impl FnOnce(&mut Limits)) -> Option<(Proxy, Client)> {
    let server = shared()?;
    let upstream = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let line = ProxyConfig { up: link, down: link, ..ProxyConfig::new(upstream) };
    let proxy = Proxy::start(ProxyConfig { buffer_max: Some(LINE_BYTES), ..line }).unwrap();
    let direct = format!("@127.0.0.1:{}/", server.port());
    let url = server.url().replace(&direct, &format!("@{}/", proxy.addr()));
    let config: Config = url.parse().unwrap();
    let client = Client::connect_with(&config.limits(limits)).await.unwrap();
    Some((proxy, client))
}

/// Bytes lie unsent for longer than the stall timeout, but some are always moving.
#[tokio::test]
async fn large_values_both_ways_on_a_slow_line_arrive_on_one_connection() {
    const VALUES: u8 = 100;
    const LEN: usize = 192 << 10;
    let slow = Link { bandwidth: Some(5 << 20), ..Link::default() };
    let limits = |limits: &mut Limits| {
        limits.stall_timeout = Duration::from_secs(3);
        limits.in_flight_bytes_max = 1 << 20;
        limits.queue_bytes_max = 1 << 20;
    };
    let Some((_proxy, client)) = through(slow, limits).await else { return };
    let connected: i64 = client.cmd("CLIENT ID").send().await.unwrap();
    let large = key("large");
    let tasks = (0..VALUES).map(|n| {
        let (client, key) = (client.clone(), format!("{large}:{n}"));
        tokio::spawn(async move {
            let value = vec![n; LEN];
            client.set(&key, &value).await.unwrap();
            assert_eq!(client.get::<Bytes>(&key).await.unwrap(), value);
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(client.cmd("CLIENT ID").send::<i64>().await.unwrap(), connected);
    // The server is shared.
    client.del((0..VALUES).map(|n| format!("{large}:{n}"))).await.unwrap();
}

#[tokio::test]
async fn a_server_that_takes_nothing_is_given_up_and_the_next_connection_works() {
    let limits = |limits: &mut Limits| limits.stall_timeout = Duration::from_millis(300);
    let Some((proxy, client)) = through(Link::default(), limits).await else { return };
    let key = key("stalled");
    client.set(&key, "before").await.unwrap();
    for direction in [Direction::Up, Direction::Down] {
        proxy.fault(Fault::Stall { direction }, Scope::Present);
    }
    // More than all buffers on the way hold.
    let error = client.set(&key, vec![0_u8; 64 << 20]).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (Kind::Transport, Outcome::Unknown), "{error}");
    assert_eq!(client.get::<String>(&key).await.unwrap(), "before");
}
