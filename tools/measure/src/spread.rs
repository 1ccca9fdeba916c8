//! Medians with their spread, and ratios that say whether they are more than noise.

use serde::{Deserialize, Serialize};

/// A median, its quartiles, and how many values they are of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The first quartile.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The third quartile.
    pub high: f64,
    /// How many values there were.
    pub values: usize,
}

impl Spread {
    /// Of these values; None of no value. What is not finite does not count.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let sorted = sorted(values);
        Some(Spread {
            low: quantile(&sorted, 0.25)?,
            median: quantile(&sorted, 0.5)?,
            high: quantile(&sorted, 0.75)?,
            values: sorted.len(),
        })
    }
}

/// How much larger one quantity is than another, of repeated measurements of both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median of the ratios of all pairs of repetitions (the Hodges–Lehmann estimator, on
    /// logarithms).
    pub median: f64,
    /// Nine of ten of those ratios lie between this
    pub low: f64,
    /// and this.
    pub high: f64,
    /// The repetitions of the side that has fewer.
    pub repetitions: usize,
}

/// With fewer repetitions than this on either side every difference counts as noise.
pub const REPETITIONS_MIN: usize = 3;

impl Ratio {
    /// `new` in multiples of `base`; None if either has no value above zero.
    pub fn of(new: &[f64], base: &[f64]) -> Option<Ratio> {
        let usable = |values: &[f64]| sorted(values.iter().copied().filter(|it| *it > 0.0));
        let (new, base) = (usable(new), usable(base));
        let ratios = new.iter().flat_map(|new| base.iter().map(move |base| new / base));
        let ratios = sorted(ratios);
        Some(Ratio {
            median: quantile(&ratios, 0.5)?,
            low: quantile(&ratios, 0.05)?,
            high: quantile(&ratios, 0.95)?,
            repetitions: new.len().min(base.len()),
        })
    }

    /// Whether the difference is no larger than what repetitions of the same differ by: 1 lies within
    /// nine of ten ratios, or there were too few repetitions to tell.
    pub fn is_noise(&self) -> bool {
        self.repetitions < REPETITIONS_MIN || (self.low <= 1.0 && self.high >= 1.0)
    }
}

fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|it| it.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Of sorted values, interpolated between the neighbours.
fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let place = q * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    Some(sorted[below] + (sorted[above] - sorted[below]) * place.fract())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_median_and_its_quartiles() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0, 5.0, f64::NAN]).unwrap();
        assert_eq!(spread, Spread { low: 2.0, median: 3.0, high: 4.0, values: 5 });
        assert_eq!(Spread::of([f64::INFINITY]), None);
    }

    #[test]
    fn a_difference_beyond_the_spread_is_no_noise() {
        let ratio = Ratio::of(&[20.0, 21.0, 22.0], &[10.0, 10.5, 11.0]).unwrap();
        assert!((ratio.median - 2.0).abs() < 0.01 && !ratio.is_noise(), "{ratio:?}");
    }

    #[test]
    fn a_difference_within_the_spread_is_noise() {
        assert!(Ratio::of(&[9.0, 10.0, 12.0], &[9.5, 10.0, 11.0]).unwrap().is_noise());
    }

    #[test]
    fn two_repetitions_are_too_few_to_tell() {
        assert!(Ratio::of(&[20.0, 20.0], &[10.0, 10.0, 10.0]).unwrap().is_noise());
        assert_eq!(Ratio::of(&[0.0], &[1.0]), None);
    }
}
