//! Arrays: the head of the binary form, and the text form, for types that have no binary one.

use std::borrow::Cow;

use super::{Malformed, Parts, TooLong, put_count};

/// MAXDIM in src/include/utils/array.h.
pub const DIMENSIONS_MAX: usize = 6;

/// The lengths of the dimensions of an array, and its elements. It has as many as the lengths say,
/// or the bytes end early; none of the lengths is more than came.
///
/// # Errors
/// There are more dimensions than arrays have, or there is no room for so many elements.
pub fn read(value: &[u8]) -> Result<([usize; DIMENSIONS_MAX], usize, Parts<'_>), Malformed> {
    let mut parts = Parts(value);
    let [dimensions, _has_nulls, _element] = [parts.i32()?, parts.i32()?, parts.i32()?];
    let dimensions = usize::try_from(dimensions).map_err(|_| Malformed)?;
    let mut lens = [0; DIMENSIONS_MAX];
    for len in lens.get_mut(..dimensions).ok_or(Malformed)? {
        let (it, _lower_bound) = (parts.i32()?, parts.i32()?);
        *len = usize::try_from(it).map_err(|_| Malformed)?;
    }
    let mut count = 1_usize;
    for len in &lens[..dimensions] {
        count = count.checked_mul(*len).ok_or(Malformed)?;
        // An element has a length of four bytes.
        if count > parts.0.len() / 4 {
            return Err(Malformed);
        }
    }
    Ok((lens, dimensions, parts))
}

/// Appends what stands in front of the elements. All lower bounds are 1.
///
/// # Errors
/// A length does not fit.
pub fn put_head(
    out: &mut Vec<u8>,
    lens: &[usize],
    has_nulls: bool,
    element_oid: u32,
) -> Result<(), TooLong> {
    put_count(out, lens.len())?;
    put_count(out, has_nulls.into())?;
    out.extend_from_slice(&element_oid.to_be_bytes());
    lens.iter().try_for_each(|len| {
        put_count(out, *len)?;
        put_count(out, 1)
    })
}

/// A token of the text form of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// An array begins.
    Open,
    /// It ends.
    Close,
    /// An element, `None` for NULL.
    Element(Option<Cow<'a, str>>),
}

/// The tokens of the text form of an array with this delimiter, an ASCII character; the last is an
/// error where the text ends early.
pub fn tokens(text: &str, delimiter: u8) -> impl Iterator<Item = Result<Token<'_>, Malformed>> {
    let delimiter = char::from(delimiter);
    // Lower bounds that are not 1 stand in front.
    let mut rest = text.find('{').map_or("", |start| &text[start..]);
    let mut depth = 0_usize;
    let mut has_begun = false;
    std::iter::from_fn(move || {
        if has_begun && depth == 0 {
            return None;
        }
        has_begun = true;
        rest = rest.strip_prefix(delimiter).unwrap_or(rest);
        let found = match rest.bytes().next() {
            Some(b'{') => Some((Token::Open, 1)),
            Some(b'}') if depth > 0 => Some((Token::Close, 1)),
            Some(_) if depth > 0 => {
                element(rest, delimiter).map(|(it, len)| (Token::Element(it), len))
            }
            _ => None,
        };
        let Some((token, len)) = found else {
            depth = 0;
            return Some(Err(Malformed));
        };
        match token {
            Token::Open => depth += 1,
            Token::Close => depth -= 1,
            Token::Element(_) => {}
        }
        rest = &rest[len..];
        Some(Ok(token))
    })
}

/// The element at the front, and its length with its quotes.
fn element(rest: &str, delimiter: char) -> Option<(Option<Cow<'_, str>>, usize)> {
    let Some(quoted) = rest.strip_prefix('"') else {
        let len = rest.find([delimiter, '}'])?;
        let value = &rest[..len];
        return Some(((value != "NULL").then_some(value.into()), len));
    };
    let (mut value, mut letters) = (String::new(), quoted.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((Some(value.into()), at + 2)),
            '\\' => value.push(letters.next()?.1),
            _ => value.push(letter),
        }
    }
    None
}

/// Appends an element of the text form, in quotes.
pub fn put_quoted(out: &mut Vec<u8>, element: &[u8]) {
    out.push(b'"');
    for byte in element {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}
