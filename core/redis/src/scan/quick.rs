//! Short values that have arrived as a whole, which most are: a string, a simple string, an integer.
//!
//! What is anything else, wrong or not whole yet is left to the long way, which begins anew. So no more
//! than [`LOOKED_MAX`] bytes are looked at here.

use super::ScanLimits;

/// How many bytes at the front of the input are looked at, at most.
pub(crate) const LOOKED_MAX: usize = 34;

/// The digits of a length that are read here: it can't overflow.
const DIGITS_MAX: usize = 9;

/// The bytes of a line, its type and its end among them, that are looked at here.
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

/// How many digits come first, of which there is at least one and not too many, and their value.
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
