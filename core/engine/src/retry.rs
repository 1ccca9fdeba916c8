//! When failed work is tried again: a bounded number of times, after pauses that double.
//!
//! The host says what failed and whether it may be tried again, and it owns the clock.

use std::time::Duration;

use crate::jitter::Jitter;

/// How often work is tried, and how long the pauses are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryLimits {
    /// Attempts in all, including the first. Default 10; 1 never tries again.
    pub attempts_max: u32,
    /// The pause after the first failure. Default 5 ms: a few round trips within a datacenter, in
    /// which a conflicting transaction can commit. The pause doubles with each failure. Each is
    /// shortened at random by up to half, so that two clients in conflict don't meet again.
    pub pause_min: Duration,
    /// The longest pause. Default 1 s.
    pub pause_max: Duration,
}

impl Default for RetryLimits {
    /// With these values the pauses of ten attempts add up to less than 2.3 s.
    fn default() -> RetryLimits {
        RetryLimits {
            attempts_max: 10,
            pause_min: Duration::from_millis(5),
            pause_max: Duration::from_secs(1),
        }
    }
}

/// Counts the attempts at one piece of work.
pub struct Retry {
    limits: RetryLimits,
    jitter: Jitter,
    failures: u32,
}

impl Retry {
    /// A piece of work that was not tried yet. `seed` is for the random part of the pauses: clients
    /// of one server should have different seeds.
    pub fn new(limits: RetryLimits, seed: u64) -> Retry {
        Retry { limits, jitter: Jitter::new(seed), failures: 0 }
    }

    /// An attempt failed. Returns the pause before the next one, or `None` if there is none.
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
