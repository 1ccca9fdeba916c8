//! The line of a value: this is the one place that knows the types of RESP2 and RESP3.

use onetrip_engine::Violation;

/// What a type and its line announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The line is the value.
    Line,
    /// The null of its type; the line is the whole value.
    Nil,
    /// A string of this many bytes, followed by a line end.
    String(u64),
    /// A string in chunks.
    Chunks,
    /// An aggregate of this many items, or attributes in front of a value. A map's entry is two
    /// items.
    Items(u64),
    /// An aggregate without a length, which goes on until its end is sent.
    Stream {
        /// Whether its items are entries.
        pairs: bool,
    },
}

/// Reads the line after a type, without its line end.
pub(crate) fn head(kind: u8, line: &[u8]) -> Result<Head, Violation> {
    match (kind, line) {
        (b'+' | b'-', _) => Ok(Head::Line),
        (b':', _) => checked(integer(line).is_some(), Head::Line, "an integer is not a number"),
        (b',', _) => checked(is_double(line), Head::Line, "a double is not a number"),
        (b'(', _) => checked(is_integer(line), Head::Line, "a big number is not an integer"),
        (b'#', _) => {
            checked(matches!(line, b"t" | b"f"), Head::Line, "a boolean is neither true nor false")
        }
        (b'_', _) => checked(line.is_empty(), Head::Nil, "a null has a value"),
        (b'$' | b'*', b"-1") => Ok(Head::Nil),
        (b'$', b"?") => Ok(Head::Chunks),
        (b'*' | b'~' | b'%', b"?") => Ok(Head::Stream { pairs: kind == b'%' }),
        (b'$' | b'!', _) => Ok(Head::String(length(line)?)),
        (b'=', _) => Ok(Head::String(length_from(FORMAT_LEN, line)?)),
        (b'*' | b'~' | b'>', _) => Ok(Head::Items(length(line)?)),
        (b'%' | b'|', _) => {
            let items = length(line)?.checked_mul(2);
            Ok(Head::Items(items.ok_or(Violation("an aggregate is too large"))?))
        }
        _ => Err(UNKNOWN),
    }
}

/// Whether a value, or attributes in front of one, can begin with this byte.
pub(crate) fn is_kind(byte: u8) -> bool {
    matches!(
        byte,
        b'+' | b'-'
            | b':'
            | b'$'
            | b'*'
            | b'_'
            | b','
            | b'#'
            | b'!'
            | b'='
            | b'('
            | b'%'
            | b'~'
            | b'|'
            | b'>'
    )
}

/// The violation for a type that does not exist.
pub(crate) const UNKNOWN: Violation = Violation("a reply has an unknown type");

/// The length of a verbatim string's format: three bytes and a colon.
pub(crate) const FORMAT_LEN: usize = 4;

fn checked(holds: bool, head: Head, or: &'static str) -> Result<Head, Violation> {
    if holds { Ok(head) } else { Err(Violation(or)) }
}

/// A length or a count, which consists of digits only.
pub(crate) fn length(line: &[u8]) -> Result<u64, Violation> {
    const NONE: Violation = Violation("a length is not a number");
    if line.is_empty() {
        return Err(NONE);
    }
    line.iter().try_fold(0_u64, |length, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(NONE);
        }
        let length = length.checked_mul(10).and_then(|length| length.checked_add(digit.into()));
        length.ok_or(Violation("a length is too large"))
    })
}

fn length_from(min: usize, line: &[u8]) -> Result<u64, Violation> {
    let length = length(line)?;
    if length < min as u64 {
        return Err(Violation("a verbatim string has no format"));
    }
    Ok(length)
}

/// An integer of 64 bits, with or without a sign.
pub(crate) fn integer(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

/// A number with a fraction, an infinity, or NaN.
#[cfg(any(test, feature = "doubles"))]
pub(crate) fn double(line: &[u8]) -> Option<f64> {
    if is_nan(unsigned(line)) {
        return Some(f64::NAN);
    }
    std::str::from_utf8(line).ok()?.parse().ok()
}

/// Whether `double` can read this, without reading it: a host that only looks for the end of a
/// reply then needs no tables of powers of five.
fn is_double(line: &[u8]) -> bool {
    let line = unsigned(line);
    let is_infinite = [&b"inf"[..], b"infinity"].iter().any(|word| line.eq_ignore_ascii_case(word));
    if is_infinite || is_nan(line) {
        return true;
    }
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(line);
    let rest = &line[whole..];
    let (fraction, rest) = match rest.strip_prefix(b".") {
        Some(rest) => (digits(rest), &rest[digits(rest)..]),
        None => (0, rest),
    };
    let exponent = rest.strip_prefix(b"e").or(rest.strip_prefix(b"E")).map(unsigned);
    let ends = match exponent {
        Some(exponent) => !exponent.is_empty() && digits(exponent) == exponent.len(),
        None => rest.is_empty(),
    };
    whole + fraction > 0 && ends
}

/// NaN as C's printf may write it (C99, 7.19.6.1): with or without what its bits are.
fn is_nan(line: &[u8]) -> bool {
    let Some((word, bits)) = line.split_at_checked(3) else { return false };
    let inside = bits.strip_prefix(b"(").and_then(|bits| bits.strip_suffix(b")"));
    let may_stand = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let fits = bits.is_empty() || inside.is_some_and(|inside| inside.iter().all(may_stand));
    word.eq_ignore_ascii_case(b"nan") && fits
}

fn unsigned(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"-").or(line.strip_prefix(b"+")).unwrap_or(line)
}

/// Whether this is an integer of any length, with or without a sign.
fn is_integer(line: &[u8]) -> bool {
    let digits = unsigned(line);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_double_is_what_can_be_read_as_one() {
        let parts = [
            "", "-", "+", "0", "12", ".", "e", "E", "inf", "Infinity", "nan", "NaN", "x", " ", "_",
            "(", ")",
        ];
        for first in parts {
            for second in parts {
                for third in parts {
                    for fourth in ["", "1", "-7", ".5", "e5", "e-3", "."] {
                        let text = [first, second, third, fourth].concat();
                        let line = text.as_bytes();
                        assert_eq!(is_double(line), double(line).is_some(), "{text}");
                    }
                }
            }
        }
    }
}
