//! Conversions between intervals and Rust's durations.

use std::time::Duration;

use super::Interval;
use crate::types::ValueError;

/// Microseconds only; a fraction of one is refused, not rounded.
///
/// # Errors
/// It has a fraction of a microsecond, or is longer than about 292,000 years.
impl TryFrom<Duration> for Interval {
    type Error = ValueError;

    fn try_from(duration: Duration) -> Result<Interval, ValueError> {
        if !duration.subsec_nanos().is_multiple_of(1_000) {
            return Err(ValueError::new("it has a fraction of a microsecond"));
        }
        let microseconds = i64::try_from(duration.as_micros());
        let microseconds =
            microseconds.map_err(|_| ValueError::new("it is out of the range of interval"))?;
        Ok(Interval::new(0, 0, microseconds))
    }
}

/// # Errors
/// It has months or days, which have no fixed length, or is negative.
impl TryFrom<Interval> for Duration {
    type Error = ValueError;

    fn try_from(interval: Interval) -> Result<Duration, ValueError> {
        if interval.months != 0 || interval.days != 0 {
            return Err(ValueError::new("months and days have no fixed length"));
        }
        let microseconds = u64::try_from(interval.microseconds);
        Ok(Duration::from_micros(microseconds.map_err(|_| ValueError::new("it is negative"))?))
    }
}
