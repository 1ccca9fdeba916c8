//! The text form of ranges and multiranges: range_parse, range_deparse and the like in
//! src/backend/utils/adt/rangetypes.c and multirangetypes.c.

use std::fmt::{self, Display, Write};
use std::ops::Bound;
use std::str::FromStr;

use super::{Multirange, Range};
use crate::types::ValueError;

/// Writes what the server writes, if `T` writes its values as the server does: integers,
/// [`Numeric`](crate::types::Numeric) and dates do.
impl<T: Display> Display for Range<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range::Bounds { lower, upper } = self else { return f.write_str("empty") };
        f.write_char(if matches!(lower, Bound::Included(_)) { '[' } else { '(' })?;
        write_bound(lower, f)?;
        f.write_char(',')?;
        write_bound(upper, f)?;
        f.write_char(if matches!(upper, Bound::Included(_)) { ']' } else { ')' })
    }
}

fn write_bound<T: Display>(bound: &Bound<T>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (Bound::Included(value) | Bound::Excluded(value)) = bound else { return Ok(()) };
    let text = value.to_string();
    // An empty text would mean that the bound is absent.
    if !text.is_empty() && !text.contains(is_special) {
        return f.write_str(&text);
    }
    f.write_char('"')?;
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            f.write_char(c)?;
        }
        f.write_char(c)?;
    }
    f.write_char('"')
}

/// Whether a bound with this character is quoted. Blanks are those of `isspace` in the C locale.
fn is_special(c: char) -> bool {
    matches!(c, '"' | '\\' | '(' | ')' | '[' | ']' | ',') || is_blank(c)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

impl<T: Display> Display for Multirange<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        for (number, range) in self.iter().enumerate() {
            if number > 0 {
                f.write_char(',')?;
            }
            Display::fmt(range, f)?;
        }
        f.write_char('}')
    }
}

const NO_RANGE: ValueError = ValueError::new("it is not a range");

/// Reads what the server writes. As on the server, blanks around a bound belong to it.
///
/// # Errors
/// It is not a range, or a bound is not a `T`.
impl<T: FromStr> FromStr for Range<T> {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Range<T>, ValueError> {
        match read(text)? {
            (range, rest) if rest.trim_start_matches(is_blank).is_empty() => Ok(range),
            _ => Err(NO_RANGE),
        }
    }
}

/// Reads what the server writes.
///
/// # Errors
/// It is not a multirange, or a bound is not a `T`.
impl<T: FromStr> FromStr for Multirange<T> {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Multirange<T>, ValueError> {
        let inside = text.trim_matches(is_blank).strip_prefix('{');
        let mut rest = inside.and_then(|rest| rest.strip_suffix('}')).ok_or(NO_RANGE)?;
        let mut ranges = Vec::new();
        while !rest.trim_start_matches(is_blank).is_empty() {
            let (range, behind) = read(rest)?;
            ranges.push(range);
            rest = match behind.trim_start_matches(is_blank).strip_prefix(',') {
                Some("") => return Err(NO_RANGE),
                Some(behind) => behind,
                None if behind.trim_start_matches(is_blank).is_empty() => "",
                None => return Err(NO_RANGE),
            };
        }
        Ok(Multirange::from(ranges))
    }
}

/// Reads a range, and returns the text behind it.
fn read<T: FromStr>(text: &str) -> Result<(Range<T>, &str), ValueError> {
    const EMPTY: &str = "empty";
    let text = text.trim_start_matches(is_blank);
    if text.get(..EMPTY.len()).is_some_and(|word| word.eq_ignore_ascii_case(EMPTY)) {
        return Ok((Range::Empty, &text[EMPTY.len()..]));
    }
    let mut chars = text.chars();
    let lower_included = match chars.next() {
        Some('[') => true,
        Some('(') => false,
        _ => return Err(NO_RANGE),
    };
    let (lower, rest) = read_bound(chars.as_str())?;
    let (upper, rest) = read_bound(rest.strip_prefix(',').ok_or(NO_RANGE)?)?;
    let upper_included = rest.starts_with(']');
    let rest = rest.strip_prefix([']', ')']).ok_or(NO_RANGE)?;
    let range = Range::new(bound(lower, lower_included)?, bound(upper, upper_included)?);
    Ok((range, rest))
}

fn bound<T: FromStr>(text: Option<String>, included: bool) -> Result<Bound<T>, ValueError> {
    let Some(text) = text else { return Ok(Bound::Unbounded) };
    // The error of the type may quote the text.
    let value = text.parse().map_err(|_| ValueError::new("a bound of the range can't be read"))?;
    Ok(if included { Bound::Included(value) } else { Bound::Excluded(value) })
}

/// Reads a bound up to the comma or bracket behind it. Quotes and backslashes keep other characters
/// from having a meaning.
fn read_bound(text: &str) -> Result<(Option<String>, &str), ValueError> {
    if text.starts_with([',', ')', ']']) {
        return Ok((None, text));
    }
    let mut bound = String::new();
    let mut quoted = false;
    let mut chars = text.chars();
    loop {
        let rest = chars.as_str();
        match chars.next().ok_or(NO_RANGE)? {
            ',' | ')' | ']' if !quoted => return Ok((Some(bound), rest)),
            '\\' => bound.push(chars.next().ok_or(NO_RANGE)?),
            '"' if quoted && chars.as_str().starts_with('"') => {
                chars.next();
                bound.push('"');
            }
            '"' => quoted = !quoted,
            c => bound.push(c),
        }
    }
}
