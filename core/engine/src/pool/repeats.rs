//! When a request whose connection was lost is sent again.

use std::time::Duration;

use crate::jitter::Jitter;

/// How often a request that may run twice is sent again after its connection was lost.
///
/// The new connection is opened as for any other caller, with the pause that
/// [`Limits::backoff_min`](super::Limits::backoff_min) makes after a failure. The pause here serves
/// another purpose: a request that breaks each connection it runs on shall not break many.
#[derive(Clone, Debug)]
pub struct Repeats {
    /// How many times it is sent again at most. Default 3, so that a request that brings its server
    /// down does so four times at most.
    pub max: u32,
    /// The longest pause before the first repetition; each pause is shortened at random by up to
    /// half. Default 20 ms. Each further pause is eight times as long.
    pub pause_min: Duration,
}

impl Default for Repeats {
    fn default() -> Repeats {
        Repeats { max: 3, pause_min: Duration::from_millis(20) }
    }
}

impl Repeats {
    /// The pause before it is sent again for the `number`th time, counted from 1; `None` if it is
    /// not sent again. `seed` is any number: requests that were lost together should have different
    /// seeds, so that they don't come back together.
    pub fn pause(&self, number: u32, seed: u64) -> Option<Duration> {
        if !(1..=self.max).contains(&number) {
            return None;
        }
        let pause = self.pause_min.saturating_mul(8_u32.saturating_pow(number - 1));
        Some(Jitter::new(seed).between(pause / 2, pause))
    }
}
