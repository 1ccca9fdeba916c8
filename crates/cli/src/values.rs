//! Values that options take.

/// Milliseconds, with a fraction if need be.
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
