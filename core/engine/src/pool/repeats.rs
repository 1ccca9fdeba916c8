//! When a request whose connection was lost is sent again.

use std::time::Duration;

use crate::Time;
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

/// How one request goes on whose connection ended before any byte of it was sent
/// ([`Connection::take_unsent`](crate::Connection::take_unsent)): it gets in line again. No server
/// has seen it, so nothing is run twice, and the pause between attempts to open a connection is
/// pause enough.
#[derive(Debug)]
pub struct Requeue {
    left: u32,
    until: Time,
}

/// How often one request gets in line again at most. Each time it had a connection, which then
/// ended.
const REQUEUES_MAX: u32 = 8;

impl Requeue {
    /// For a request that is to be sent by `deadline`; without one it waits for `wait_timeout` in
    /// all, from the first time on.
    pub fn new(now: Time, deadline: Time, wait_timeout: Duration) -> Requeue {
        let until = if deadline == Time::NEVER { now.after(wait_timeout) } else { deadline };
        Requeue { left: REQUEUES_MAX, until }
    }

    /// For a request that got in line again so often, for hosts that keep these two instead of it.
    pub fn after(times: u32, until: Time) -> Requeue {
        Requeue { left: REQUEUES_MAX.saturating_sub(times), until }
    }

    /// Until when it may wait in line.
    pub fn until(&self) -> Time {
        self.until
    }

    /// Its connection ended. Returns until when it may wait in line; `None` if it has failed.
    pub fn next(&mut self, now: Time) -> Option<Time> {
        let left = self.left.checked_sub(1).filter(|_| now < self.until)?;
        self.left = left;
        Some(self.until)
    }
}
