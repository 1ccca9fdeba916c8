//! `numeric`: groups of four decimal digits (src/backend/utils/adt/numeric.c).

use super::{Malformed, Parts};

/// One more than the largest group: NBASE in numeric.c.
pub const BASE: u16 = 10_000;
/// Decimal digits of a group: DEC_DIGITS in numeric.c.
pub const GROUP_LEN: u16 = 4;
/// The most digits behind the point: NUMERIC_DSCALE_MAX in numeric.c.
pub const SCALE_MAX: u16 = 0x3fff;

/// What a number is, in the order of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Less than all numbers.
    NegInfinity,
    /// Less than zero.
    Negative,
    /// Zero or more.
    Positive,
    /// Greater than all numbers.
    Infinity,
    /// Not a number.
    NaN,
}

impl Class {
    /// By their codes: NUMERIC_POS and the like in numeric.c.
    const ALL: [(u16, Class); 5] = [
        (0, Class::Positive),
        (0x4000, Class::Negative),
        (0xc000, Class::NaN),
        (0xd000, Class::Infinity),
        (0xf000, Class::NegInfinity),
    ];

    fn of_code(code: u16) -> Option<Class> {
        Class::ALL.iter().find(|row| row.0 == code).map(|row| row.1)
    }

    /// Its code in the binary form.
    pub fn code(self) -> u16 {
        Class::ALL.iter().find(|row| row.1 == self).map_or(0, |row| row.0)
    }
}

/// A number: the groups, times 10,000 to the power of the first one's weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<G> {
    /// What it is. If it is not finite, the rest says nothing.
    pub class: Class,
    /// The power of 10,000 that the first group counts.
    pub weight: i64,
    /// Digits behind the point.
    pub scale: u16,
    /// The groups, the most significant first.
    pub groups: G,
}

/// Why a text is no numeric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is no number.
    NoNumber,
    /// It has more digits than PostgreSQL takes: 131,072 in front of the point, 16,383 behind it.
    TooLong,
}

/// Reads the binary form.
///
/// # Errors
/// It has no such class, a group is out of range, or there are more or fewer than it says.
pub fn read(value: &[u8]) -> Result<Number<&[[u8; 2]]>, Malformed> {
    let mut parts = Parts(value);
    let [count, weight, class, scale] = [(); 4].map(|()| parts.take().map(u16::from_be_bytes));
    let (groups, rest) = parts.0.as_chunks();
    let class = Class::of_code(class?).ok_or(Malformed)?;
    let is_whole = groups.len() == usize::from(count?) && rest.is_empty();
    if !is_whole || groups.iter().any(|group| u16::from_be_bytes(*group) >= BASE) {
        return Err(Malformed);
    }
    Ok(Number { class, weight: weight?.cast_signed().into(), scale: scale?, groups })
}

impl Number<&[[u8; 2]]> {
    /// Its text, as the server writes it.
    pub fn text(&self) -> String {
        match self.class {
            Class::NaN => "NaN".to_owned(),
            Class::Infinity => "Infinity".to_owned(),
            Class::NegInfinity => "-Infinity".to_owned(),
            Class::Positive | Class::Negative => {
                let mut out = String::with_capacity(4 * self.groups.len() + 8);
                if self.class == Class::Negative {
                    out.push('-');
                }
                let group = |place: usize| self.groups.get(place).map(|it| u16::from_be_bytes(*it));
                put_digits(&mut out, self.weight, self.scale, group);
                out
            }
        }
    }

    /// The same with an exponent in place of the last groups, where these are 0 and there is no digit
    /// behind the point: the server sends none for them.
    pub fn text_by_groups(&self) -> String {
        let left_out = self.weight + 1 - self.groups.len() as i64;
        if self.scale > 0 || left_out <= 0 || self.groups.is_empty() {
            return self.text();
        }
        let sent = Number { weight: self.weight - left_out, ..*self };
        format!("{}E+{}", sent.text(), left_out * i64::from(GROUP_LEN))
    }

    /// The whole number of units, of which this many digits behind the point make one; `None` where
    /// it has further digits, does not fit, or is not finite.
    pub fn scaled(&self, scale: u32) -> Option<i128> {
        let (last, front) = match (self.class, self.groups.split_last()) {
            (Class::Positive | Class::Negative, None) => return Some(0),
            (Class::Positive | Class::Negative, Some(groups)) => groups,
            _ => return None,
        };
        let group = |it: &[u8; 2]| i128::from(u16::from_be_bytes(*it));
        let add = |sum: i128, it| sum.checked_mul(BASE.into())?.checked_add(group(it));
        let front = front.iter().try_fold(0, add)?;
        // The last group is taken apart: with its zeros the number may not fit.
        let power = 4 * (self.weight - self.groups.len() as i64 + 1) + i64::from(scale);
        let sum = if power < 0 {
            let unit = ten_to(-power).filter(|unit| group(last) % unit == 0)?;
            front.checked_mul(ten_to(4 + power)?)?.checked_add(group(last) / unit)?
        } else {
            add(front, last)?.checked_mul(ten_to(power)?)?
        };
        Some(if self.class == Class::Negative { -sum } else { sum })
    }
}

fn ten_to(power: i64) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(power).ok()?)
}

/// Appends the digits of a number and its point, without a sign. `group` says which group stands at
/// a place behind the first.
pub fn put_digits(out: &mut String, weight: i64, scale: u16, group: impl Fn(usize) -> Option<u16>) {
    let at = |power: i64| usize::try_from(weight - power).ok().and_then(&group).unwrap_or(0);
    match weight {
        ..0 => out.push('0'),
        weight => {
            let first = digits(at(weight));
            let zeros = first.iter().take(3).take_while(|digit| **digit == b'0').count();
            out.push_str(str::from_utf8(&first[zeros..]).unwrap_or_default());
            (0..weight).rev().for_each(|power| put_group(out, at(power)));
        }
    }
    if scale > 0 {
        out.push('.');
        let end = out.len() + usize::from(scale);
        (1..=i64::from(scale.div_ceil(GROUP_LEN))).for_each(|power| put_group(out, at(-power)));
        out.truncate(end);
    }
}

fn digits(group: u16) -> [u8; 4] {
    [1000, 100, 10, 1].map(|unit| b'0' + (group / unit % 10) as u8)
}

fn put_group(out: &mut String, group: u16) {
    out.push_str(str::from_utf8(&digits(group)).unwrap_or_default());
}

/// Reads digits with an optional sign, point and exponent, or `NaN`, `Infinity` or `inf` in any
/// case. The groups may begin and end with zeros.
///
/// # Errors
/// It is none of these, or has more digits than PostgreSQL takes.
pub fn parse(text: &str) -> Result<Number<Vec<u16>>, Fault> {
    let special = |class| Ok(Number { class, weight: 0, scale: 0, groups: Vec::new() });
    if text.eq_ignore_ascii_case("NaN") {
        return special(Class::NaN);
    }
    let (is_negative, rest) = sign(text.as_bytes());
    if rest.eq_ignore_ascii_case(b"Infinity") || rest.eq_ignore_ascii_case(b"inf") {
        return special(if is_negative { Class::NegInfinity } else { Class::Infinity });
    }
    let (front, rest) = split_digits(rest);
    let (behind, rest) = rest.strip_prefix(b".").map_or((&[][..], rest), split_digits);
    if front.is_empty() && behind.is_empty() {
        return Err(Fault::NoNumber);
    }
    let exponent = exponent(rest)?;
    let scale = (behind.len() as i64 - exponent).max(0);
    let scale = u16::try_from(scale).ok().filter(|scale| *scale <= SCALE_MAX);
    let scale = scale.ok_or(Fault::TooLong)?;
    let class = if is_negative { Class::Negative } else { Class::Positive };
    // Zeros in front make no number longer.
    let all = front.iter().chain(behind);
    let zeros = all.clone().take_while(|digit| **digit == b'0').count();
    let point = front.len() as i64 + exponent - zeros as i64;
    let (mut groups, weight) = grouped(all.skip(zeros), point);
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        return Ok(Number { class: Class::Positive, weight: 0, scale, groups });
    }
    if weight > i16::MAX.into() {
        return Err(Fault::TooLong);
    }
    Ok(Number { class, weight, scale, groups })
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    }
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

/// Reads the exponent at the end of a text, if there is one.
fn exponent(text: &[u8]) -> Result<i64, Fault> {
    // Beyond this the server refuses even zero (set_var_from_str).
    const EXPONENT_MAX: i64 = i32::MAX as i64 / 2;
    let [b'e' | b'E', text @ ..] = text else {
        return if text.is_empty() { Ok(0) } else { Err(Fault::NoNumber) };
    };
    let (is_negative, text) = sign(text);
    let (digits, rest) = split_digits(text);
    if digits.is_empty() || !rest.is_empty() {
        return Err(Fault::NoNumber);
    }
    let add = |sum: i64, digit: &u8| sum.saturating_mul(10).saturating_add((digit - b'0').into());
    match digits.iter().fold(0, add) {
        EXPONENT_MAX.. => Err(Fault::TooLong),
        exponent => Ok(if is_negative { -exponent } else { exponent }),
    }
}

/// The groups of digits, `point` of which stand in front of the point, and the weight of the first.
fn grouped<'a>(digits: impl Iterator<Item = &'a u8>, point: i64) -> (Vec<u16>, i64) {
    let group_len = i64::from(GROUP_LEN);
    // Zeros in front that put the point between two groups.
    let padding = (-point).rem_euclid(group_len);
    let (mut groups, mut group, mut filled) = (Vec::new(), 0, padding);
    for digit in digits {
        group = group * 10 + u16::from(digit - b'0');
        filled += 1;
        if filled == group_len {
            groups.push(std::mem::take(&mut group));
            filled = 0;
        }
    }
    if filled > 0 {
        groups.push((filled..group_len).fold(group, |group, _| group * 10));
    }
    (groups, (point + padding) / group_len - 1)
}

/// Appends the binary form of a number that [`parse`] has read.
pub fn put(out: &mut Vec<u8>, number: &Number<Vec<u16>>) {
    // So many groups, and such a weight, were refused if they did not fit.
    let head = [
        number.groups.len() as u16,
        (number.weight as i16).cast_unsigned(),
        number.class.code(),
        number.scale,
    ];
    out.extend(head.iter().chain(&number.groups).flat_map(|word| word.to_be_bytes()));
}
