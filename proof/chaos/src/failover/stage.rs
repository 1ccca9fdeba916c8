//! The cluster, and the client under test.

use onetrip::{Client, Config};
use onetrip_lab::postgres::patroni::Cluster;

use crate::postgres::SCHEMA;
use crate::postgres::observer::Observer;
use crate::postgres::stage::NAME;

pub(crate) struct Stage {
    /// `None` while it is busy in another thread.
    cluster: Option<Cluster>,
    pub(crate) client: Client,
}

impl Stage {
    pub(crate) async fn set() -> Stage {
        let started = tokio::task::spawn_blocking(Cluster::start).await.unwrap();
        let cluster = started.unwrap_or_else(|error| panic!("{error}"));
        let observer = Observer::connect(&url_of_primary(&cluster)).await;
        observer.script(SCHEMA).await;
        observer.script("create table probed (n int)").await;
        observer.script(super::paths::TABLE).await;
        assert_eq!(observer.show("synchronous_commit").await, "on");
        let config: Config = client_url(&cluster).parse().unwrap();
        let config = config.connections_max(8).in_flight_max(16).application_name(NAME);
        let client = Client::connect_with(&config).await.unwrap();
        Stage { cluster: Some(cluster), client }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().expect("nobody else works with it")
    }

    /// Does slow work with the cluster in a thread that may block.
    pub(crate) async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Cluster) -> T + Send + 'static,
    ) -> T {
        let mut cluster = self.cluster.take().expect("nobody else works with it");
        let done = tokio::task::spawn_blocking(move || {
            let done = work(&mut cluster);
            (cluster, done)
        });
        let (cluster, done) = done.await.unwrap();
        self.cluster = Some(cluster);
        done
    }

    /// The primary's, past its proxy.
    pub(crate) fn url_of_primary(&self) -> String {
        url_of_primary(self.cluster())
    }

    /// How many connections the proxies of all nodes have accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.cluster().nodes().iter().map(|node| node.proxy().stats().connections).sum()
    }

    /// The connections to one node that are open.
    pub(crate) fn line(&self, node: usize) -> Vec<u64> {
        let stats = self.cluster().nodes()[node].proxy().stats();
        stats.open.iter().map(|connection| connection.id).collect()
    }
}

fn url_of_primary(cluster: &Cluster) -> String {
    cluster.nodes()[cluster.primary().unwrap()].direct_url()
}

/// The URL with all hosts, as an operator would write it: a host that does not answer holds an
/// attempt up for two seconds.
pub(crate) fn client_url(cluster: &Cluster) -> String {
    format!("{}&connect_timeout=2", cluster.url())
}
