//! A fast path for short values that have arrived as a whole, as most have: strings, simple
//! strings, integers.
//!
//! Anything else, including wrong or incomplete values, is left to the regular scanner, which
//! starts over. So at most [`LOOKED_MAX`] bytes are looked at here.

use super::ScanLimits;

/// The most bytes at the front of the input that are looked at.
pub(crate) const LOOKED_MAX: usize = 34;

/// The most digits of a length that are read here, so that it can't overflow.
const DIGITS_MAX: usize = 9;

/// The most bytes of a line, including type and line end, that are looked at here.
const LINE_MAX: usize = 32;

/// The length of the value at the front of the input.
#[inline]
pub(crate) fn value(input: &[u8], limits: &ScanLimits) -> Option<usize> {
    match input.first()? {
        b'$' => string(input, limits),
        b'+' if input.starts_with(b"+OK\r\n") && limits.line_bytes_max >= 2 => Some(5),
        b'+' => line(input, limits),
        b':' => integer(input, limits),
        _ => None,
    }
}

#[inline]
fn string(input: &[u8], limits: &ScanLimits) -> Option<usize> {
    let (digits, len) = digits(&input[1..])?;
    let end = 1 + digits + 2 + len;
    let behind = input.get(1 + digits..end + 2)?;
    let ends = behind.starts_with(b"\r\n") && behind.ends_with(b"\r\n");
    (ends && len as u64 <= limits.string_bytes_max && digits <= limits.line_bytes_max)
        .then_some(end + 2)
}

#[inline]
fn integer(input: &[u8], limits: &ScanLimits) -> Option<usize> {
    let sign = usize::from(input.get(1) == Some(&b'-'));
    let (digits, _) = digits(&input[1 + sign..])?;
    let end = 1 + sign + digits;
    let ends = input[end..].starts_with(b"\r\n");
    (ends && sign + digits <= limits.line_bytes_max).then_some(end + 2)
}

/// The number of digits at the front, at least one and not too many, and their value.
#[inline]
fn digits(input: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (at, byte) in input.iter().enumerate().take(DIGITS_MAX + 1) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (at > 0).then_some((at, value));
        }
        value = value * 10 + usize::from(digit);
    }
    None
}

#[inline]
fn line(input: &[u8], limits: &ScanLimits) -> Option<usize> {
    let end = input.iter().take(LINE_MAX).position(|&byte| byte == b'\r')?;
    (input.get(end + 1) == Some(&b'\n') && end - 1 <= limits.line_bytes_max).then_some(end + 2)
}
