//! Pseudo-random times that follow from the host's seed.

use std::time::Duration;

/// SplitMix64 (Steele, Lea and Flood 2014). Not for secrets.
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Jitter {
        Jitter(seed)
    }

    /// A time from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let (low, high) = (nanos(low), nanos(high));
        let span = high.saturating_sub(low);
        Duration::from_nanos(low + self.next() % span.saturating_add(1))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
