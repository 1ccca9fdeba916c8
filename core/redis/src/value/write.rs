//! Writes a value as a server does.

use bytes::{BufMut, BytesMut};

use super::{ErrorValue, Value};

impl Value {
    /// Writes it as RESP3.
    pub fn write_resp3(&self, out: &mut BytesMut) {
        match self {
            Value::Nil => out.put_slice(b"_\r\n"),
            Value::Simple(text) => put_line(out, b'+', text),
            Value::Error(error) => put_error(out, error),
            Value::Int(number) => put_text(out, b':', number),
            Value::Bulk(text) => put_string(out, b'$', &[text]),
            Value::Double(number) => put_line(out, b',', double(*number).as_bytes()),
            Value::Bool(truth) => put_line(out, b'#', if *truth { b"t" } else { b"f" }),
            Value::BigNumber(digits) => put_line(out, b'(', digits),
            Value::Verbatim { format, text } => put_string(out, b'=', &[format, b":", text]),
            Value::Array(items) => put_items(out, b'*', items),
            Value::Set(items) => put_items(out, b'~', items),
            Value::Push(items) => put_items(out, b'>', items),
            Value::Map(entries) => {
                put_text(out, b'%', entries.len());
                for (key, value) in entries {
                    key.write_resp3(out);
                    value.write_resp3(out);
                }
            }
        }
    }

    /// Writes it as RESP2, which lacks some types. A map becomes an array of keys and values, other
    /// aggregates arrays, true the integer 1; fractional and big numbers become strings.
    pub fn write_resp2(&self, out: &mut BytesMut) {
        match self {
            Value::Nil => out.put_slice(b"$-1\r\n"),
            Value::Simple(text) => put_line(out, b'+', text),
            Value::Error(error) => put_line(out, b'-', &error.text),
            Value::Int(number) => put_text(out, b':', number),
            Value::Bulk(text) | Value::BigNumber(text) | Value::Verbatim { text, .. } => {
                put_string(out, b'$', &[text]);
            }
            Value::Double(number) => put_string(out, b'$', &[double(*number).as_bytes()]),
            Value::Bool(truth) => put_text(out, b':', u8::from(*truth)),
            Value::Array(items) | Value::Set(items) | Value::Push(items) => {
                put_text(out, b'*', items.len());
                items.iter().for_each(|item| item.write_resp2(out));
            }
            Value::Map(entries) => {
                put_text(out, b'*', 2 * entries.len());
                for (key, value) in entries {
                    key.write_resp2(out);
                    value.write_resp2(out);
                }
            }
        }
    }
}

fn put_items(out: &mut BytesMut, kind: u8, items: &[Value]) {
    put_text(out, kind, items.len());
    items.iter().for_each(|item| item.write_resp3(out));
}

/// An error as a line, or as a string if it has line breaks.
fn put_error(out: &mut BytesMut, error: &ErrorValue) {
    match breaks(&error.text) {
        false => put_line(out, b'-', &error.text),
        true => put_string(out, b'!', &[&error.text]),
    }
}

/// A line. Line breaks inside it become spaces, as with a server.
fn put_line(out: &mut BytesMut, kind: u8, text: &[u8]) {
    out.put_u8(kind);
    match breaks(text) {
        false => out.put_slice(text),
        true => out.extend(text.iter().map(|&byte| match byte {
            b'\r' | b'\n' => b' ',
            byte => byte,
        })),
    }
    out.put_slice(b"\r\n");
}

fn breaks(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair == b"\r\n")
}

fn put_text(out: &mut BytesMut, kind: u8, text: impl std::fmt::Display) {
    put_line(out, kind, text.to_string().as_bytes());
}

fn put_string(out: &mut BytesMut, kind: u8, parts: &[&[u8]]) {
    put_text(out, kind, parts.iter().map(|part| part.len()).sum::<usize>());
    parts.iter().for_each(|part| out.put_slice(part));
    out.put_slice(b"\r\n");
}

/// The shortest form that reads back as the same number, with an exponent if it would have many
/// zeros.
fn double(number: f64) -> String {
    match number {
        _ if number.is_nan() => String::from("nan"),
        _ if number == 0.0 || (1e-5..1e17).contains(&number.abs()) => number.to_string(),
        _ if number.is_infinite() => number.to_string(),
        _ => format!("{number:e}"),
    }
}
