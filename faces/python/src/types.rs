//! The types of PostgreSQL, which stand below, and what is Python's of them: values that functions
//! of the user's write and read, or that asyncpg has in another way.

use std::sync::Arc;

use onetrip_postgres::binary::numeric;
pub(crate) use onetrip_postgres::client::types::kinds::{Codec, Form, Kind, Type, Types};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyString, PyTuple};

use crate::decode::{Misfit, Read, decimal, end, read, tuple};
use crate::encode::{Place, Unfit, write, write_bytes, write_endless, write_text};

/// How values of a type are written and read, if not by default.
enum Own {
    /// By functions of the user's. `is_text`: whether a str leaves as it is, and not as they write it.
    Functions { encode: Py<PyAny>, decode: Py<PyAny>, is_text: Option<Py<PyAny>> },
    /// A float4 with all digits that its binary form gives.
    WideFloat4,
    /// A date or a moment, of which the first and the last stand for infinity. For a timestamptz a
    /// moment without a time zone is one of this machine's.
    Endless,
    /// A numeric whose groups of zeros at its end are an exponent.
    Exponent,
    /// A row of no declared type, as a tuple.
    Tuple,
}

/// Has values of a type written and read by these functions.
pub(crate) fn set_codec(
    types: &mut Types,
    oid: u32,
    form: Form,
    (encode, decode): (Py<PyAny>, Py<PyAny>),
    is_text: Option<Py<PyAny>>,
) {
    types.set_codec(oid, form, Arc::new(Own::Functions { encode, decode, is_text }));
}

/// Has values as asyncpg has them, where that differs.
pub(crate) fn like_asyncpg(types: &mut Types) {
    types.extensions_as_texts();
    types.set_codec(700, Form::Binary, Arc::new(Own::WideFloat4));
    types.set_codec(1700, Form::Binary, Arc::new(Own::Exponent));
    types.set_codec(2249, Form::Binary, Arc::new(Own::Tuple));
    for oid in [1082, 1114, 1184] {
        types.set_codec(oid, Form::Binary, Arc::new(Own::Endless));
    }
}

/// The number, name, kind and schema of a type.
pub(crate) fn told(type_: &Type) -> (u32, String, &'static str, String) {
    let base = match &type_.kind {
        Kind::Own(codec) => &codec.base,
        _ => type_,
    };
    let (kind, name) = match &base.kind {
        // int2vector and oidvector are arrays that have names of their own.
        Kind::Array(of) if !matches!(base.oid, 22 | 30) => ("array", format!("{}[]", of.name)),
        Kind::Composite(_) => ("composite", type_.name.clone()),
        Kind::Range(_) => ("range", type_.name.clone()),
        Kind::Multirange(_) => ("multirange", type_.name.clone()),
        _ => ("scalar", type_.name.clone()),
    };
    (type_.oid, name, kind, type_.schema.clone())
}

/// Whether no value can be part of a cycle.
pub(crate) fn is_plain(type_: &Type) -> bool {
    match &type_.kind {
        Kind::Own(codec) => !matches!(own(codec), Some(Own::Functions { .. })),
        kind => kind.is_single(),
    }
}

/// The type whose values have a codec only since asyncpg reads them in another way.
pub(crate) fn written_as(codec: &Codec) -> Option<&Type> {
    matches!(own(codec), Some(Own::WideFloat4 | Own::Exponent)).then_some(&*codec.base)
}

/// Whether a value is a str that the server reads as the functions do.
pub(crate) fn leaves_as_text(codec: &Codec, value: &Bound<'_, PyAny>) -> bool {
    let Some(Own::Functions { is_text: Some(is_text), .. }) = own(codec) else { return false };
    let is_text = is_text.bind(value.py());
    value.is_instance_of::<PyString>()
        && is_text.call1((value,)).is_ok_and(|it| it.is_truthy().unwrap_or(false))
}

/// The type without what asyncpg takes for infinity.
pub(crate) fn without_ends(type_: &Type) -> &Type {
    match &type_.kind {
        Kind::Own(codec) if matches!(own(codec), Some(Own::Endless)) => &codec.base,
        _ => type_,
    }
}

fn own(codec: &Codec) -> Option<&Own> {
    codec.by.downcast_ref()
}

/// Writes a value.
pub(crate) fn encode(
    codec: &Codec,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    place: Place,
) -> Result<(), Unfit> {
    let made = match own(codec) {
        Some(Own::Functions { encode, .. }) => encode.bind(value.py()).call1((value,))?,
        Some(Own::Endless) => return write_endless(&codec.base, value, out),
        _ => return write(&codec.base, value, out, place),
    };
    let gave = |unfit| match (unfit, own(codec)) {
        (Unfit::Expected(expected), Some(Own::Functions { .. })) => {
            let gave = made.get_type().name().map_or_else(|_| "value".into(), |it| it.to_string());
            Unfit::But(format!("its encoder gave a value of type {gave}, and it takes {expected}"))
        }
        (unfit, _) => unfit,
    };
    let written = match (codec.form, codec.base.kind.numbers()) {
        (Form::Binary, _) if matches!(own(codec), Some(Own::Functions { .. })) => {
            write_bytes(&made, out)
        }
        (Form::Text, _) if !codec.is_text_binary() => {
            let text = made.cast::<PyString>();
            text.map_err(|_| Unfit::Expected("a str")).and_then(|text| write_text(text, out))
        }
        (Form::Numbers, Some(numbers)) => {
            for (place, len) in numbers {
                let number: i64 = made.get_item(place)?.extract()?;
                out.extend_from_slice(&number.to_be_bytes()[8 - len..]);
            }
            Ok(())
        }
        _ => write(&codec.base, &made, out, place),
    };
    written.map_err(gave)
}

/// Reads a value in its binary form.
pub(crate) fn decode<'py>(py: Python<'py>, codec: &Codec, value: &[u8]) -> Read<'py> {
    let decode = match own(codec) {
        Some(Own::Functions { decode, .. }) => decode.bind(py),
        Some(Own::WideFloat4) => {
            let value = f32::from_be_bytes(value.try_into().map_err(|_| Misfit::Malformed)?);
            return Ok(PyFloat::new(py, value.into()).into_any());
        }
        Some(Own::Exponent) => return decimal(py, &numeric::read(value)?.text_by_groups()),
        Some(Own::Endless) => {
            return match end(py, &codec.base.kind, value)? {
                Some(end) => Ok(end),
                None => read(py, &codec.base, value),
            };
        }
        Some(Own::Tuple) => return tuple(py, value),
        None => return read(py, &codec.base, value),
    };
    let told = match (codec.form, codec.base.kind.numbers()) {
        (Form::Binary, _) => PyBytes::new(py, value).into_any(),
        (Form::Numbers, Some(numbers)) => {
            let (mut told, mut rest) = (vec![0_i64; numbers.len()], value);
            for (place, len) in numbers {
                let (number, behind) = rest.split_at_checked(*len).ok_or(Misfit::Malformed)?;
                let add = |sum: i64, byte: &u8| sum << 8 | i64::from(*byte);
                let unused = 64 - 8 * *len;
                told[*place] = number.iter().fold(0, add) << unused >> unused;
                rest = behind;
            }
            PyTuple::new(py, told)?.into_any()
        }
        _ => read(py, &codec.base, value)?,
    };
    Ok(decode.call1((told,))?)
}

/// Reads a value in its text form.
pub(crate) fn decode_text<'py>(codec: &Codec, text: Bound<'py, PyAny>) -> Read<'py> {
    match own(codec) {
        Some(Own::Functions { decode, .. }) => Ok(decode.bind(text.py()).call1((text,))?),
        _ => Ok(text),
    }
}
