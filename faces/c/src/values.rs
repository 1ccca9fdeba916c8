//! Parameters as they are sent. All but bytes go as texts whose types the server infers, so nothing
//! has to be asked, and no type has to be remembered that may be another by then.

use crate::failure::Failure;
use crate::ffi::{OtValue, kind};

/// `bytea`.
const BYTEA: u32 = 17;

/// The most that the protocol counts.
const PARAMETERS_MAX: usize = u16::MAX as usize;

/// The longest that a message takes, with room for what is around it.
const BYTES_MAX: usize = 1 << 30;

/// Formats and parameters as in a Bind, and the types that are named; none, where all are inferred.
pub(crate) fn parameters(values: &[Value<'_>]) -> Result<(Vec<u8>, Vec<u32>), Failure> {
    if values.len() > PARAMETERS_MAX {
        return Err(wrong(format!("a statement takes at most {PARAMETERS_MAX} parameters")));
    }
    let size: usize = values.iter().map(|value| value.len() + 4).sum();
    if size >= BYTES_MAX {
        return Err(wrong("the parameters have 1 GiB or more".into()));
    }
    let count = values.len() as u16;
    let is_bytes = |value: &Value<'_>| matches!(value, Value::Bytes(_));
    let mut out = Vec::with_capacity(4 + 2 * values.len() + size);
    let mut oids = Vec::new();
    if values.iter().any(is_bytes) {
        out.extend_from_slice(&count.to_be_bytes());
        for value in values {
            out.extend_from_slice(&u16::from(is_bytes(value)).to_be_bytes());
            oids.push(if is_bytes(value) { BYTEA } else { 0 });
        }
    } else {
        out.extend_from_slice(&[0, 0]);
    }
    out.extend_from_slice(&count.to_be_bytes());
    for value in values {
        value.write(&mut out);
    }
    Ok((out, oids))
}

fn wrong(why: String) -> Failure {
    Failure::unsent("parameter", why)
}

/// A value, borrowed from its caller.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Real(f64),
    Bool(bool),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// What C means by it. `bytes`: those that it points to.
    pub(crate) fn of(value: &OtValue, bytes: &'a [u8]) -> Option<Value<'a>> {
        Some(match value.kind {
            kind::NULL => Value::Null,
            kind::I64 => Value::Int(value.integer),
            kind::F64 => Value::Real(value.real),
            kind::BOOL => Value::Bool(value.integer != 0),
            kind::TEXT => Value::Text(bytes),
            kind::BYTES => Value::Bytes(bytes),
            _ => return None,
        })
    }

    /// No less than what it takes.
    fn len(&self) -> usize {
        match self {
            Value::Text(bytes) | Value::Bytes(bytes) => bytes.len(),
            _ => 32,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        if matches!(self, Value::Null) {
            return out.extend_from_slice(&(-1_i32).to_be_bytes());
        }
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        self.write_bare(out);
        let len = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// As it is written where its length stands elsewhere.
    pub(crate) fn write_bare(&self, out: &mut Vec<u8>) {
        use std::io::Write;
        // It can't fail in memory.
        let _ = match *self {
            Value::Null => Ok(()),
            Value::Int(number) => write!(out, "{number}"),
            Value::Real(number) if number.is_nan() => out.write_all(b"NaN"),
            Value::Real(number) if number.is_infinite() => {
                out.write_all(if number > 0.0 { b"Infinity" } else { b"-Infinity" })
            }
            Value::Real(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
                write!(out, "{number}")
            }
            Value::Real(number) => write!(out, "{number:?}"),
            Value::Bool(is_true) => out.write_all(if is_true { b"true" } else { b"false" }),
            Value::Text(bytes) | Value::Bytes(bytes) => out.write_all(bytes),
        };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn values_are_texts_and_bytes_have_their_type() {
        let of = |value: Value<'_>| {
            let (bytes, oids) = parameters(&[value]).unwrap();
            let formats = if oids.is_empty() { 2 } else { 4 };
            (String::from_utf8(bytes[formats + 6..].to_vec()).unwrap(), oids)
        };
        let text = |it: &str| (it.to_owned(), Vec::new());
        assert_eq!(of(Value::Int(i64::MIN)), text("-9223372036854775808"));
        assert_eq!(of(Value::Real(0.1)), text("0.1"));
        assert_eq!(of(Value::Real(-2.0)), text("-2"));
        assert_eq!(of(Value::Real(1e300)), text("1e300"));
        assert_eq!(of(Value::Real(f64::NEG_INFINITY)), text("-Infinity"));
        assert_eq!(of(Value::Bool(true)), text("true"));
        assert_eq!(of(Value::Bytes(b"abc")), ("abc".to_owned(), vec![17]));
        let (bytes, _) = parameters(&[Value::Null]).unwrap();
        assert_eq!(bytes, [0, 0, 0, 1, 255, 255, 255, 255]);
    }
}
