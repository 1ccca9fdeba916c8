//! Values that functions of the user's write and read: of a text, of bytes, or of the parts of a
//! value.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::decode::{Misfit, read};
use crate::encode::{Unfit, write, write_bytes, write_text};
use crate::types::{Codec, Form, Kind, Type};

/// Writes a value.
pub(crate) fn encode(
    codec: &Codec,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Unfit> {
    let made = codec.encode.bind(value.py()).call1((value,))?;
    match codec.form {
        Form::Binary => write_bytes(&made, out),
        Form::Text if codec.is_text_binary() => write(&codec.base, &made, out, depth),
        Form::Text => {
            let text = made.cast::<PyString>();
            write_text(text.map_err(|_| Unfit::Expected("an encoder that gives a str"))?, out)
        }
        Form::Tuple => write_parts(&codec.base, &made, out, depth),
    }
}

/// Reads a value in its binary form.
pub(crate) fn decode<'py>(
    py: Python<'py>,
    codec: &Codec,
    value: &[u8],
) -> Result<Bound<'py, PyAny>, Misfit> {
    let told = match codec.form {
        Form::Binary => PyBytes::new(py, value).into_any(),
        Form::Text => read(py, &codec.base, value)?,
        Form::Tuple => read_parts(py, &codec.base, value)?,
    };
    Ok(codec.decode.bind(py).call1((told,))?)
}

/// Where in the tuple each number of the binary form stands, and its bytes.
fn parts_of(kind: &Kind) -> Option<&'static [(usize, usize)]> {
    Some(match kind {
        Kind::Date => &[(0, 4)],
        Kind::Time | Kind::Timestamp | Kind::TimestampTz | Kind::LocalTimestampTz => &[(0, 8)],
        Kind::TimeTz => &[(0, 8), (1, 4)],
        Kind::Interval => &[(2, 8), (1, 4), (0, 4)],
        _ => return None,
    })
}

fn write_parts(
    of: &Type,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Unfit> {
    let Some(parts) = parts_of(&of.kind) else { return write(of, value, out, depth) };
    for (place, len) in parts {
        let number: i64 = value.get_item(place)?.extract()?;
        out.extend_from_slice(&number.to_be_bytes()[8 - len..]);
    }
    Ok(())
}

fn read_parts<'py>(py: Python<'py>, of: &Type, value: &[u8]) -> Result<Bound<'py, PyAny>, Misfit> {
    let Some(parts) = parts_of(&of.kind) else { return read(py, of, value) };
    let (mut numbers, mut rest) = (vec![0; parts.len()], value);
    for (place, len) in parts {
        let (number, behind) = rest.split_at_checked(*len).ok_or(Misfit::Malformed)?;
        let sign = if number.first().is_some_and(|byte| *byte > 127) { 0xff } else { 0 };
        let mut bytes = [sign; 8];
        bytes[8 - len..].copy_from_slice(number);
        numbers[*place] = i64::from_be_bytes(bytes);
        rest = behind;
    }
    Ok(PyTuple::new(py, numbers)?.into_any())
}
