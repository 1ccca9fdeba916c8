//! When work that failed is tried again: a bounded number of times, after pauses that double.
//!
//! What failed and whether it may be tried again is for the host to say; so is the clock.

use std::time::Duration;

use crate::jitter::Jitter;

/// How often work is tried, and how long the pauses are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryLimits {
    /// Attempts in all, the first one included: 10 by default. 1 never tries again.
    pub attempts_max: u32,
    /// The pause after the first failure: 5 ms by default, some trips within a datacenter, since who
    /// was in the way has to commit meanwhile. It doubles with each failure. Each pause is cut down
    /// by up to half, so that those who were in each other's way don't meet again.
    pub pause_min: Duration,
    /// The longest pause: 1 s by default.
    pub pause_max: Duration,
}

impl Default for RetryLimits {
    /// With these the pauses of ten attempts add up to less than 2.3 s.
    fn default() -> RetryLimits {
        RetryLimits {
            attempts_max: 10,
            pause_min: Duration::from_millis(5),
            pause_max: Duration::from_secs(1),
        }
    }
}

/// The attempts at one piece of work.
pub struct Retry {
    limits: RetryLimits,
    jitter: Jitter,
    failures: u32,
}

impl Retry {
    /// No attempt was made yet. `seed` is for the jitter: clients of one server should have
    /// different ones.
    pub fn new(limits: RetryLimits, seed: u64) -> Retry {
        Retry { limits, jitter: Jitter::new(seed), failures: 0 }
    }

    /// An attempt failed. Returns the pause before the next one; `None` when there is none.
    pub fn failed(&mut self) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= self.limits.attempts_max {
            return None;
        }
        let RetryLimits { pause_min, pause_max, .. } = self.limits;
        let doublings = (self.failures - 1).min(31);
        let pause = pause_min.saturating_mul(1 << doublings).min(pause_max);
        Some(self.jitter.between(pause / 2, pause))
    }

    /// How many attempts have failed.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}
