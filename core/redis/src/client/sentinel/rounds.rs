//! When the Sentinels are asked: one round at a time, with pauses.

use std::time::Duration;

use onetrip_engine::{Retry, RetryLimits, Time};

use super::limits::Limits;

pub(super) struct Rounds {
    due: Time,
    not_before: Time,
    /// The number of the last round.
    begun: u64,
    /// The first round whose answer counts for what happens now.
    pub(super) counts_from: u64,
    /// Whether answers are awaited.
    pub(super) is_open: bool,
    /// Whether this round has shown the master.
    pub(super) is_decided: bool,
    /// Since when a connection to the master stands.
    usable_since: Option<Time>,
    pauses: Retry,
    usual: Retry,
    limits: RetryLimits,
    seed: u64,
}

impl Rounds {
    pub(super) fn new(limits: &Limits, seed: u64) -> Rounds {
        let growing = |pause_min: Duration, pause_max: Duration| RetryLimits {
            attempts_max: u32::MAX,
            pause_min,
            pause_max,
        };
        let usual = growing(limits.refresh_every, limits.refresh_every);
        let limits = growing(limits.pause.0, limits.pause.1);
        Rounds {
            due: Time::ZERO,
            not_before: Time::ZERO,
            begun: 0,
            counts_from: 0,
            is_open: false,
            is_decided: false,
            usable_since: None,
            pauses: Retry::new(limits.clone(), seed),
            usual: Retry::new(usual, seed),
            limits,
            seed,
        }
    }

    pub(super) fn due(&self) -> Time {
        self.due.max(self.not_before)
    }

    /// Whether the answers that come now count for what happened.
    pub(super) fn counts(&self) -> bool {
        self.begun >= self.counts_from
    }

    /// Something happened that the Sentinels may know of.
    pub(super) fn want(&mut self, now: Time) {
        self.due = self.due.min(now);
    }

    /// The same, and answers to questions that were asked before don't count.
    pub(super) fn want_another(&mut self, now: Time) {
        self.counts_from = self.begun + 1;
        self.want(now);
    }

    /// A Sentinel announced a switch: there is something new to hear, so pauses begin anew.
    pub(super) fn want_soon(&mut self, now: Time) {
        self.begin_pauses();
        self.not_before = self.not_before.min(now.after(self.pauses.failed().unwrap_or_default()));
        self.want(now);
    }

    /// A connection to the master was opened.
    pub(super) fn succeeded(&mut self, now: Time) {
        self.usable_since.get_or_insert(now);
    }

    /// It was lost. If it was of use for longer than a pause, pauses begin anew. Otherwise they go
    /// on growing: a server that takes connections and drops them must not make us ask all the time.
    pub(super) fn failed(&mut self, now: Time) {
        let since = self.usable_since.take();
        if since.is_some_and(|since| now.since(since) >= self.limits.pause_max) {
            self.begin_pauses();
        }
    }

    fn begin_pauses(&mut self) {
        self.pauses = Retry::new(self.limits.clone(), self.seed ^ self.begun);
    }

    /// A round begins, if it is time for one.
    pub(super) fn begins(&mut self, now: Time) -> bool {
        let begins = self.due() <= now;
        if begins {
            self.begun += 1;
            (self.is_open, self.is_decided) = (true, false);
            self.due = Time::NEVER;
            self.not_before = now.after(self.pauses.failed().unwrap_or_default());
        }
        begins
    }

    /// No answer is awaited any more.
    pub(super) fn end(&mut self, now: Time) {
        self.is_open = false;
        let wait = match self.is_decided {
            true => self.usual.failed().unwrap_or_default(),
            false => Duration::ZERO,
        };
        self.due = self.due.min(now.after(wait));
    }
}
