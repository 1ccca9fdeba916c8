//! `numeric` as PostgreSQL has it: a decimal of any length that keeps its scale. It has no
//! arithmetic; decimal crates do.

mod convert;
#[cfg(any(feature = "with-rust_decimal-1", feature = "with-bigdecimal-0_4"))]
mod decimals;
mod groups;
mod text;
mod wire;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use onetrip_postgres::binary::numeric::{Class, GROUP_LEN, SCALE_MAX};

use super::ValueError;
use groups::Groups;

/// A `numeric`: an exact decimal number, NaN, or infinite (since PostgreSQL 14).
///
/// It has up to 131,072 digits before the decimal point, and 16,383 behind it. It takes 32 bytes,
/// and allocates only from about 40 digits on.
///
/// `Display` writes exactly what the server writes. `FromStr` reads what the server reads, except
/// blanks around the number, and forms that only PostgreSQL 16 and later read (`0x1F`, `1_000`).
///
/// ```
/// use onetrip::types::Numeric;
///
/// let price: Numeric = "19.90".parse()?;
/// assert_eq!(price.to_string(), "19.90");
/// assert_eq!(price.scale(), 2);
/// assert_eq!(price, "19.9".parse()?);
/// assert_eq!(i64::try_from(Numeric::from(7))?, 7);
/// assert!(i64::try_from(price).is_err(), "it is not whole");
/// # Ok::<_, onetrip::types::ValueError>(())
/// ```
///
/// Equality, order and hash go by value, as on the server: 1.0 equals 1.00, and NaN equals NaN and
/// is greater than all others.
#[derive(Clone)]
pub struct Numeric {
    /// Zero is positive.
    class: Class,
    /// Decimal digits behind the point; at most [`Numeric::SCALE_MAX`].
    scale: u16,
    /// The first group counts 10000 to the power of this; 0 if there is no group.
    weight: i16,
    groups: Groups,
}

impl Numeric {
    /// 0.
    pub const ZERO: Numeric = Numeric::special(Class::Positive);

    /// Not a number. It equals itself here.
    pub const NAN: Numeric = Numeric::special(Class::NaN);

    /// Infinity. PostgreSQL before 14 refuses it.
    pub const INFINITY: Numeric = Numeric::special(Class::Infinity);

    /// Negative infinity. PostgreSQL before 14 refuses it.
    pub const NEG_INFINITY: Numeric = Numeric::special(Class::NegInfinity);

    /// The most digits behind the point.
    pub const SCALE_MAX: u16 = SCALE_MAX;

    const fn special(class: Class) -> Numeric {
        Numeric { class, scale: 0, weight: 0, groups: Groups::NONE }
    }

    /// A number from its parts; there may be zero groups at both ends.
    ///
    /// # Errors
    /// It is too large or too small, or has digits behind its scale.
    fn finite(
        negative: bool,
        scale: u16,
        weight: i64,
        groups: impl DoubleEndedIterator<Item = u16> + Clone,
    ) -> Result<Numeric, ValueError> {
        let (groups, skipped) = Groups::stripped(groups);
        if scale > Numeric::SCALE_MAX {
            return Err(OUT_OF_RANGE);
        }
        let Some(last) = groups.last() else {
            return Ok(Numeric { scale, ..Numeric::ZERO });
        };
        let weight = weight - skipped as i64;
        let behind = i64::from(GROUP_LEN) * (groups.len() as i64 - 1 - weight);
        if behind - i64::from(trailing_zeros(*last)) > i64::from(scale) {
            return Err(ValueError::new("it has digits behind its scale"));
        }
        let class = if negative { Class::Negative } else { Class::Positive };
        let weight = i16::try_from(weight).map_err(|_| OUT_OF_RANGE)?;
        Ok(Numeric { class, scale, weight, groups })
    }

    /// The number of digits behind the decimal point, zeros included; 0 for NaN and infinities.
    pub fn scale(&self) -> u16 {
        self.scale
    }

    /// Whether it is not a number.
    pub fn is_nan(&self) -> bool {
        self.class == Class::NaN
    }

    /// Whether it is infinite, of either sign.
    pub fn is_infinite(&self) -> bool {
        matches!(self.class, Class::Infinity | Class::NegInfinity)
    }

    /// Whether it is a number, and not infinite.
    pub fn is_finite(&self) -> bool {
        matches!(self.class, Class::Positive | Class::Negative)
    }

    /// Whether it is zero, of any scale.
    pub fn is_zero(&self) -> bool {
        self.class == Class::Positive && self.groups.is_empty()
    }

    /// Whether it is less than zero.
    pub fn is_negative(&self) -> bool {
        self.class <= Class::Negative
    }

    /// Compares two finite numbers of the same sign.
    fn magnitude(&self) -> (bool, i16, &[u16]) {
        (!self.groups.is_empty(), self.weight, &self.groups)
    }
}

const OUT_OF_RANGE: ValueError = ValueError::new("it is out of the range of numeric");

/// How many decimal zeros a nonzero group ends with.
fn trailing_zeros(group: u16) -> u16 {
    let divides = |power: &u16| group.is_multiple_of(*power);
    [1000, 100, 10].iter().position(divides).map_or(0, |at| 3 - at as u16)
}

impl Default for Numeric {
    fn default() -> Numeric {
        Numeric::ZERO
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.class == other.class && self.magnitude() == other.magnitude()
    }
}

impl Eq for Numeric {}

impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        let magnitudes = || match self.class {
            Class::Negative => other.magnitude().cmp(&self.magnitude()),
            _ => self.magnitude().cmp(&other.magnitude()),
        };
        self.class.cmp(&other.class).then_with(magnitudes)
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.class.hash(state);
        self.magnitude().hash(state);
    }
}

/// As `Display`.
impl fmt::Debug for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
