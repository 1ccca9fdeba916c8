//! Pinned requests that wait for room in the queue. They keep their place whatever their caller
//! does, so the place and the reply have a token each: at its deadline the caller is told, and the
//! request is sent all the same.

use std::collections::BTreeSet;

use onetrip_engine::Time;

/// Their deadlines.
#[derive(Debug, Default)]
pub(crate) struct RoomWaiters {
    /// Each with the token of its place, the first first. One may have left the line meanwhile.
    pub(crate) deadlines: BTreeSet<(Time, u64)>,
}

impl RoomWaiters {
    /// When the first of them may be late.
    pub(crate) fn next_deadline(&self) -> Time {
        self.deadlines.first().map_or(Time::NEVER, |(deadline, _)| *deadline)
    }
}
