//! The state that the clones of a client share, and the counters that it publishes.

use std::sync::Arc;
use std::task::Waker;

use onetrip_redis::client::cache::FetchId;

use onetrip_redis::Spec;
use onetrip_redis::client::sentinel::Role;

use crate::metrics::Metrics;
use crate::redis::call::Call;
use crate::redis::cluster::Cluster;
use crate::redis::config::Config;
use crate::redis::node::{Node, Sent};
use crate::redis::sentinel::Discovery;

/// The state that clones share.
pub(crate) struct Inner {
    pub(crate) config: Arc<Config>,
    /// The server; in a cluster, the servers of the configuration.
    pub(crate) node: Arc<Node>,
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// Who knows the server, if Sentinels do.
    pub(crate) discovery: Option<Arc<Discovery>>,
    /// The replica for reads, with Sentinels.
    pub(crate) replica: Option<Arc<Node>>,
    /// The counters as they were last published.
    #[cfg(feature = "metrics")]
    pub(super) published: std::sync::Mutex<Metrics>,
}

impl Inner {
    pub(crate) fn send(&self, call: Call) -> Sent {
        self.node.send(call)
    }

    /// A fetch of the cache was not sent, or is to be sent some time.
    pub(super) fn not_fetched(&self, fetch: FetchId) {
        let cached = self.node.context.cached.iter();
        cached.flat_map(|cached| cached.failed(fetch)).for_each(Waker::wake);
    }

    /// Sends a call to the server with this role.
    pub(crate) fn send_to(&self, role: Role, call: Call) -> Sent {
        match (role, &self.replica) {
            (Role::Replica, Some(replica)) => replica.send(call),
            _ => self.node.send(call),
        }
    }

    /// The role of the server that a command goes to.
    pub(crate) fn role_for(&self, spec: Option<&Spec>) -> Role {
        let Some(replica) = &self.replica else { return Role::Master };
        let is_connected = replica.shared.current().is_some();
        let only_reads = spec.is_some_and(Spec::is_readonly);
        self.config.reads_from().role_for(only_reads, is_connected)
    }

    pub(super) fn metrics(&self) -> Metrics {
        let nodes = self.cluster.iter().flat_map(|cluster| cluster.nodes());
        let mut metrics = Metrics::default();
        for node in nodes.chain([self.node.clone()]).chain(self.replica.clone()) {
            metrics.waiting += node.waiting();
        }
        // The totals are those of all nodes.
        self.node.context.totals.add_to(&mut metrics);
        metrics.cache = self.node.context.cached.as_ref().map(|cached| cached.counts().into());
        metrics
    }

    /// Publishes the differences; `last` sets the gauges to 0.
    #[cfg(feature = "metrics")]
    pub(super) fn publish(&self, last: bool) {
        let new = if last { self.metrics().without_gauges() } else { self.metrics() };
        let old = {
            let mut published =
                self.published.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            std::mem::replace(&mut *published, new.clone())
        };
        // The recorder is foreign code, so no lock is held.
        crate::metrics::publish::publish_change(&new, &old);
    }

    pub(super) fn close(&self) {
        self.node.close();
        self.cluster.iter().for_each(|cluster| cluster.close());
        self.replica.iter().for_each(|replica| replica.close());
        self.discovery.iter().for_each(|discovery| discovery.close());
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
        #[cfg(feature = "metrics")]
        self.publish(true);
    }
}

/// Publishes the counters for as long as there is a client.
#[cfg(feature = "metrics")]
pub(super) async fn publish_now_and_then(inner: std::sync::Weak<Inner>) {
    let mut publisher = crate::metrics::Publisher::new();
    loop {
        publisher.due().await;
        match inner.upgrade() {
            Some(inner) => inner.publish(false),
            None => return,
        }
    }
}
