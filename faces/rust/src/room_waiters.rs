//! Deadlines of pinned requests that wait for room in the queue. Such a request keeps its place
//! whatever its caller does, so the place and the reply have a token each. At the deadline the
//! caller gets its error, and the request is sent all the same.

use std::collections::BTreeSet;

use onetrip_engine::Time;

/// Their deadlines.
#[derive(Debug, Default)]
pub(crate) struct RoomWaiters {
    /// Each with the token of its place, in the order of time. A request may have left the line
    /// since.
    pub(crate) deadlines: BTreeSet<(Time, u64)>,
}

impl RoomWaiters {
    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Time {
        self.deadlines.first().map_or(Time::NEVER, |(deadline, _)| *deadline)
    }
}
