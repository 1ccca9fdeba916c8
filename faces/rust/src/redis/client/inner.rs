//! What the clones of a client share, and the numbers that it publishes.

use std::sync::Arc;

use crate::metrics::Metrics;
use crate::redis::call::Call;
use crate::redis::cluster::Cluster;
use crate::redis::config::Config;
use crate::redis::node::{Node, Sent};

/// What clones share.
pub(crate) struct Inner {
    pub(crate) config: Arc<Config>,
    /// The server; of a cluster those of the configuration.
    pub(crate) node: Arc<Node>,
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// What was published last.
    #[cfg(feature = "metrics")]
    pub(super) published: std::sync::Mutex<Metrics>,
}

impl Inner {
    pub(crate) fn send(&self, call: Call) -> Sent {
        self.node.send(call)
    }

    pub(super) fn metrics(&self) -> Metrics {
        let nodes = self.cluster.iter().flat_map(|cluster| cluster.nodes());
        let mut metrics = Metrics::default();
        for node in nodes.chain([self.node.clone()]) {
            metrics.waiting += node.waiting();
        }
        // Those of all nodes.
        self.node.context.totals.add_to(&mut metrics);
        metrics
    }

    /// Publishes what has changed; `last` takes back what is left of it.
    #[cfg(feature = "metrics")]
    pub(super) fn publish(&self, last: bool) {
        let new = if last { self.metrics().without_gauges() } else { self.metrics() };
        let old = {
            let mut published =
                self.published.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            std::mem::replace(&mut *published, new.clone())
        };
        // The recorder is the code of others: the lock is free.
        crate::metrics::publish::publish_change(&new, &old);
    }

    pub(super) fn close(&self) {
        self.node.close();
        self.cluster.iter().for_each(|cluster| cluster.close());
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
        #[cfg(feature = "metrics")]
        self.publish(true);
    }
}

/// Publishes the numbers for as long as there is a client.
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
