//! Compares our RESP reader with that of the crate `redis-protocol`: both have to find the same end
//! and the same values. The differences allowed are listed here.
//!
//! [`STRICTER`] lists what it accepts and we refuse. We accept and it refuses:
//!
//! * streamed strings and aggregates, which it hands out piece by piece, and with RESP3 the nulls
//!   of RESP2, which it mistakes for streamed values ([`has_streams`]);
//! * with RESP3, verbatim strings of other formats than `txt` and `mkd`, aggregates, big numbers
//!   and verbatim strings as keys or members, and attributes in front of a null or of other
//!   attributes: its types have no place for them. So when it refuses an input, that counts only
//!   for RESP2.
//!
//! We may already refuse an input that it finds incomplete.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use onetrip_engine::Violation;
use onetrip_redis::Value;
use onetrip_redis::scan::{Scan, ScanLimits, Scanner};
use onetrip_redis::value::ErrorValue;
use redis_protocol::resp2::types::OwnedFrame as Resp2;
use redis_protocol::resp3::types::{RangeFrame, VerbatimStringFormat};

use crate::input::{Input, contains};

/// What we refuse and it accepts, and why.
const STRICTER: &[(&str, &str)] = &[
    ("a length is not a number", "it takes signs: `+5`, `-0`, and in RESP3 `-1` for a stream"),
    ("a string is longer than its length", "it does not look at what ends a string"),
    ("a null has a value", "it does not look at the line of a null"),
    ("a big number is not an integer", "it does not look at the digits"),
    ("a verbatim string has no format", "it does not look for the colon"),
    ("a push is inside a reply", "pushes come between replies; it takes them anywhere"),
    ("a reply has an unknown type", "it takes HELLO, and chunks and ends of streams anywhere"),
    ("a string in chunks is interrupted", "to it `$?` is a frame"),
    ("the end of a streamed aggregate came without one", "to it `.` is a frame"),
    ("the end of an aggregate has a value", "it does not look at the line of `.`"),
    ("attributes have no value", "to it `.` is one"),
];

/// How many bytes of an input may open an aggregate: its only limit of depth is the stack.
const OPENING_MAX: usize = 64;

/// Whether it is RESP3, then the bytes.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (is_resp3, bytes) = (input.flag(), input.rest());
    if bytes.iter().filter(|byte| b"*~%>|".contains(byte)).count() > OPENING_MAX {
        return;
    }
    let ours = ours(bytes);
    match is_resp3 {
        true => resp3(bytes, ours),
        false => resp2(bytes, ours),
    }
}

/// The reply's length in bytes and its value; `None` if it is not whole.
type Ours = Result<Option<(usize, Value)>, Violation>;

fn ours(bytes: &[u8]) -> Ours {
    Ok(match Scanner::new(ScanLimits::default()).scan(bytes)? {
        Scan::Need(_) => None,
        Scan::Whole { len, .. } => {
            let (value, read) = Value::read(&Bytes::copy_from_slice(bytes)).unwrap();
            assert_eq!(read, len);
            Some((len, value))
        }
    })
}

fn resp3(bytes: &[u8], ours: Ours) {
    let theirs = redis_protocol::resp3::decode::complete::decode_range(bytes);
    match (ours, theirs) {
        (Ok(Some((len, value))), Ok(Some((frame, end)))) => {
            assert_eq!(len, end);
            same(&value, &of_range(bytes, &frame));
        }
        (Ok(found), Ok(theirs)) => assert!(found.is_none() && theirs.is_none(), "{found:?}"),
        (Ok(_), Err(_)) => {}
        (Err(violation), Ok(Some(_))) => assert_stricter(violation),
        (Err(_), _) => {}
    }
}

fn resp2(bytes: &[u8], ours: Ours) {
    let theirs = redis_protocol::resp2::decode::decode(bytes);
    match (ours, theirs) {
        (Ok(Some((len, value))), Ok(Some((frame, end)))) => {
            assert_eq!(len, end);
            same(&value, &of_resp2(frame));
        }
        (Ok(Some((len, _))), Err(error)) => {
            let only_in_resp3 = |byte| b"_,#(!=%~|>".contains(byte);
            let reply = &bytes[..len];
            let text = std::str::from_utf8(reply).is_err();
            let known = reply.iter().any(only_in_resp3) || has_streams(reply) || text;
            assert!(known, "{error:?}");
        }
        (Ok(Some(found)), Ok(None)) => panic!("{found:?} is not whole to it"),
        (Ok(None), Ok(Some(frame))) => panic!("{frame:?} is not whole to us"),
        (Err(violation), Ok(Some(_))) => assert_stricter(violation),
        _ => {}
    }
}

fn has_streams(bytes: &[u8]) -> bool {
    contains(bytes, b"?\r\n")
}

fn assert_stricter(violation: Violation) {
    let known = STRICTER.iter().any(|(why, _)| *why == violation.0);
    assert!(known, "only we refuse: {violation}");
}

/// Whether the two values are equal. The other parser keeps no order in sets and maps, and only one
/// of several equal keys.
fn same(ours: &Value, theirs: &Value) {
    match (ours, theirs) {
        (Value::Array(ours), Value::Array(theirs)) | (Value::Push(ours), Value::Push(theirs)) => {
            assert_eq!(ours.len(), theirs.len());
            ours.iter().zip(theirs).for_each(|(ours, theirs)| same(ours, theirs));
        }
        (Value::Set(ours), Value::Set(theirs)) => {
            assert_eq!(written(ours.iter()), written(theirs.iter()));
        }
        (Value::Map(ours), Value::Map(theirs)) => {
            let keys = |entries: &[(Value, Value)]| written(entries.iter().map(|(key, _)| key));
            assert_eq!(keys(ours), keys(theirs));
            for (key, value) in theirs {
                assert!(ours.iter().any(|entry| write(&entry.0) == write(key)
                    && canonical(&entry.1) == canonical(value)));
            }
        }
        _ => assert_eq!(write(ours), write(theirs)),
    }
}

fn write(value: &Value) -> BytesMut {
    let mut out = BytesMut::new();
    value.write_resp3(&mut out);
    out
}

fn written<'a>(values: impl Iterator<Item = &'a Value>) -> BTreeSet<BytesMut> {
    values.map(write).collect()
}

/// The value with its sets and maps sorted and without duplicates.
fn canonical(value: &Value) -> Value {
    let all = |items: &[Value]| items.iter().map(canonical).collect::<Vec<_>>();
    match value {
        Value::Array(items) => Value::Array(all(items)),
        Value::Push(items) => Value::Push(all(items)),
        Value::Set(items) => Value::Array(sorted(all(items))),
        Value::Map(entries) => {
            let keys = entries.iter().map(|(key, _)| canonical(key)).collect();
            Value::Array(sorted(keys))
        }
        Value::Double(number) if number.is_nan() => Value::Nil,
        other => other.clone(),
    }
}

fn sorted(mut items: Vec<Value>) -> Vec<Value> {
    items.sort_by_key(write);
    items.dedup_by_key(|item| write(item));
    items
}

fn of_resp2(frame: Resp2) -> Value {
    match frame {
        Resp2::SimpleString(text) => Value::Simple(text.into()),
        Resp2::Error(text) => Value::Error(ErrorValue::new(text)),
        Resp2::Integer(number) => Value::Int(number),
        Resp2::BulkString(text) => Value::Bulk(text.into()),
        Resp2::Array(items) => Value::Array(items.into_iter().map(of_resp2).collect()),
        Resp2::Null => Value::Nil,
    }
}

fn of_range(bytes: &[u8], frame: &RangeFrame) -> Value {
    let text = |&(from, to): &(usize, usize)| Bytes::copy_from_slice(&bytes[from..to]);
    let all = |items: &[RangeFrame]| items.iter().map(|item| of_range(bytes, item)).collect();
    match frame {
        RangeFrame::SimpleString { data, .. } => Value::Simple(text(data)),
        RangeFrame::SimpleError { data, .. } | RangeFrame::BlobError { data, .. } => {
            Value::Error(ErrorValue::new(text(data)))
        }
        RangeFrame::BlobString { data, .. } => Value::Bulk(text(data)),
        RangeFrame::Number { data, .. } => Value::Int(*data),
        RangeFrame::Double { data, .. } => Value::Double(*data),
        RangeFrame::Boolean { data, .. } => Value::Bool(*data),
        RangeFrame::Null => Value::Nil,
        RangeFrame::BigNumber { data, .. } => Value::BigNumber(text(data)),
        RangeFrame::VerbatimString { data, format, .. } => Value::Verbatim {
            format: match format {
                VerbatimStringFormat::Text => *b"txt",
                VerbatimStringFormat::Markdown => *b"mkd",
            },
            text: text(data),
        },
        RangeFrame::Array { data, .. } => Value::Array(all(data)),
        RangeFrame::Push { data, .. } => Value::Push(all(data)),
        RangeFrame::Set { data, .. } => {
            Value::Set(data.iter().map(|item| of_range(bytes, item)).collect())
        }
        RangeFrame::Map { data, .. } => {
            let entry = |(key, value)| (of_range(bytes, key), of_range(bytes, value));
            Value::Map(data.iter().map(entry).collect())
        }
        RangeFrame::ChunkedString(_) | RangeFrame::Hello { .. } => panic!("we refuse {frame:?}"),
    }
}
