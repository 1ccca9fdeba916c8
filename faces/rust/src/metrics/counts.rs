//! The counters of a connection.

use std::ops::AddAssign;

use crate::Outcome;

/// What was sent and how it ended.
///
/// A *request* is what is answered as one: a statement, but also a query for its types, a sync
/// point of a pipeline, or the reset of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Trips: writes after bytes of the server had arrived since the last write. Without pipelining
    /// each statement would be one.
    pub trips: u64,
    /// Bytes sent, before TLS; without the login.
    pub bytes_sent: u64,
    /// Bytes received, after TLS; without the login.
    pub bytes_received: u64,
    /// Requests that ended successfully.
    pub completed: u64,
    /// Requests that failed before any byte of them was sent. A call that was refused at once does
    /// not count.
    pub failed_not_sent: u64,
    /// Requests that the server rejected.
    pub failed_rejected: u64,
    /// Requests that took effect, but whose reply could not be read as requested. They also count
    /// as completed.
    pub failed_applied: u64,
    /// Requests that were sent and have no final answer.
    pub failed_unknown: u64,
    /// Uses of a prepared statement that the connection had already.
    pub prepared_hits: u64,
    /// Uses that prepared the statement on their connection, by sending its text along.
    pub prepared_misses: u64,
    /// Requests that were sent again automatically, since the server said that they never started.
    pub healed: u64,
    /// Statements on a shared connection behind one that took longer than `slow_head` and than a
    /// round trip. [`Metrics::slow_neighbours`](crate::Metrics) names the slow ones.
    pub waited_behind_slow: u64,
    /// Reads that were sent a second time since their first answer was late
    /// ([`Repeatable::hedged`](crate::Repeatable::hedged)). Each also counts as a request in the
    /// other counters.
    pub hedged: u64,
    /// Notifications that reached a connection whose session did not ask for
    /// [`notifications`](crate::Session::notifications), and were dropped.
    pub notifications_dropped: u64,
}

impl Counts {
    /// Counts a write; `heard` if bytes of the server came since the last write.
    pub(crate) fn wrote(&mut self, bytes: usize, heard: bool) {
        self.trips += u64::from(heard);
        self.bytes_sent += bytes as u64;
    }

    pub(crate) fn failed(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::NotSent => self.failed_not_sent += 1,
            Outcome::Rejected => self.failed_rejected += 1,
            Outcome::Applied => self.failed_applied += 1,
            Outcome::Unknown => self.failed_unknown += 1,
        }
    }

    pub(crate) fn used_prepared(&mut self, parses: bool) {
        match parses {
            true => self.prepared_misses += 1,
            false => self.prepared_hits += 1,
        }
    }

    /// Requests that failed, with any outcome.
    pub fn failed_in_all(&self) -> u64 {
        self.failed_not_sent + self.failed_rejected + self.failed_applied + self.failed_unknown
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.trips += other.trips;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.completed += other.completed;
        self.failed_not_sent += other.failed_not_sent;
        self.failed_rejected += other.failed_rejected;
        self.failed_applied += other.failed_applied;
        self.failed_unknown += other.failed_unknown;
        self.prepared_hits += other.prepared_hits;
        self.prepared_misses += other.prepared_misses;
        self.healed += other.healed;
        self.waited_behind_slow += other.waited_behind_slow;
        self.hedged += other.hedged;
        self.notifications_dropped += other.notifications_dropped;
    }
}
