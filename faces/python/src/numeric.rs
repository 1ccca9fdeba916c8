//! `numeric` and Decimal: digits of base 10,000 (src/backend/utils/adt/numeric.c).

use std::fmt::Write;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::decode::Misfit;

const POSITIVE: u16 = 0;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;

/// Digits that the server takes in front of the point, and behind it.
const FRONT_MAX: usize = 131_072;
const BEHIND_MAX: usize = 16_383;

pub(crate) fn decimal(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    DECIMAL.import(py, "decimal", "Decimal")
}

/// A Decimal of its binary form.
pub(crate) fn read<'py>(py: Python<'py>, value: &[u8]) -> Result<Bound<'py, PyAny>, Misfit> {
    let text = text(value).ok_or(Misfit::Malformed)?;
    Ok(decimal(py)?.call1((text,))?)
}

pub(crate) fn text(value: &[u8]) -> Option<String> {
    let (head, digits) = value.split_first_chunk::<8>()?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (count, weight, sign, scale) = (word(0), word(2).cast_signed(), word(4), word(6));
    match sign {
        NAN => return Some("NaN".to_owned()),
        INFINITY => return Some("Infinity".to_owned()),
        NEGATIVE_INFINITY => return Some("-Infinity".to_owned()),
        POSITIVE | NEGATIVE => {}
        _ => return None,
    }
    if digits.len() != 2 * usize::from(count) {
        return None;
    }
    let digit = |place: i32| {
        let at = usize::try_from(place).ok().map(|place| 2 * place);
        let pair = at.and_then(|at| digits.get(at..at + 2));
        pair.map_or(0, |pair| u16::from_be_bytes([pair[0], pair[1]]))
    };
    let mut text = String::with_capacity(4 * digits.len() + 8);
    text.push_str(if sign == NEGATIVE { "-" } else { "" });
    let weight = i32::from(weight);
    if weight < 0 {
        text.push('0');
    }
    for place in 0..=weight {
        let _ = match place {
            0 => write!(text, "{}", digit(place)),
            _ => write!(text, "{:04}", digit(place)),
        };
    }
    if scale > 0 {
        text.push('.');
        let end = text.len() + usize::from(scale);
        let mut place = weight + 1;
        while text.len() < end {
            let _ = write!(text, "{:04}", digit(place));
            place += 1;
        }
        text.truncate(end);
    }
    Some(text)
}

/// As a whole number of units of this many digits behind the point; none where it is not one, or
/// there is no room for it.
pub(crate) fn scaled(value: &[u8], scale: u32) -> Option<i128> {
    let (head, digits) = value.split_first_chunk::<8>()?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (weight, sign) = (i32::from(word(2).cast_signed()), word(4));
    let mut sum = 0_i128;
    for (place, digit) in digits.as_chunks::<2>().0.iter().enumerate() {
        let digit = i128::from(u16::from_be_bytes(*digit));
        let power = 4 * (weight - i32::try_from(place).ok()?) + scale.cast_signed();
        let unit = 10_i128.checked_pow(power.unsigned_abs())?;
        let part = if power < 0 { digit / unit } else { digit.checked_mul(unit)? };
        sum = sum.checked_add(part)?;
    }
    match sign {
        POSITIVE => Some(sum),
        NEGATIVE => Some(-sum),
        _ => None,
    }
}

/// Appends the binary form of a number that Python has written: digits, a point, an exponent. Why
/// it can't, otherwise.
pub(crate) fn write(number: &str, out: &mut Vec<u8>) -> Result<(), &'static str> {
    let (sign, number) = match number.strip_prefix('-') {
        Some(rest) => (NEGATIVE, rest),
        None => (POSITIVE, number),
    };
    let special = match (number, sign) {
        ("Infinity", POSITIVE) => Some(INFINITY),
        ("Infinity", _) => Some(NEGATIVE_INFINITY),
        _ if number.starts_with("NaN") => Some(NAN),
        _ => None,
    };
    if let Some(sign) = special {
        put(out, &[0, 0, sign, 0]);
        return Ok(());
    }
    let (digits, exponent) = number.split_once(['E', 'e']).unwrap_or((number, "0"));
    let exponent: i64 = exponent.parse().map_err(|_| "it is no number that PostgreSQL has")?;
    let (front, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let all: Vec<u8> =
        front.bytes().chain(behind.bytes()).map(|it| it.wrapping_sub(b'0')).collect();
    if all.is_empty() || all.iter().any(|digit| *digit > 9) {
        return Err("it is no number that PostgreSQL has");
    }
    // Digits in front of the point, and behind it.
    let point = front.len() as i64 + exponent;
    let scale = (all.len() as i64 - point).max(0);
    let zeros = all.iter().take_while(|digit| **digit == 0).count();
    if point - zeros as i64 > FRONT_MAX as i64 || scale > BEHIND_MAX as i64 {
        return Err(
            "it has more digits than numeric, 131072 in front of the point and 16383 behind it",
        );
    }
    let (mut words, mut weight) = words(&all, point);
    while words.last() == Some(&0) {
        words.pop();
    }
    let sign = if words.is_empty() { POSITIVE } else { sign };
    weight = if words.is_empty() { 0 } else { weight };
    put(out, &[words.len() as u16, (weight as i16).cast_unsigned(), sign, scale as u16]);
    put(out, &words);
    Ok(())
}

/// Digits of base 10,000, the first of which is not zero, and the power of the first.
fn words(digits: &[u8], point: i64) -> (Vec<u16>, i64) {
    let Some(zeros) = digits.iter().position(|digit| *digit != 0) else { return (Vec::new(), 0) };
    let (digits, point) = (&digits[zeros..], point - zeros as i64);
    let weight = (point - 1).div_euclid(4);
    // Places of the first word that are in front of the first digit.
    let lead = (4 * (weight + 1) - point) as usize;
    let places = (lead + digits.len()).next_multiple_of(4);
    let place = |at: usize| {
        let digit = at.checked_sub(lead).and_then(|at| digits.get(at));
        u16::from(digit.copied().unwrap_or(0))
    };
    let word = |at: usize| (at..at + 4).fold(0, |word, at| word * 10 + place(at));
    ((0..places).step_by(4).map(word).collect(), weight)
}

fn put(out: &mut Vec<u8>, words: &[u16]) {
    out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
}
