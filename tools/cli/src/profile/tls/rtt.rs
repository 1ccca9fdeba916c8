//! The round trip to a server behind a relay, which the splice in front of the relay can't see.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onetrip_lab::proxy::{Direction, Tap};

/// The least time that it took to connect to a server.
#[derive(Debug)]
pub(crate) struct Rtt(AtomicU64);

impl Default for Rtt {
    fn default() -> Rtt {
        Rtt(AtomicU64::new(UNKNOWN))
    }
}

const UNKNOWN: u64 = u64::MAX;

impl Rtt {
    pub(super) fn note(&self, connecting: Duration) {
        let nanos = u64::try_from(connecting.as_nanos()).unwrap_or(UNKNOWN);
        self.0.fetch_min(nanos, Ordering::Relaxed);
    }

    /// For a splice in front of the relay: its tap hears of the round trip to the server in place of
    /// that to the relay.
    pub(in crate::profile) fn told_to(self: &Arc<Rtt>, tap: Arc<dyn Tap>) -> Arc<dyn Tap> {
        Arc::new(RttTap { rtt: self.clone(), told: AtomicU64::new(UNKNOWN), tap })
    }
}

#[derive(Debug)]
struct RttTap {
    rtt: Arc<Rtt>,
    told: AtomicU64,
    tap: Arc<dyn Tap>,
}

impl RttTap {
    /// Tells of the round trip if it is news.
    fn tell(&self, connection: u64) {
        let least = self.rtt.0.load(Ordering::Relaxed);
        if self.told.swap(least, Ordering::Relaxed) != least {
            self.tap.opened(connection, Duration::from_nanos(least));
        }
    }
}

impl Tap for RttTap {
    fn opened(&self, _: u64, _: Duration) {}

    fn passed(&self, connection: u64, direction: Direction, at_ns: u64, bytes: &[u8]) {
        self.tell(connection);
        self.tap.passed(connection, direction, at_ns, bytes);
    }

    fn closed(&self, connection: u64) {
        self.tap.closed(connection);
    }
}
