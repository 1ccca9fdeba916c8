//! The server, the line to it, and the client under test.

use std::net::SocketAddr;

use onetrip::{Client, Config};
use onetrip_lab::postgres::{Durability, Options, PrivatePostgres, Shutdown};
use onetrip_lab::proxy::{Proxy, ProxyConfig};

use super::observer::Observer;
use crate::line::OnLine;

pub(crate) struct Stage {
    /// None while it is being stopped or started.
    pub(crate) server: Option<PrivatePostgres>,
    pub(crate) proxy: Proxy,
    pub(crate) client: Client,
    /// How the server is reached past the proxy.
    pub(crate) url: String,
}

impl Stage {
    /// A server whose commits are on disk, a table without any index that would hide a doubled row,
    /// and a client with so narrow a window that its queues are in use.
    pub(crate) async fn set() -> Stage {
        let durable = Options { durability: Durability::Full, ..Options::default() };
        let mut server =
            PrivatePostgres::start(durable.setting("synchronous_commit", "on")).unwrap();
        // The first recovery takes seconds: it flushes all files, and none was before.
        server.shut_down(Shutdown::Immediate).unwrap();
        server.start_again().unwrap();
        let url = server.url();
        let observer = Observer::connect(&url).await;
        observer.script("create table written (n bigint not null, fine bool check (fine))").await;
        assert_eq!(observer.show("fsync").await, "on");
        assert_eq!(observer.show("synchronous_commit").await, "on");
        let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
        let proxy = Proxy::start(ProxyConfig::new(address)).unwrap();
        let direct = format!("@127.0.0.1:{}/", server.port());
        let through = url.replace(&direct, &format!("@{}/", proxy.addr()));
        let config: Config = through.parse().unwrap();
        let config = config.application_name(NAME).connections_max(8).in_flight_max(16);
        let client = Client::connect_with(&config).await.unwrap();
        Stage { server: Some(server), proxy, client, url }
    }
}

impl OnLine for Stage {
    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    async fn ends(&self) -> String {
        let server = Observer::connect(&self.url).await.sessions().await;
        format!("the server has {server:?}, the client {:?}", self.client.metrics())
    }
}

/// What the sessions of the client under test are called at the server.
pub(crate) const NAME: &str = "chaos";
