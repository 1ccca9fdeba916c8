//! Parsers of option values.

/// Milliseconds, possibly with a fraction.
pub(crate) fn milliseconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "give milliseconds, as in 20 or 0.5".to_owned())?;
    match (0.0..=10_000.0).contains(&value) {
        true => Ok(value),
        false => Err("give 0 to 10000 milliseconds".to_owned()),
    }
}

/// A number above 0.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "give a number above 0".to_owned())?;
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err("give a number above 0".to_owned()),
    }
}

/// A duration in seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    within(text, "a number of seconds", SECONDS_MAX)
}

/// Operations per second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    within(text, "a rate", RATE_MAX)
}

/// The most seconds (eleven days) and the most operations per second: a larger value is a mistake,
/// and its run would not end.
const SECONDS_MAX: f64 = 1e6;
const RATE_MAX: f64 = 1e6;

/// The least duration and rate that make sense: a microsecond, and one operation in eleven days.
const LEAST: f64 = 1e-6;

fn within(text: &str, what: &str, max: f64) -> Result<f64, String> {
    let value = positive(text)?;
    match (LEAST..=max).contains(&value) {
        true => Ok(value),
        false => Err(format!("give {what} from {LEAST} to {max}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_clock_or_server_can_do_is_refused() {
        for text in ["1e300", "1e19", "1000001", "1e-9", "0", "-1", "inf", "NaN", "x", ""] {
            assert!(seconds(text).is_err() && rate(text).is_err(), "{text}");
        }
        assert_eq!((seconds("0.5"), rate("1e6")), (Ok(0.5), Ok(1e6)));
    }
}
