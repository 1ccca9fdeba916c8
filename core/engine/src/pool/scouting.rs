//! When a client of several servers looks for another one while its own is silent.
//!
//! A statement that is late keeps its connection, since a server that computes in silence looks the
//! same as one that is paused or cut off. So where every connection leads to such a server, none is
//! free to meet the next one. While something is awaited and nothing was answered on any
//! connection for [`Limits::scout_after`](super::Limits::scout_after), the host is asked to send a
//! *scout*: one attempt to reach a server, beside all connections. What follows from what it meets
//! is the host's: connections to a former primary end, and the pool opens others.

use std::time::Duration;

use super::connections::State;
use super::{LoadOf, Output, Pool};
use crate::Time;

pub(super) struct Scouting {
    /// When the connections are looked at next.
    next_look: Time,
    /// A scout is under way.
    is_out: bool,
}

/// The longest pause between two scouts.
const PAUSE_MAX: Duration = Duration::from_secs(10);

impl Scouting {
    pub(super) fn new(after: Duration) -> Scouting {
        Scouting { next_look: Time::ZERO.after(after), is_out: false }
    }

    pub(super) fn next_look(&self) -> Time {
        if self.is_out { Time::NEVER } else { self.next_look }
    }
}

impl Pool {
    /// The scout that [`Output::Scout`] asked for is back, whatever it met. If the server is still
    /// silent, another one goes after a pause: half of the time of the silence, up to 10 s,
    /// shortened at random by up to half.
    pub fn handle_scouted(&mut self, now: Time) {
        self.scouting.is_out = false;
        let silence = now.since(self.silent_since);
        let pause = (silence / 2).min(PAUSE_MAX).max(self.limits.scout_after);
        let pause = self.jitter.between(pause / 2, pause);
        self.scouting.next_look = now.after(pause);
        self.undecided = true;
    }

    /// Sends a scout, if it is time for one.
    pub(super) fn scout(&mut self, now: Time, load_of: LoadOf<'_>) {
        if now < self.scouting.next_look() {
            return;
        }
        let after = self.limits.scout_after;
        let (last, awaits) = self.last_sign(load_of);
        // An attempt to open a connection looks for a server as well.
        let looks = self.opening() > 0 || self.backoff.failing();
        self.silent_since = last;
        if !awaits || looks || self.connections.serving() + self.retiring() == 0 {
            self.scouting.next_look = now.after(after);
        } else if now < last.after(after) {
            self.scouting.next_look = last.after(after);
        } else {
            self.scouting.is_out = true;
            self.outputs.push_back(Output::Scout);
        }
    }

    /// When something was answered or asked last on any connection, and whether anybody waits for
    /// anything.
    fn last_sign(&self, load_of: LoadOf<'_>) -> (Time, bool) {
        let (mut last, mut awaits) = (Time::ZERO, self.waiters.len() > 0);
        for state in [State::Shared, State::Claimed, State::Exclusive, State::Retiring] {
            for index in self.connections.list(state) {
                let load = self.load(*index, load_of);
                last = last.max(load.since).max(self.connections.slot(*index).since);
                awaits |= !load.is_idle();
            }
        }
        (last, awaits)
    }
}
