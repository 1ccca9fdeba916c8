//! When all is over: what only Redis' hosts were told.

use onetrip_engine::{Cause, End, Outcome};

use super::World;
use crate::seeded::Effect;
use crate::sim::book::{State, failed};

impl World {
    /// What the end of a connection takes along is no more than its window.
    pub(super) fn check_unknown(&self, findings: &mut Vec<String>) {
        let unknown = failed(Outcome::Unknown, Cause::Closed);
        let taken_along = self.book.records.values().filter(|it| it.end() == Some(unknown)).count();
        let window = self.settings.network.limits.in_flight_max.max(1);
        if taken_along > window {
            findings.push(format!("{taken_along} are unknown, and the window is {window}"));
        }
    }

    /// What is complete stands, but what was answered with an error.
    pub(super) fn check_replies(&self, findings: &mut Vec<String>) {
        for (record, op, entry) in self.effects() {
            let stands = entry.effect == Effect::Committed;
            let is_complete = record.state == State::Ended(End::Complete);
            if is_complete && stands == record.own.failed.contains(&op) {
                findings.push(format!("{op} is not what its reply says: {entry:?}"));
            }
        }
    }

    /// What was pushed came in order, and all of it if nothing was in the way.
    pub(super) fn check_pushes(&self, findings: &mut Vec<String>) {
        let (sent, came) = (self.links[0].server.pushes(), &self.book.own.pushes);
        if !sent.starts_with(came) {
            findings.push("the pushes are not those that were sent".into());
        }
        if self.book.closed.is_none() && came.len() < sent.len() {
            findings.push(format!("{} of {} pushes came", came.len(), sent.len()));
        }
    }
}
