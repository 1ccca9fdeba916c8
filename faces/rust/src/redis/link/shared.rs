//! The state that all connections to one server share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use onetrip_engine::Time;
use onetrip_redis::client::router::{FlightId, NodeId};

use super::Link;
use crate::Error;
use crate::redis::cached::Cached;
use crate::redis::config::Limits;
use crate::redis::metrics::Totals;
use crate::redis::pushes::Pushes;

/// The node that the connections belong to, as far as subscriptions need it.
pub(crate) trait Home: Send + Sync {
    /// Whether subscriptions have a connection of their own.
    fn subscribes_apart(&self) -> bool;
    /// Moves subscriptions to a connection of their own.
    fn move_subscriptions_apart(self: Arc<Self>);
}

/// The state that all connections to one server share.
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    /// Whether the configuration says that the server is a node of a cluster.
    pub(crate) in_cluster: bool,
    /// The replies that are kept, if any are.
    pub(crate) cached: Option<Cached>,
    /// The zero of the time. It is the same for a client and all nodes of its cluster, which come
    /// later and keep the client's deadlines.
    epoch: Instant,
    /// Whether the server spoke RESP3 on the last connection.
    resp3: AtomicBool,
    /// The connection with the subscriptions, or the last one. The lock is held while subscribing
    /// or unsubscribing.
    subscribed: Mutex<Weak<Link>>,
    /// The readers of messages that come on these connections.
    pub(crate) pushes: Arc<Pushes>,
    /// The totals of all nodes of a cluster, which come and go.
    pub(crate) totals: Arc<Totals>,
    home: OnceLock<Weak<dyn Home>>,
    /// In a cluster, the receiver of the results of commands.
    landing: OnceLock<(Weak<dyn Landing + Send + Sync>, NodeId)>,
}

impl Shared {
    pub(crate) fn new(
        limits: Limits,
        in_cluster: bool,
        totals: Arc<Totals>,
        pushes: Arc<Pushes>,
        cached: Option<Cached>,
    ) -> Arc<Shared> {
        static EPOCH: OnceLock<Instant> = OnceLock::new();
        Arc::new(Shared {
            limits,
            in_cluster,
            cached,
            epoch: *EPOCH.get_or_init(Instant::now),
            resp3: AtomicBool::new(false),
            subscribed: Mutex::default(),
            pushes,
            totals,
            home: OnceLock::new(),
            landing: OnceLock::new(),
        })
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO.after(self.epoch.elapsed())
    }

    pub(crate) fn set_landing(&self, landing: Weak<dyn Landing + Send + Sync>, node: NodeId) {
        let _ = self.landing.set((landing, node));
    }

    fn landing(&self) -> Option<(Arc<dyn Landing + Send + Sync>, NodeId)> {
        let (landing, node) = self.landing.get()?;
        Some((landing.upgrade()?, *node))
    }

    /// Reports that the node has a new shared connection. No lock may be held.
    pub(crate) fn connected(&self) {
        if let Some((landing, node)) = self.landing() {
            landing.connected(node);
        }
    }

    pub(crate) fn set_home(&self, home: Weak<dyn Home>) {
        let _ = self.home.set(home);
    }

    pub(crate) fn home(&self) -> Option<Arc<dyn Home>> {
        self.home.get()?.upgrade()
    }

    /// Reports that the node's shared connection was lost. No lock may be held.
    pub(crate) fn disconnected(&self) {
        if let Some((landing, node)) = self.landing() {
            landing.disconnected(node);
        }
    }

    /// Reports that these commands have ended, and which channels the node has unsubscribed. No
    /// lock may be held.
    pub(crate) fn landed(&self, Landings { flights, unsubscribed }: Landings) {
        if (!flights.is_empty() || !unsubscribed.is_empty())
            && let Some((landing, node)) = self.landing()
        {
            landing.landed(node, flights, unsubscribed);
        }
    }

    pub(crate) fn is_resp3(&self) -> bool {
        self.resp3.load(Ordering::Relaxed)
    }

    pub(crate) fn set_resp3(&self, is_resp3: bool) {
        self.resp3.store(is_resp3, Ordering::Relaxed);
    }

    /// The connection with the subscriptions. While the guard is held, nobody else subscribes or
    /// unsubscribes.
    pub(crate) fn subscribing(&self) -> MutexGuard<'_, Weak<Link>> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.epoch + time.since(Time::ZERO)
    }

    /// The deadline of a call that is made now.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Time {
        timeout.map_or(Time::NEVER, |timeout| self.now().after(timeout))
    }
}

/// The result of a command of a cluster.
#[derive(Debug)]
pub(crate) enum Landed {
    /// Its reply, or an error of the server.
    Reply(Bytes),
    Failed(Error),
}

/// The receiver of the results of commands of a cluster.
pub(crate) trait Landing {
    fn landed(&self, node: NodeId, flights: Vec<(FlightId, Landed)>, unsubscribed: Vec<Bytes>);
    /// A node has a new shared connection.
    fn connected(&self, node: NodeId);
    /// A node's shared connection was lost.
    fn disconnected(&self, node: NodeId);
}

/// What a connection has to report to its cluster.
#[derive(Debug, Default)]
pub(crate) struct Landings {
    pub(crate) flights: Vec<(FlightId, Landed)>,
    /// Sharded channels that the node unsubscribed unasked.
    pub(crate) unsubscribed: Vec<Bytes>,
}

impl Landings {
    pub(crate) fn of(flights: Vec<(FlightId, Landed)>) -> Landings {
        Landings { flights, unsubscribed: Vec::new() }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_means_the_same_to_a_node_that_comes_later() {
        let client = Shared::new(Limits::default(), false, Arc::default(), Arc::default(), None);
        while client.now() == Time::ZERO {}
        let node = Shared::new(Limits::default(), false, Arc::default(), Arc::default(), None);
        assert_eq!(client.instant(Time::ZERO), node.instant(Time::ZERO));
    }
}
