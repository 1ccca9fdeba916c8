//! When the topology is asked for: one request at a time, with pauses.

use std::time::Duration;

use onetrip_engine::{Retry, RetryLimits, Time};

use super::limits::Limits;

pub(super) struct Refresh {
    every: Duration,
    due: Time,
    running: bool,
    /// Whether a certain node was asked.
    pub(super) asked_one: bool,
    /// Whether an answer ever came.
    pub(super) was_answered: bool,
    /// How many requests were begun.
    begun: u64,
    not_before: Time,
    /// Pauses that grow while requests fail.
    failing: Retry,
    /// Pauses of constant length.
    usual: Retry,
    limits: RetryLimits,
    seed: u64,
}

/// The first pause after a failure.
const PAUSE_MIN: Duration = Duration::from_millis(50);

impl Refresh {
    pub(super) fn new(limits: &Limits, seed: u64) -> Refresh {
        let pause_max = limits.refresh_pause;
        let usual = RetryLimits { attempts_max: u32::MAX, pause_min: pause_max, pause_max };
        let growing = RetryLimits { pause_min: PAUSE_MIN.min(pause_max), ..usual.clone() };
        Refresh {
            every: limits.refresh_every,
            due: Time::ZERO,
            running: false,
            asked_one: false,
            was_answered: false,
            begun: 0,
            not_before: Time::ZERO,
            failing: Retry::new(growing.clone(), seed),
            usual: Retry::new(usual, seed),
            limits: growing,
            seed,
        }
    }

    pub(super) fn due(&self) -> Time {
        if self.running { Time::NEVER } else { self.due.max(self.not_before) }
    }

    /// Something happened that may have changed the topology.
    pub(super) fn want(&mut self, now: Time) {
        self.due = self.due.min(now);
    }

    /// Whether it must be asked for now. If so, a request begins.
    pub(super) fn begins(&mut self, now: Time) -> bool {
        let begins = self.due() <= now;
        if begins {
            self.running = true;
            self.begun += 1;
            self.due = Time::NEVER;
            self.not_before = now.after(self.usual.failed().unwrap_or_default());
        }
        begins
    }

    /// The number of the next request. Only its answer can show what happens now.
    pub(super) fn next(&self) -> u64 {
        self.begun + 1
    }

    /// The number of the last request.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether a request is under way.
    pub(super) fn is_running(&self) -> bool {
        self.running
    }

    /// The answer came.
    pub(super) fn done(&mut self, now: Time) {
        self.running = false;
        self.was_answered = true;
        self.failing = Retry::new(self.limits.clone(), self.seed);
        self.due = self.due.min(now.after(self.every));
    }

    /// No answer came.
    pub(super) fn failed(&mut self, now: Time) {
        self.running = false;
        self.want(now);
        self.not_before = now.after(self.failing.failed().unwrap_or_default());
    }
}
