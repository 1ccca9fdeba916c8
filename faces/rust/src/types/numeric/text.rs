//! The text form of a numeric, as numeric_in and numeric_out in src/backend/utils/adt/numeric.c
//! read and write it.

use std::fmt;
use std::str::FromStr;

use super::groups::{BASE, GROUP_LEN};
use super::{Class, Numeric, OUT_OF_RANGE};
use crate::types::ValueError;

/// Writes the number as the server does. Width, fill and `+` of the format apply; a precision is
/// ignored, since it would round.
impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            Class::NaN => f.pad_integral(true, "", "NaN"),
            Class::Infinity | Class::NegInfinity => {
                f.pad_integral(self.class == Class::Infinity, "", "Infinity")
            }
            Class::Positive | Class::Negative => {
                f.pad_integral(self.class == Class::Positive, "", &self.digits())
            }
        }
    }
}

impl Numeric {
    /// The text of a finite number without its sign.
    fn digits(&self) -> String {
        let before = usize::try_from(i32::from(self.weight) + 1).unwrap_or(0);
        let mut out = String::with_capacity(before * 4 + usize::from(self.scale) + 4);
        match self.weight {
            ..0 => out.push('0'),
            weight => {
                out.push_str(&self.group(weight.into()).to_string());
                (0..weight).rev().for_each(|weight| push(&mut out, self.group(weight.into())));
            }
        }
        if self.scale > 0 {
            out.push('.');
            let end = out.len() + usize::from(self.scale);
            let behind = i32::from(self.scale.div_ceil(GROUP_LEN));
            (1..=behind).for_each(|at| push(&mut out, self.group(-at)));
            out.truncate(end);
        }
        out
    }

    /// The group that counts 10000 to the power of `weight`.
    pub(super) fn group(&self, weight: i32) -> u16 {
        let place = usize::try_from(i32::from(self.weight) - weight);
        place.ok().and_then(|place| self.groups.get(place)).copied().unwrap_or(0)
    }
}

/// Appends the four digits of a group.
fn push(out: &mut String, group: u16) {
    debug_assert!(group < BASE);
    for power in [1000, 100, 10, 1] {
        out.push(char::from(b'0' + (group / power % 10) as u8));
    }
}

/// Reads digits with an optional sign, point and exponent, `NaN`, `Infinity` or `inf`.
///
/// # Errors
/// It is none of these, or has more digits than PostgreSQL allows.
impl FromStr for Numeric {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Numeric, ValueError> {
        if text.eq_ignore_ascii_case("NaN") {
            return Ok(Numeric::NAN);
        }
        let (negative, rest) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if rest.eq_ignore_ascii_case(b"Infinity") || rest.eq_ignore_ascii_case(b"inf") {
            return Ok(if negative { Numeric::NEG_INFINITY } else { Numeric::INFINITY });
        }
        let (before, rest) = split_digits(rest);
        let (behind, rest) = match rest {
            [b'.', rest @ ..] => split_digits(rest),
            rest => (&[][..], rest),
        };
        if before.is_empty() && behind.is_empty() {
            return Err(NO_NUMBER);
        }
        decimal(negative, before, behind, exponent(rest)?)
    }
}

const NO_NUMBER: ValueError = ValueError::new("it is not a number");

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.split_at(len)
}

/// Reads the exponent at the end of the text, if there is one.
fn exponent(text: &[u8]) -> Result<i64, ValueError> {
    // Beyond this the server refuses even zero (set_var_from_str).
    const EXPONENT_MAX: i64 = i32::MAX as i64 / 2;
    let [b'e' | b'E', text @ ..] = text else {
        return if text.is_empty() { Ok(0) } else { Err(NO_NUMBER) };
    };
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(NO_NUMBER);
    }
    let add = |sum: i64, digit: &u8| sum.saturating_mul(10).saturating_add((digit - b'0').into());
    let exponent = digits.iter().fold(0, add);
    if exponent >= EXPONENT_MAX {
        return Err(OUT_OF_RANGE);
    }
    Ok(if negative { -exponent } else { exponent })
}

/// The number with these digits before and behind the point, times ten to the power of `exponent`.
fn decimal(
    negative: bool,
    before: &[u8],
    behind: &[u8],
    exponent: i64,
) -> Result<Numeric, ValueError> {
    let group_len = i64::from(GROUP_LEN);
    let scale = (behind.len() as i64 - exponent).max(0);
    // The place of the point among all digits, and the zeros in front of them that put it between
    // two groups.
    let point = before.len() as i64 + exponent;
    let padding = (-point).rem_euclid(group_len);
    let digits = before.iter().chain(behind).map(|digit| u16::from(digit - b'0'));
    let mut groups = Vec::with_capacity((before.len() + behind.len()) / 4 + 2);
    let (mut group, mut filled) = (0, padding);
    for digit in digits {
        group = group * 10 + digit;
        filled += 1;
        if filled == group_len {
            groups.push(std::mem::take(&mut group));
            filled = 0;
        }
    }
    if filled > 0 {
        groups.push((filled..group_len).fold(group, |group, _| group * 10));
    }
    let weight = (point + padding) / group_len - 1;
    let scale = u16::try_from(scale).map_err(|_| OUT_OF_RANGE)?;
    Numeric::finite(negative, scale, weight, groups.iter().copied())
}
