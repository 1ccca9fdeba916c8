//! Replies of RESP2 and RESP3: a server's stream, cut anywhere, and how each reply is read.

use std::collections::{BTreeSet, HashMap};

use bytes::{Bytes, BytesMut};
use onetrip::redis::{ErrorValue, FromReply};
use onetrip_engine::Violation;
use onetrip_redis::scan::{Scan, ScanLimits, Scanner};
use onetrip_redis::{Reply, Value};

use crate::input::{Input, cut, show, show_debug};

/// What the scanner found: the kind, the attributes and the bytes of each reply, and why it
/// stopped.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    replies: Vec<(u8, usize, usize)>,
    end: Option<Violation>,
}

/// A byte with the plan of the cuts, one with the behaviour of the host, then the stream.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (plan, host) = (input.u8(), input.u8());
    let stream = input.rest();
    let limits = limits(host & 1 == 1);
    let found = scan(0, false, stream, &limits);
    assert_eq!(scan(plan, host & 2 == 2, stream, &limits), found);
    let mut at = 0;
    for (_, _, len) in &found.replies {
        read_whole(&stream[at..at + len]);
        at += len;
    }
    read_any(&stream[at..]);
}

fn limits(small: bool) -> ScanLimits {
    match small {
        false => ScanLimits::default(),
        true => ScanLimits {
            depth_max: 4,
            line_bytes_max: 24,
            string_bytes_max: 64,
            items_max: 12,
            ..ScanLimits::default()
        },
    }
}

/// Scans the stream as a host that removes the bytes already scanned, or as one that keeps them
/// until a reply is whole.
fn scan(plan: u8, takes_off: bool, stream: &[u8], limits: &ScanLimits) -> Found {
    let (mut scanner, mut found) = (Scanner::new(limits.clone()), Found::default());
    let (mut buffer, mut gone) = (Vec::new(), 0);
    for chunk in cut(plan, stream) {
        buffer.extend_from_slice(chunk);
        loop {
            match scanner.scan(&buffer) {
                Ok(Scan::Whole { len, start, kind }) => {
                    let attributes = if gone == 0 { start } else { attributes(start, gone) };
                    found.replies.push((kind, attributes, len + gone));
                    gone = 0;
                    buffer.drain(..len);
                }
                Ok(Scan::Need(need)) => {
                    assert!(need > buffer.len());
                    break;
                }
                Err(violation) => {
                    found.end = Some(violation);
                    return without_starts(found);
                }
            }
        }
        let seen = scanner.seen();
        assert!(seen <= buffer.len());
        if takes_off {
            scanner.consumed(seen);
            gone += seen;
            buffer.drain(..seen);
        }
    }
    without_starts(found)
}

/// How long the attributes are if so many bytes were removed: unknown if those were a part of the
/// reply.
fn attributes(start: usize, gone: usize) -> usize {
    if start == 0 { 0 } else { start + gone }
}

/// The result without the places where replies begin: a host that removes bytes does not know them.
fn without_starts(mut found: Found) -> Found {
    found.replies.iter_mut().for_each(|(_, start, _)| *start = 0);
    found
}

/// A whole reply can be read, and writing it gives the same value again.
fn read_whole(bytes: &[u8]) {
    let block = Bytes::copy_from_slice(bytes);
    let (attributes, reply, rest) = Reply::read_with_attributes(&block).unwrap();
    assert!(rest.is_empty());
    show(reply.kind());
    attributes.for_each(show_debug);
    convert(&reply, &block);
    let (value, len) = Value::read(&block).unwrap();
    assert_eq!(len, bytes.len());
    let written = resp3(&value);
    let (again, len) = Value::read(&written).unwrap();
    assert_eq!((resp3(&again), len), (written.clone(), written.len()));
    let mut out = BytesMut::new();
    value.write_resp2(&mut out);
    let (_, rest) = Reply::read(&out).unwrap();
    assert!(rest.is_empty());
}

fn resp3(value: &Value) -> Bytes {
    let mut out = BytesMut::new();
    value.write_resp3(&mut out);
    out.freeze()
}

/// Reads bytes that the scanner has not checked: they may be anything.
fn read_any(bytes: &[u8]) {
    match Reply::read(bytes) {
        Ok((reply, _)) => convert(&reply, &Bytes::new()),
        Err(malformed) => show(malformed),
    }
}

fn convert(reply: &Reply<'_>, block: &Bytes) {
    to::<()>(reply, block);
    to::<bool>(reply, block);
    to::<i64>(reply, block);
    to::<f32>(reply, block);
    to::<String>(reply, block);
    to::<Vec<u8>>(reply, block);
    to::<[u8; 3]>(reply, block);
    to::<Vec<Option<Bytes>>>(reply, block);
    to::<Vec<Result<Value, ErrorValue>>>(reply, block);
    to::<BTreeSet<String>>(reply, block);
    to::<HashMap<String, Vec<String>>>(reply, block);
    to::<Vec<(String, f64)>>(reply, block);
    to::<(i64, String, Option<u8>)>(reply, block);
    to::<Vec<(i64, String, Option<u8>)>>(reply, block);
}

fn to<T: FromReply>(reply: &Reply<'_>, block: &Bytes) {
    if let Err(mismatch) = T::from_reply(reply.clone(), block) {
        show(mismatch);
    }
}
