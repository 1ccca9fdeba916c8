//! One server that keeps every acknowledged write, behind a network that breaks.

use std::fmt::Display;
use std::net::SocketAddr;
use std::pin::Pin;

use onetrip::redis::{Client, Command, Config};
use onetrip_lab::proxy::{Proxy, ProxyConfig};
use onetrip_lab::redis::{Server, Settings};

use super::Stage;
use super::book::Book;
use super::end::{connections, rest};
use super::keys::{CLIENT, Keys};
use crate::check::{Kept, Window};
use crate::drive::{FaultWindow, Target};
use crate::end::Rest;
use crate::ledger::Ledger;
use crate::line::{OnLine, PATIENCE, Present, cut_what_is_left, end_line, gone, stall};
use crate::plan::{Kind, PlannedFault};

pub(crate) struct Single {
    /// `None` while it is being stopped or started.
    server: Option<Server>,
    proxy: Proxy,
    client: Client,
}

impl Single {
    /// Starts a server that flushes a write before it answers, and a client. The client's window is
    /// so narrow that its queues are in use, and its limits are so short that not every call waits
    /// until the server is back.
    pub(crate) async fn set() -> Single {
        let settings = Settings::default()
            .setting("appendonly", "yes")
            .setting("appendfsync", "always")
            .setting("auto-aof-rewrite-percentage", "0");
        let server = Server::start(settings).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
        let proxy = Proxy::start(ProxyConfig::new(address)).unwrap();
        let through = server
            .url()
            .replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.addr().port()));
        let config: Config = through.parse().unwrap();
        let client = Client::connect_with(&limited(config)).await.unwrap();
        Single { server: Some(server), proxy, client }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs between two faults")
    }

    async fn kill_clients(&self) -> u64 {
        let present = Present::of(self);
        let kill = Command::new("CLIENT KILL TYPE normal SKIPME yes");
        self.server().plain().unwrap().tell(&kill).unwrap();
        let broken = present.and_since(self);
        gone(self, &present.line, PATIENCE).await;
        cut_what_is_left(self, present.line).await;
        broken
    }

    async fn restart(&mut self, fault: &PlannedFault) -> u64 {
        let present = Present::of(self);
        let mut victims = present.line.clone();
        let mut server = self.server.take().expect("it runs between two faults");
        let mut broken = None;
        if fault.kind == Kind::ServerKilled {
            server = blocking(server, Server::kill).await;
            broken = Some(present.and_since(self));
            tokio::time::sleep(fault.hold).await;
        }
        victims.extend(self.line());
        self.server = Some(blocking(server, Server::restart).await);
        let broken = broken.unwrap_or_else(|| present.and_since(self));
        cut_what_is_left(self, victims).await.max(broken)
    }
}

/// The limits of a client under test.
pub(crate) fn limited(config: Config) -> Config {
    config.client_name(CLIENT).limits(|limits| {
        limits.in_flight_max = 16;
        limits.connections_max = CONNECTIONS_MAX;
        limits.wait_timeout = std::time::Duration::from_millis(300);
    })
}

/// The most connections that a client under test has besides the shared one.
pub(crate) const CONNECTIONS_MAX: usize = 24;

impl Target for Single {
    const KINDS: &'static [Kind] = &Kind::REDIS;

    fn carry_out<'a>(
        &'a mut self,
        ledger: &'a Ledger,
        fault: &'a PlannedFault,
    ) -> Pin<Box<dyn Future<Output = FaultWindow> + 'a>> {
        Box::pin(async {
            let from = ledger.now();
            let broken = match fault.kind {
                Kind::Cut | Kind::Reset => end_line(self, fault).await,
                Kind::StallReleased | Kind::StallCut => stall(self, fault).await,
                Kind::ClientsKilled => self.kill_clients().await,
                _ => self.restart(fault).await,
            };
            let window = Some(Window { from, to: ledger.now() });
            FaultWindow { kind: fault.kind, window, broken }
        })
    }
}

impl OnLine for Single {
    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    async fn ends(&self) -> String {
        let server = connections(self.server());
        format!("the server has {server:#?}, the client {:?}", self.client.metrics())
    }
}

impl Stage for Single {
    fn client(&self) -> &Client {
        &self.client
    }

    fn keys(&self) -> Keys {
        Keys { tags: 4, in_cluster: false }
    }

    async fn rest(self, ledger: &Ledger, book: &Book) -> Rest {
        let server = self.server();
        let books = (ledger, book);
        let at_rest =
            rest(&self.client, self.keys(), &[server], |_| server, books, Kept::All).await;
        drop(self.client);
        self.server.expect("it runs between two faults").stop().unwrap();
        at_rest
    }
}

/// Runs slow work on a server in a thread that may block.
pub(crate) async fn blocking<T: Send + 'static, E: Display + Send + 'static>(
    mut server: T,
    work: impl FnOnce(&mut T) -> Result<(), E> + Send + 'static,
) -> T {
    let done = tokio::task::spawn_blocking(move || {
        work(&mut server).unwrap_or_else(|error| panic!("{error}"));
        server
    });
    done.await.unwrap()
}
