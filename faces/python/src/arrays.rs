//! Arrays as texts, of types that have no binary form here.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::decode::Misfit;
use crate::encode::Unfit;

/// Reads an array, with what reads an element.
pub(crate) fn read<'py>(
    text: &Bound<'py, PyAny>,
    mut element: impl FnMut(&str) -> Result<Bound<'py, PyAny>, Misfit>,
) -> Result<Bound<'py, PyAny>, Misfit> {
    let text = text.cast::<PyString>().map_err(PyErr::from)?;
    let whole = text.to_str()?;
    // Lower bounds that are not 1 stand in front.
    let start = whole.find('{').ok_or(Misfit::Malformed)?;
    let mut lists: Vec<Bound<'py, PyList>> = Vec::new();
    let mut rest = &whole[start..];
    loop {
        let head = rest.chars().next().ok_or(Misfit::Malformed)?;
        match head {
            '{' => lists.push(PyList::empty(text.py())),
            '}' => {
                let list = lists.pop().ok_or(Misfit::Malformed)?;
                match lists.last() {
                    Some(outer) => outer.append(list)?,
                    None => return Ok(list.into_any()),
                }
            }
            ',' => {}
            _ => {
                let list = lists.last().ok_or(Misfit::Malformed)?;
                let (value, len) = token(rest).ok_or(Misfit::Malformed)?;
                match value {
                    Some(value) => list.append(element(&value)?)?,
                    None => list.append(text.py().None())?,
                }
                rest = &rest[len..];
                continue;
            }
        }
        rest = &rest[1..];
    }
}

/// The element at the front, which may be NULL, and its length.
fn token(rest: &str) -> Option<(Option<String>, usize)> {
    let Some(quoted) = rest.strip_prefix('"') else {
        let len = rest.find([',', '}'])?;
        let value = &rest[..len];
        return Some(((value != "NULL").then(|| value.to_owned()), len));
    };
    let (mut value, mut letters) = (String::new(), quoted.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((Some(value), at + 2)),
            '\\' => value.push(letters.next()?.1),
            _ => value.push(letter),
        }
    }
    None
}

/// Writes an array. `element` writes one, and says whether it was an array itself.
pub(crate) fn write(
    elements: &[Bound<'_, PyAny>],
    out: &mut Vec<u8>,
    mut element: impl FnMut(&Bound<'_, PyAny>, &mut Vec<u8>) -> Result<bool, Unfit>,
) -> Result<(), Unfit> {
    out.push(b'{');
    for (place, value) in elements.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        if value.is_none() {
            out.extend_from_slice(b"NULL");
            continue;
        }
        let mut written = Vec::new();
        if element(value, &mut written)? {
            out.extend_from_slice(&written);
            continue;
        }
        out.push(b'"');
        for byte in written {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
    out.push(b'}');
    Ok(())
}
