//! When a request is sent again whose connection was lost.

use std::time::Duration;

use crate::jitter::Jitter;

/// How often a request is sent again that may run twice, after its connection was lost.
///
/// A connection that takes its place is opened as for any other caller, with the pause that
/// [`Limits::backoff_min`](super::Limits::backoff_min) makes after a failure; a pause here only
/// keeps a request that ends each connection from ending many.
#[derive(Clone, Debug)]
pub struct Repeats {
    /// Times that it is sent again at most. Default 3: one that brings its server down does so four
    /// times.
    pub max: u32,
    /// The pause before the first of them, or down to half of it. Default 20 ms. Each further one is
    /// eight times as long.
    pub pause_min: Duration,
}

impl Default for Repeats {
    fn default() -> Repeats {
        Repeats { max: 3, pause_min: Duration::from_millis(20) }
    }
}

impl Repeats {
    /// The pause before it is sent again for the `number`th time, counted from 1; `None` where it
    /// isn't. `seed` is any number: requests that were lost together should not come back together.
    pub fn pause(&self, number: u32, seed: u64) -> Option<Duration> {
        if !(1..=self.max).contains(&number) {
            return None;
        }
        let pause = self.pause_min.saturating_mul(8_u32.saturating_pow(number - 1));
        Some(Jitter::new(seed).between(pause / 2, pause))
    }
}
