//! Times in buckets whose bounds double. Counting one costs almost nothing, and the whole histogram
//! fits in a snapshot.

use std::fmt;
use std::time::Duration;

/// A histogram of times. The buckets double from 1 µs to 134 s, so a quantile is exact to a factor
/// of two, and is never too low.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; BUCKETS],
}

/// The last bucket takes everything longer.
const BUCKETS: usize = 29;

impl Histogram {
    pub(crate) fn add(&mut self, time: Duration) {
        self.buckets[bucket(time)] += 1;
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The buckets: the longest time of each, and how many times it counted. The last has no upper
    /// bound ([`Duration::MAX`]).
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.buckets.iter().enumerate().map(|(number, count)| (longest(number), *count))
    }

    /// A time that at least this share of the times (from 0 to 1) did not exceed: the upper bound
    /// of the bucket in which it lies. `None` if none were counted; [`Duration::MAX`] above 134 s.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let wanted = (count as f64 * share.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut below = 0;
        let found = self.buckets().find(|(_, count)| {
            below += count;
            below >= wanted
        });
        found.filter(|_| count > 0).map(|(longest, _)| longest)
    }

    /// The median, as [`quantile`](Self::quantile) gives it.
    pub fn p50(&self) -> Option<Duration> {
        self.quantile(0.5)
    }

    /// The time that 99 of 100 did not exceed.
    pub fn p99(&self) -> Option<Duration> {
        self.quantile(0.99)
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("p50", &self.p50())
            .field("p99", &self.p99())
            .finish()
    }
}

fn bucket(time: Duration) -> usize {
    let micros = time.as_nanos().div_ceil(1000).max(1);
    // How many doublings of 1 µs reach it.
    let doublings = u128::BITS - (micros - 1).leading_zeros();
    (doublings as usize).min(BUCKETS - 1)
}

fn longest(bucket: usize) -> Duration {
    match bucket {
        LAST => Duration::MAX,
        bucket => Duration::from_micros(1 << bucket),
    }
}

const LAST: usize = BUCKETS - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_that_ends_at_or_above_it() {
        for (nanos, micros) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (2000, 2), (2001, 4)] {
            let longest = longest(bucket(Duration::from_nanos(nanos)));
            assert_eq!(longest, Duration::from_micros(micros), "{nanos} ns");
        }
        let top = longest(LAST - 1);
        assert_eq!(bucket(top), LAST - 1);
        assert_eq!(bucket(top + Duration::from_nanos(1)), LAST);
        assert_eq!(bucket(Duration::MAX), LAST);
    }

    #[test]
    fn quantiles_are_those_of_what_was_counted() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.p50(), None);
        for _ in 0..99 {
            histogram.add(Duration::from_micros(3));
        }
        histogram.add(Duration::from_millis(1));
        assert_eq!(histogram.count(), 100);
        assert_eq!(histogram.p50(), Some(Duration::from_micros(4)));
        assert_eq!(histogram.p99(), Some(Duration::from_micros(4)));
        assert_eq!(histogram.quantile(1.0), Some(Duration::from_micros(1024)));
        assert_eq!(histogram.quantile(0.0), Some(Duration::from_micros(4)));
    }
}
