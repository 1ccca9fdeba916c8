//! What all connections to one server have in common.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use onetrip_engine::Time;
use onetrip_redis::client::router::FlightId;

use super::Link;
use crate::Error;
use crate::redis::config::Limits;
use crate::redis::metrics::Totals;
use crate::redis::pushes::Pushes;

/// Whose connections these are, where they are subscribed.
pub(crate) trait Home: Send + Sync {
    /// Whether subscriptions have a connection of their own.
    fn subscribes_apart(&self) -> bool;
    /// Gives them one.
    fn move_subscriptions_apart(self: Arc<Self>);
}

/// What all connections to one server have in common.
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    /// Whether the configuration says that it is a node of a cluster.
    pub(crate) in_cluster: bool,
    /// When time began. Nodes of a cluster come later than their client, whose deadlines they keep, so it is the
    /// same for all there are.
    epoch: Instant,
    /// Whether the server speaks RESP3, as it said last.
    resp3: AtomicBool,
    /// The connection that is subscribed, or was last. Held by whoever subscribes or unsubscribes.
    subscribed: Mutex<Weak<Link>>,
    pub(crate) pushes: Pushes,
    /// Those of all nodes of a cluster, which come and go.
    pub(crate) totals: Arc<Totals>,
    home: OnceLock<Weak<dyn Home>>,
    /// In a cluster, who wants to know what became of commands.
    landing: OnceLock<Weak<dyn Landing + Send + Sync>>,
}

impl Shared {
    pub(crate) fn new(limits: Limits, in_cluster: bool, totals: Arc<Totals>) -> Arc<Shared> {
        static EPOCH: OnceLock<Instant> = OnceLock::new();
        Arc::new(Shared {
            limits,
            in_cluster,
            epoch: *EPOCH.get_or_init(Instant::now),
            resp3: AtomicBool::new(false),
            subscribed: Mutex::default(),
            pushes: Pushes::default(),
            totals,
            home: OnceLock::new(),
            landing: OnceLock::new(),
        })
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO.after(self.epoch.elapsed())
    }

    pub(crate) fn set_landing(&self, landing: Weak<dyn Landing + Send + Sync>) {
        let _ = self.landing.set(landing);
    }

    pub(crate) fn set_home(&self, home: Weak<dyn Home>) {
        let _ = self.home.set(home);
    }

    pub(crate) fn home(&self) -> Option<Arc<dyn Home>> {
        self.home.get()?.upgrade()
    }

    /// These commands have ended. No lock may be held.
    pub(crate) fn landed(&self, landed: Vec<(FlightId, Landed)>) {
        if !landed.is_empty()
            && let Some(landing) = self.landing.get().and_then(Weak::upgrade)
        {
            landing.landed(landed);
        }
    }

    pub(crate) fn is_resp3(&self) -> bool {
        self.resp3.load(Ordering::Relaxed)
    }

    pub(crate) fn set_resp3(&self, is_resp3: bool) {
        self.resp3.store(is_resp3, Ordering::Relaxed);
    }

    /// Holds those off who subscribe or unsubscribe meanwhile; the connection that is subscribed.
    pub(crate) fn subscribing(&self) -> MutexGuard<'_, Weak<Link>> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.epoch + time.since(Time::ZERO)
    }

    /// The deadline of what is asked for now.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Time {
        timeout.map_or(Time::NEVER, |timeout| self.now().after(timeout))
    }
}

/// What became of a command of a cluster.
#[derive(Debug)]
pub(crate) enum Landed {
    /// Its reply, or an error of the server.
    Reply(Bytes),
    Failed(Error),
}

/// Who wants to know what became of commands of a cluster.
pub(crate) trait Landing {
    fn landed(&self, landed: Vec<(FlightId, Landed)>);
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
        let client = Shared::new(Limits::default(), false, Arc::default());
        while client.now() == Time::ZERO {}
        let node = Shared::new(Limits::default(), false, Arc::default());
        assert_eq!(client.instant(Time::ZERO), node.instant(Time::ZERO));
    }
}
