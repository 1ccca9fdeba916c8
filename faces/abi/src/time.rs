//! The host's time: milliseconds as a floating-point number, as JavaScript has it, so that nothing
//! is converted on the way in.

use std::time::Duration;

use onetrip_engine::Time;

const NANOS_PER_MILLI: f64 = 1e6;

/// The moment this many milliseconds after the host's first. NaN and negative numbers give the
/// first moment.
pub(crate) fn time(millis: f64) -> Time {
    // Casts saturate, and take NaN for 0.
    Time::from_nanos((millis * NANOS_PER_MILLI) as u64)
}

/// The deadline this many milliseconds from now. Infinity, NaN, zero and negative numbers mean
/// none.
pub(crate) fn deadline(now: Time, timeout: f64) -> Time {
    match timeout.is_finite() && timeout > 0.0 {
        true => now.after(Duration::from_nanos((timeout * NANOS_PER_MILLI) as u64)),
        false => Time::NEVER,
    }
}

/// The moment in milliseconds; infinity for [`Time::NEVER`].
pub(crate) fn millis(time: Time) -> f64 {
    match time == Time::NEVER {
        true => f64::INFINITY,
        false => time.as_nanos() as f64 / NANOS_PER_MILLI,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_comes_back_as_it_went_in() {
        for moment in [0.0, 0.25, 1.0, 86_400_000.125] {
            assert_eq!(millis(time(moment)), moment);
        }
        assert_eq!(millis(Time::NEVER), f64::INFINITY);
    }

    #[test]
    fn what_is_no_time_is_the_first_moment_and_no_deadline() {
        assert_eq!(time(f64::NAN), Time::ZERO);
        assert_eq!(time(-1.0), Time::ZERO);
        for none in [f64::NAN, f64::INFINITY, 0.0, -5.0] {
            assert_eq!(deadline(time(7.0), none), Time::NEVER);
        }
        assert_eq!(millis(deadline(time(7.0), 3.0)), 10.0);
    }
}
