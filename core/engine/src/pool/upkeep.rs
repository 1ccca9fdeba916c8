//! Upkeep of connections that no caller has to itself: idle and old ones are closed, and a
//! connection that holds something others may be waiting for is reset.
//!
//! The host knows when a shared connection became idle, but does not report it each time. So the
//! pool remembers a moment before which nothing can be due, and then looks through the connections.

use super::connections::State;
use super::limits::RESOLUTION;
use super::{Load, LoadOf, Output, Pool};
use crate::Time;

impl Pool {
    /// Looks through the shared connections if something may be due.
    pub(super) fn look(&mut self, now: Time, load_of: LoadOf<'_>) {
        if now < self.next_look {
            return;
        }
        let mut next = Time::NEVER;
        // Backwards, because a connection that leaves is replaced by the last.
        for at in (0..self.connections.count(State::Shared)).rev() {
            let index = self.connections.list(State::Shared)[at];
            let load = self.load(index, load_of);
            next = next.min(self.look_at(now, index, load));
        }
        self.next_look = next.max(now.after(RESOLUTION));
    }

    /// Does what is due on one connection, and says when to look at it again.
    fn look_at(&mut self, now: Time, index: usize, load: Load) -> Time {
        let expired = now >= self.connections.slot(index).expires;
        match load.is_idle() {
            true if expired || self.too_long_idle(now, load.since) => self.close_now(index),
            false if expired => self.drain(index, State::Retiring),
            true => return self.look_at_idle(now, index, load.since),
            false => return self.look_at_busy(now, index, load.since),
        }
        Time::NEVER
    }

    fn too_long_idle(&self, now: Time, since: Time) -> bool {
        let spare = self.connections.serving() > self.limits.connections_min;
        spare && now >= since.after(self.limits.idle_timeout)
    }

    fn look_at_idle(&mut self, now: Time, index: usize, since: Time) -> Time {
        let slot = self.connections.slot_mut(index);
        if slot.holding && now >= since.after(self.limits.reset_idle_after) {
            slot.holding = false;
            self.outputs.push_back(Output::Reset { id: slot.id });
        }
        let due = self.due(index, since);
        // A connection kept for the minimum is looked at again after the same time.
        if due > now { due } else { self.due(index, now) }
    }

    fn look_at_busy(&mut self, now: Time, index: usize, since: Time) -> Time {
        let slot = self.connections.slot_mut(index);
        // A statement that was sent since it came back has taken the reset along.
        slot.holding &= since <= slot.since;
        self.due(index, now)
    }

    /// When something may be due on a connection that has just been made available.
    pub(super) fn next_due(&self, index: usize) -> Time {
        self.due(index, self.connections.slot(index).since)
    }

    /// When something may be due on a connection that is idle since `since`.
    fn due(&self, index: usize, since: Time) -> Time {
        let slot = self.connections.slot(index);
        let idle = since.after(self.limits.idle_timeout).min(slot.expires);
        match slot.holding {
            true => idle.min(since.after(self.limits.reset_idle_after)),
            false => idle,
        }
    }
}
