//! Conversions between numerics and Rust's numbers.

use onetrip_postgres::binary::numeric::GROUP_LEN;

use super::groups::Groups;
use super::{Class, Numeric, OUT_OF_RANGE, trailing_zeros};
use crate::types::ValueError;

/// The groups of the largest `u128`, and one more, depending on where the point is.
const GROUPS_MAX: usize = 11;

impl Numeric {
    /// `coefficient` divided by ten to the power of `scale`: 1990 and 2 are 19.90.
    ///
    /// # Errors
    /// The scale is larger than [`SCALE_MAX`](Self::SCALE_MAX).
    pub fn from_i128_with_scale(coefficient: i128, scale: u16) -> Result<Numeric, ValueError> {
        if scale > Numeric::SCALE_MAX {
            return Err(OUT_OF_RANGE);
        }
        Ok(Numeric::of(coefficient < 0, coefficient.unsigned_abs(), scale))
    }

    /// The same with a separate sign. The scale must be in range.
    fn of(negative: bool, mut rest: u128, scale: u16) -> Numeric {
        // Zeros at the end put the point between two groups.
        let padding = (GROUP_LEN - scale % GROUP_LEN) % GROUP_LEN;
        let mut groups = [0; GROUPS_MAX];
        for (place, group) in groups.iter_mut().rev().enumerate() {
            let padding = if place == 0 { u32::from(padding) } else { 0 };
            let power = 10_u128.pow(u32::from(GROUP_LEN) - padding);
            *group = (rest % power) as u16 * 10_u16.pow(padding);
            rest /= power;
        }
        let (groups, skipped) = Groups::stripped(groups.iter().copied());
        if groups.is_empty() {
            return Numeric { scale, ..Numeric::ZERO };
        }
        let class = if negative { Class::Negative } else { Class::Positive };
        let weight = GROUPS_MAX as i16 - 1 - skipped as i16 - scale.div_ceil(GROUP_LEN) as i16;
        Numeric { class, scale, weight, groups }
    }

    /// The number times ten to the power of `scale`, if that is whole and fits: 19.90 and 2 are
    /// 1990. `None` for NaN and infinities.
    pub fn to_i128_with_scale(&self, scale: u16) -> Option<i128> {
        let magnitude = self.coefficient(scale)?;
        match self.class {
            Class::Negative => 0_i128.checked_sub_unsigned(magnitude),
            _ => 0_i128.checked_add_unsigned(magnitude),
        }
    }

    /// The same without the sign.
    fn coefficient(&self, scale: u16) -> Option<u128> {
        if !self.is_finite() || self.fraction_len() > scale {
            return None;
        }
        let Some((last, groups)) = self.groups.split_last() else { return Some(0) };
        let lowest = i32::from(self.weight) - groups.len() as i32;
        let shift = lowest * i32::from(GROUP_LEN) + i32::from(scale);
        // Digits of the last group that are behind the scale. They are zeros.
        let dropped = u32::try_from(-shift).unwrap_or(0);
        let mut sum = 0_u128;
        for group in groups {
            sum = sum.checked_mul(10_000)?.checked_add((*group).into())?;
        }
        let last = last / 10_u16.checked_pow(dropped)?;
        let power = 10_u128.pow(u32::from(GROUP_LEN).checked_sub(dropped)?);
        let sum = sum.checked_mul(power)?.checked_add(last.into())?;
        sum.checked_mul(10_u128.checked_pow(u32::try_from(shift).unwrap_or(0))?)
    }

    /// The number of digits behind the point, without the zeros at the end.
    pub(super) fn fraction_len(&self) -> u16 {
        let Some(last) = self.groups.last() else { return 0 };
        let behind = self.groups.len() as i32 - 1 - i32::from(self.weight);
        let len = behind * i32::from(GROUP_LEN) - i32::from(trailing_zeros(*last));
        // At most the scale, so it fits.
        u16::try_from(len).unwrap_or(0)
    }

    /// The nearest `f64`; infinite if the number is too large for one.
    pub fn to_f64(&self) -> f64 {
        // Rust reads what `Display` writes, NaN and infinities included.
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    fn whole(&self) -> Result<u128, ValueError> {
        match self.class {
            Class::NaN => Err(ValueError::new("it is NaN")),
            Class::Infinity | Class::NegInfinity => Err(ValueError::new("it is infinite")),
            _ if self.fraction_len() > 0 => Err(ValueError::new("it is not a whole number")),
            _ => self.coefficient(0).ok_or(TOO_LARGE),
        }
    }
}

const TOO_LARGE: ValueError = ValueError::new("it is out of the range of the integer");

macro_rules! integers {
    ($($integer:ty)+) => {$(
        impl From<$integer> for Numeric {
            fn from(value: $integer) -> Numeric {
                #[allow(unused_comparisons)] // Of those without a sign.
                let negative = value < 0;
                // An `as` between two signed or two unsigned integers of this width keeps the
                // value.
                let magnitude = if negative { (value as i128).unsigned_abs() } else { value as u128 };
                Numeric::of(negative, magnitude, 0)
            }
        }

        impl TryFrom<&Numeric> for $integer {
            type Error = ValueError;

            /// # Errors
            /// It is not a whole number, or out of range.
            fn try_from(numeric: &Numeric) -> Result<$integer, ValueError> {
                let magnitude = numeric.whole()?;
                if !numeric.is_negative() {
                    return magnitude.try_into().map_err(|_| TOO_LARGE);
                }
                let value = 0_i128.checked_sub_unsigned(magnitude).ok_or(TOO_LARGE)?;
                value.try_into().map_err(|_| TOO_LARGE)
            }
        }

        impl TryFrom<Numeric> for $integer {
            type Error = ValueError;

            fn try_from(numeric: Numeric) -> Result<$integer, ValueError> {
                <$integer>::try_from(&numeric)
            }
        }
    )+};
}

integers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
