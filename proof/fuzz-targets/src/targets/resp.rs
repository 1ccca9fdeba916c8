//! Replies of RESP2 and RESP3: a stream of a server, cut anywhere, and what is made of each reply.

use std::collections::{BTreeSet, HashMap};

use bytes::{Bytes, BytesMut};
use onetrip::redis::{ErrorValue, FromReply};
use onetrip_engine::Violation;
use onetrip_redis::scan::{Scan, ScanLimits, Scanner};
use onetrip_redis::{Reply, Value};

use crate::input::{Input, cut, show, show_debug};

/// What the scanner found: kind, attributes and bytes of each reply, and why it stopped.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    replies: Vec<(u8, usize, usize)>,
    end: Option<Violation>,
}

/// A byte of plan and one of how the host behaves, then the stream.
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

/// A host that takes off what was seen, or that keeps it until a reply is whole.
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

/// Where a reply began of which so much was taken off: it can't be known if that was a part of it.
fn attributes(start: usize, gone: usize) -> usize {
    if start == 0 { 0 } else { start + gone }
}

/// Where a reply begins is compared by what is read of it: a host that takes off forgets it.
fn without_starts(mut found: Found) -> Found {
    found.replies.iter_mut().for_each(|(_, start, _)| *start = 0);
    found
}

/// What is whole can be read, and what is written of it says the same.
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

/// What nobody has looked at may be anything.
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
