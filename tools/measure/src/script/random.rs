//! Random numbers: the generator and the distributions that pgbench has.

use std::f64::consts::TAU;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoroshiro128StarStar;

/// A generator, from a seed. A clone goes on with the same numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(Xoroshiro128StarStar);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(Xoroshiro128StarStar::seed_from_u64(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From 0 to this, both included.
    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        below_or_equal(&mut self.0, most)
    }

    /// From 0, without 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 12) as f64 / 2f64.powi(52)
    }

    pub(super) fn uniform(&mut self, low: i64, high: i64) -> Result<i64, String> {
        check(low, high)?;
        Ok(low + self.up_to((high - low) as u64) as i64)
    }

    /// The greater the parameter, the more often the first numbers come.
    pub(super) fn exponential(
        &mut self,
        low: i64,
        high: i64,
        parameter: f64,
    ) -> Result<i64, String> {
        check(low, high)?;
        if parameter.is_nan() || parameter <= 0.0 {
            let message = "exponential parameter must be greater than zero";
            return Err(format!("{message} (not {parameter:.6})"));
        }
        let cut = (-parameter).exp();
        let uniform = 1.0 - self.fraction();
        Ok(scaled(low, high, -(cut + (1.0 - cut) * uniform).ln() / parameter))
    }

    /// The greater the parameter, the more often the numbers in the middle come.
    pub(super) fn gaussian(&mut self, low: i64, high: i64, parameter: f64) -> Result<i64, String> {
        check(low, high)?;
        if parameter.is_nan() || parameter < 2.0 {
            let message = "gaussian parameter must be at least 2.000000";
            return Err(format!("{message} (not {parameter:.6})"));
        }
        loop {
            // Box and Muller: two uniform numbers make a normal one.
            let radius = (-2.0 * (1.0 - self.fraction()).ln()).sqrt();
            let deviation = radius * (TAU * self.fraction()).sin();
            if (-parameter..parameter).contains(&deviation) {
                return Ok(scaled(low, high, (deviation + parameter) / (2.0 * parameter)));
            }
        }
    }

    /// The greater the parameter, the more often the first numbers come: the k-th as often as
    /// `1 / k ^ parameter` says. By rejection, as in Devroye's "Non-Uniform Random Variate
    /// Generation", chapter X, section 6.1.
    pub(super) fn zipfian(&mut self, low: i64, high: i64, parameter: f64) -> Result<i64, String> {
        check(low, high)?;
        if !(1.001..=1000.0).contains(&parameter) {
            let message = "zipfian parameter must be in range [1.001, 1000]";
            return Err(format!("{message} (not {parameter:.6})"));
        }
        let count = (high - low) as f64 + 1.0;
        if high == low {
            return Ok(low);
        }
        let b = 2f64.powf(parameter - 1.0);
        loop {
            let (u, v) = (self.fraction(), self.fraction());
            let x = u.powf(-1.0 / (parameter - 1.0)).floor();
            let t = (1.0 + 1.0 / x).powf(parameter - 1.0);
            if v * x * (t - 1.0) / (b - 1.0) <= t / b && x <= count {
                return Ok(low + (x as i64 - 1));
            }
        }
    }
}

/// A number from 0 to this, both included: as many bits as needed, until they fit.
pub(super) fn below_or_equal(random: &mut Xoroshiro128StarStar, most: u64) -> u64 {
    if most == 0 {
        return 0;
    }
    loop {
        let value = random.next_u64() >> most.leading_zeros();
        if value <= most {
            return value;
        }
    }
}

fn check(low: i64, high: i64) -> Result<(), String> {
    if low > high {
        return Err("empty range given to random".into());
    }
    match high.checked_sub(low).and_then(|distance| distance.checked_add(1)) {
        Some(_) => Ok(()),
        None => Err("random range is too large".into()),
    }
}

/// A part of a range, from 0 to 1.
fn scaled(low: i64, high: i64, part: f64) -> i64 {
    let distance = ((high - low) as f64 + 1.0) * part;
    low + (distance as i64).min(high - low)
}
