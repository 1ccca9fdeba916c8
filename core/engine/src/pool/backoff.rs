//! When the next attempt to open a connection may be made.

use std::time::Duration;

use super::Limits;
use super::limits::RESOLUTION;
use crate::Time;
use crate::jitter::Jitter;

pub(super) struct Backoff {
    /// When the first attempt began that failed since the last success; `None` if none has.
    failing_since: Option<Time>,
    /// When the last attempt failed.
    failed: Time,
    /// The last failure was one that time does not mend.
    permanent: bool,
    /// No attempt is made before this moment.
    until: Time,
    /// The same for an attempt that nobody waits for.
    leisurely: Time,
    /// A connection was lost, and no attempt since then was quick: how long one took before. Other
    /// clients may have lost theirs at the same moment.
    lost: Option<Duration>,
}

impl Backoff {
    pub(super) fn new() -> Backoff {
        Backoff {
            failing_since: None,
            failed: Time::ZERO,
            permanent: false,
            until: Time::ZERO,
            leisurely: Time::ZERO,
            lost: None,
        }
    }

    /// The moment before which no attempt is made.
    pub(super) fn until(&self) -> Time {
        self.until
    }

    /// The same for an attempt that nobody waits for, as one to restore the minimum.
    pub(super) fn leisurely_until(&self) -> Time {
        self.until.max(self.leisurely)
    }

    /// Whether the last attempt failed.
    pub(super) fn failing(&self) -> bool {
        self.failing_since.is_some()
    }

    /// Whether an attempt would fail for the same reason as the last one.
    pub(super) fn hopeless(&self, now: Time) -> bool {
        self.failing() && self.permanent && now < self.until
    }

    /// Another attempt may fare better than the last one.
    pub(super) fn forget(&mut self) {
        self.permanent = false;
    }

    /// An attempt succeeded, and took this long. If that is about what one takes, the server is not
    /// busy with the logins of others.
    pub(super) fn succeeded(&mut self, took: Duration) {
        self.failing_since = None;
        (self.until, self.leisurely) = (Time::ZERO, Time::ZERO);
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
    /// reason, so one pause is made for all of them.
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
        let since = *self.failing_since.get_or_insert(started);
        self.failed = now;
        self.pause(now, pause(now.since(since), limits), jitter);
        let longest = limits.backoff_max;
        self.leisurely = now.after(jitter.between(longest / 2, longest));
    }

    /// Makes no attempt for a random time between half of `time` and `time`.
    pub(super) fn pause(&mut self, now: Time, time: Duration, jitter: &mut Jitter) {
        self.until = self.until.max(now.after(jitter.between(time / 2, time)));
    }
}

/// The pauses between attempts to open a connection that belongs to no pool, by the same rule: the
/// longer attempts have failed, the longer they are, and each is shortened at random by up to half.
pub struct Pauses {
    /// The pauses since the last success.
    paused: Duration,
    limits: Limits,
    jitter: Jitter,
}

impl Pauses {
    /// Pauses between [`backoff_min`](Limits::backoff_min) and
    /// [`backoff_max`](Limits::backoff_max). `seed` is random, so that hosts that lost a server
    /// together don't come back together.
    pub fn new(limits: Limits, seed: u64) -> Pauses {
        Pauses { paused: Duration::ZERO, limits: limits.sane(), jitter: Jitter::new(seed) }
    }

    /// An attempt failed. Returns how long to wait before the next.
    pub fn failed(&mut self) -> Duration {
        let pause = pause(self.paused, &self.limits);
        let pause = self.jitter.between(pause / 2, pause);
        self.paused = self.paused.saturating_add(pause);
        pause
    }

    /// A connection was opened, and lasted.
    pub fn succeeded(&mut self) {
        self.paused = Duration::ZERO;
    }
}

/// The pause once attempts have failed for this long: with the square of the time, so that it is
/// the longest after 1.4 times `backoff_max`. A switchover takes less than a second, and few wait
/// for it in vain; what takes longer may be a crash, after which many clients wait for one server
/// (`storm.rs` has both).
fn pause(failing_for: Duration, limits: &Limits) -> Duration {
    let Limits { backoff_min, backoff_max, .. } = *limits;
    if failing_for >= backoff_max.saturating_mul(2) {
        return backoff_max;
    }
    let share = failing_for.as_secs_f64() / (2.0 * backoff_max.as_secs_f64());
    failing_for.mul_f64(share).clamp(backoff_min, backoff_max)
}
