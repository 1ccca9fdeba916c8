//! The server, the line to it, and the client under test.

use std::net::SocketAddr;

use onetrip::{Client, Config};
use onetrip_lab::postgres::pgbouncer::{self, PrivatePgBouncer};
use onetrip_lab::postgres::{Durability, Options, PrivatePostgres, Shutdown};
use onetrip_lab::proxy::{Proxy, ProxyConfig};

use super::observer::Observer;
use crate::line::OnLine;

pub(crate) struct Stage {
    /// `None` while it is being stopped or started.
    pub(crate) server: Option<PrivatePostgres>,
    /// The pooler between the proxy and the server, if there is one.
    pub(crate) pooler: Option<PrivatePgBouncer>,
    pub(crate) proxy: Proxy,
    pub(crate) client: Client,
    /// The URL of the server, bypassing the proxy.
    pub(crate) url: String,
}

impl Stage {
    /// Starts a server with this schema, which flushes commits to disk, and a client that reaches
    /// it through the proxy and, if one is given, through a pooler.
    pub(crate) async fn set(
        schema: &str,
        pooler: Option<&pgbouncer::Options>,
        tune: impl FnOnce(Config) -> Config,
    ) -> Stage {
        let (server, url) = serve(schema).await;
        let pooler = pooler.map(|options| PrivatePgBouncer::start(&server, options).unwrap());
        let (port, near) = match &pooler {
            Some(pooler) => (pooler.port(), pooler.url()),
            None => (server.port(), url.clone()),
        };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let proxy = Proxy::start(ProxyConfig::new(address)).unwrap();
        let through = near.replace(&format!("@{address}/"), &format!("@{}/", proxy.addr()));
        let config: Config = through.parse().unwrap();
        let client = Client::connect_with(&tune(config.application_name(NAME))).await.unwrap();
        Stage { server: Some(server), pooler, proxy, client, url }
    }
}

/// Starts a server and has it flush all its files once. Returns it and its URL.
async fn serve(schema: &str) -> (PrivatePostgres, String) {
    let durable = Options { durability: Durability::Full, ..Options::default() };
    let mut server = PrivatePostgres::start(durable.setting("synchronous_commit", "on")).unwrap();
    // The first recovery takes seconds, because it flushes all files and none was flushed before.
    server.shut_down(Shutdown::Immediate).unwrap();
    server.start_again().unwrap();
    let url = server.url();
    let observer = Observer::connect(&url).await;
    observer.script(schema).await;
    assert_eq!(observer.show("fsync").await, "on");
    assert_eq!(observer.show("synchronous_commit").await, "on");
    (server, url)
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

/// The `application_name` of the client under test.
pub(crate) const NAME: &str = "chaos";
