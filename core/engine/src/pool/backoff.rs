//! When the next attempt to open a connection may be made.

use std::time::Duration;

use super::Limits;
use crate::Time;
use crate::jitter::Jitter;

pub(super) struct Backoff {
    /// Failures since the last success, those of one round counted once.
    failures: u32,
    /// When the last attempt failed.
    failed: Time,
    /// The last failure is one that time does not mend.
    permanent: bool,
    /// No attempt is made before this moment.
    until: Time,
}

impl Backoff {
    pub(super) fn new() -> Backoff {
        Backoff { failures: 0, failed: Time::ZERO, permanent: false, until: Time::ZERO }
    }

    /// The moment before which no attempt is made.
    pub(super) fn until(&self) -> Time {
        self.until
    }

    /// Whether the last attempt failed.
    pub(super) fn failing(&self) -> bool {
        self.failures > 0
    }

    /// Whether an attempt would fail for the same reason as the last one.
    pub(super) fn hopeless(&self, now: Time) -> bool {
        self.failing() && self.permanent && now < self.until
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.until = Time::ZERO;
    }

    /// An attempt that began at `started` failed. Those that were under way together say the same
    /// thing, so the pause doubles once for all of them.
    pub(super) fn failed(
        &mut self,
        now: Time,
        started: Time,
        permanent: bool,
        limits: &Limits,
        jitter: &mut Jitter,
    ) {
        self.permanent = permanent;
        if self.failing() && started <= self.failed {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        self.failed = now;
        self.pause(now, pause(self.failures, limits), jitter);
    }

    /// Makes no attempt for `time`, or down to half of it.
    pub(super) fn pause(&mut self, now: Time, time: Duration, jitter: &mut Jitter) {
        self.until = self.until.max(now.after(jitter.between(time / 2, time)));
    }
}

/// The pauses between attempts to open a connection that belongs to no pool, by the same rule: they
/// double with each failure, and each is that long or down to half of it.
pub struct Pauses {
    failures: u32,
    limits: Limits,
    jitter: Jitter,
}

impl Pauses {
    /// Pauses between [`backoff_min`](Limits::backoff_min) and [`backoff_max`](Limits::backoff_max).
    /// The seed is random, so that hosts that lost a server together don't come back together.
    pub fn new(limits: Limits, seed: u64) -> Pauses {
        Pauses { failures: 0, limits: limits.sane(), jitter: Jitter::new(seed) }
    }

    /// An attempt failed: how long to wait before the next.
    pub fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let pause = pause(self.failures, &self.limits);
        self.jitter.between(pause / 2, pause)
    }

    /// A connection was opened, and lasted.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

/// The pause after so many failures in a row, at least one.
fn pause(failures: u32, limits: &Limits) -> Duration {
    let doublings = (failures - 1).min(31);
    limits.backoff_min.saturating_mul(1 << doublings).min(limits.backoff_max)
}
