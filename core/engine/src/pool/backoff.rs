//! When the next attempt to open a connection may be made.

use std::time::Duration;

use super::Limits;
use super::limits::RESOLUTION;
use crate::Time;
use crate::jitter::Jitter;

pub(super) struct Backoff {
    /// Failures since the last success. Failures of attempts that ran together count once.
    failures: u32,
    /// When the last attempt failed.
    failed: Time,
    /// The last failure was one that time does not mend.
    permanent: bool,
    /// No attempt is made before this moment.
    until: Time,
    /// A connection was lost, and no attempt since then was quick: how long one took before. Other
    /// clients may have lost theirs at the same moment.
    lost: Option<Duration>,
}

impl Backoff {
    pub(super) fn new() -> Backoff {
        Backoff { failures: 0, failed: Time::ZERO, permanent: false, until: Time::ZERO, lost: None }
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

    /// An attempt succeeded, and took this long. If that is about what one takes, the server is not
    /// busy with the logins of others.
    pub(super) fn succeeded(&mut self, took: Duration) {
        self.failures = 0;
        self.until = Time::ZERO;
        self.lost = self.lost.filter(|usual| took > 2 * (*usual).max(RESOLUTION));
    }

    /// A connection was lost. `usual` is how long it takes to open one.
    pub(super) fn lost(&mut self, usual: Duration) {
        self.lost.get_or_insert(usual);
    }

    /// Nobody waits for a connection any more.
    pub(super) fn satisfied(&mut self) {
        self.lost = None;
    }

    /// Whether only one attempt is made at a time: after a failure, one shows whether the server
    /// can be reached again; after a loss, all clients of the server may come at once.
    pub(super) fn one_by_one(&self) -> bool {
        self.failing() || self.lost.is_some()
    }

    /// An attempt that began at `started` failed. Attempts that ran together fail for the same
    /// reason, so the pause doubles once for all of them.
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

    /// Makes no attempt for a random time between half of `time` and `time`.
    pub(super) fn pause(&mut self, now: Time, time: Duration, jitter: &mut Jitter) {
        self.until = self.until.max(now.after(jitter.between(time / 2, time)));
    }
}

/// The pauses between attempts to open a connection that belongs to no pool, by the same rule: they
/// double with each failure, and each is shortened at random by up to half.
pub struct Pauses {
    failures: u32,
    limits: Limits,
    jitter: Jitter,
}

impl Pauses {
    /// Pauses between [`backoff_min`](Limits::backoff_min) and
    /// [`backoff_max`](Limits::backoff_max). `seed` is random, so that hosts that lost a server
    /// together don't come back together.
    pub fn new(limits: Limits, seed: u64) -> Pauses {
        Pauses { failures: 0, limits: limits.sane(), jitter: Jitter::new(seed) }
    }

    /// An attempt failed. Returns how long to wait before the next.
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

/// The pause after this many failures in a row, which is at least one.
fn pause(failures: u32, limits: &Limits) -> Duration {
    let doublings = (failures - 1).min(31);
    limits.backoff_min.saturating_mul(1 << doublings).min(limits.backoff_max)
}
