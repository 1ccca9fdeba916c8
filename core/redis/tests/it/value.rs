//! Owned values: read from replies, and written in the server's format.

use crate::replies::{REFUSED, WHOLE};
use bytes::{Bytes, BytesMut};
use onetrip_redis::value::{DEPTH_MAX, ErrorValue, SLICE_MIN, slice};
use onetrip_redis::{Reply, Value};

fn read(bytes: &[u8]) -> Value {
    let (value, len) = Value::read(&Bytes::copy_from_slice(bytes)).unwrap();
    assert_eq!(len, bytes.len());
    value
}

fn resp3(value: &Value) -> BytesMut {
    let mut out = BytesMut::new();
    value.write_resp3(&mut out);
    out
}

fn resp2(value: &Value) -> BytesMut {
    let mut out = BytesMut::new();
    value.write_resp2(&mut out);
    out
}

#[test]
fn what_is_written_as_resp3_reads_as_the_same() {
    for reply in WHOLE {
        let value = read(reply);
        let written = resp3(&value);
        let again = read(&written);
        // NaN is not equal to itself, so its text is compared.
        assert_eq!(resp3(&again), written, "{}", reply.escape_ascii());
        assert!(again == value || format!("{value:?}").contains("NaN"), "{value:?}");
    }
}

#[test]
fn what_is_written_as_resp2_can_be_read() {
    for reply in WHOLE {
        let written = resp2(&read(reply));
        assert!(written.iter().next().is_some_and(|kind| b"+-:$*".contains(kind)));
        assert_eq!(resp2(&read(&written)), written, "{}", reply.escape_ascii());
    }
}

#[test]
fn what_is_inside_is_made_into_what_it_is() {
    let entry = (Value::Int(1), Value::Set(vec![Value::Int(2)]));
    let expected = Value::Array(vec![
        Value::Set(vec![Value::Int(1)]),
        Value::Map(vec![entry]),
        Value::Array(vec![Value::Bool(true)]),
        Value::Bulk(Bytes::from_static(b"ab")),
        Value::Set(vec![]),
    ]);
    let bytes = b"*5\r\n~1\r\n|1\r\n+a\r\n_\r\n:1\r\n%1\r\n:1\r\n~1\r\n:2\r\n*1\r\n#t\r\n$2\r\nab\r\n~0\r\n";
    assert_eq!(read(bytes), expected);
    let streamed = b"*?\r\n~?\r\n:1\r\n.\r\n%?\r\n:1\r\n~1\r\n:2\r\n.\r\n*1\r\n#t\r\n$?\r\n;1\r\na\r\n;1\r\nb\r\n;0\r\n~?\r\n.\r\n.\r\n";
    assert_eq!(read(streamed), expected);
    let push = Value::Push(vec![Value::Array(vec![])]);
    assert_eq!(read(b">1\r\n*0\r\n"), push);
}

#[test]
fn every_type_has_its_form_in_both() {
    let text = |text: &'static str| Bytes::from_static(text.as_bytes());
    for (value, three, two) in [
        (Value::Nil, "_\r\n", "$-1\r\n"),
        (Value::Simple(text("OK")), "+OK\r\n", "+OK\r\n"),
        (Value::Error(ErrorValue::new("ERR no")), "-ERR no\r\n", "-ERR no\r\n"),
        (Value::Error(ErrorValue::new("ERR\r\n")), "!5\r\nERR\r\n\r\n", "-ERR  \r\n"),
        (Value::Int(-5), ":-5\r\n", ":-5\r\n"),
        (Value::Bulk(text("a\r\nb")), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
        (Value::Double(0.5), ",0.5\r\n", "$3\r\n0.5\r\n"),
        (Value::Double(f64::NEG_INFINITY), ",-inf\r\n", "$4\r\n-inf\r\n"),
        (Value::Double(f64::NAN), ",nan\r\n", "$3\r\nnan\r\n"),
        (Value::Double(1e300), ",1e300\r\n", "$5\r\n1e300\r\n"),
        (Value::Bool(true), "#t\r\n", ":1\r\n"),
        (Value::Bool(false), "#f\r\n", ":0\r\n"),
        (Value::BigNumber(text("-12")), "(-12\r\n", "$3\r\n-12\r\n"),
        (Value::Verbatim { format: *b"txt", text: text("hi") }, "=6\r\ntxt:hi\r\n", "$2\r\nhi\r\n"),
        (Value::Array(vec![Value::Nil]), "*1\r\n_\r\n", "*1\r\n$-1\r\n"),
        (Value::Set(vec![Value::Int(1)]), "~1\r\n:1\r\n", "*1\r\n:1\r\n"),
        (Value::Push(vec![Value::Int(1)]), ">1\r\n:1\r\n", "*1\r\n:1\r\n"),
        (
            Value::Map(vec![(Value::Int(1), Value::Int(2))]),
            "%1\r\n:1\r\n:2\r\n",
            "*2\r\n:1\r\n:2\r\n",
        ),
    ] {
        assert_eq!(resp3(&value), three, "{value:?}");
        assert_eq!(resp2(&value), two, "{value:?}");
    }
}

#[test]
fn a_line_never_holds_the_end_of_one() {
    let value = Value::Simple(Bytes::from_static(b"OK\r\n+OK"));
    assert_eq!(resp3(&value), "+OK  +OK\r\n");
    assert_eq!(resp2(&value), "+OK  +OK\r\n");
}

#[test]
fn doubles_read_back_as_the_same_number() {
    for number in [0.0, -0.0, 1.0, 0.1, 1e-5, 9.9e-6, 1e17, 1.5e16, f64::MAX, f64::MIN_POSITIVE] {
        let written = resp3(&Value::Double(number));
        assert!(written.len() < 30, "{written:?}");
        assert_eq!(read(&written), Value::Double(number));
    }
}

#[test]
fn a_long_string_is_a_slice_of_its_block_and_a_short_one_is_not() {
    for (len, shared) in [(SLICE_MIN - 1, false), (SLICE_MIN, true)] {
        let reply = Value::Array(vec![Value::Bulk(Bytes::from(vec![b'x'; len]))]);
        let block = resp3(&reply).freeze();
        let (Value::Array(items), _) = Value::read(&block).unwrap() else { panic!("no array") };
        let Value::Bulk(text) = &items[0] else { panic!("no string") };
        assert_eq!(text.len(), len);
        assert_eq!(block.as_ptr_range().contains(&text.as_ptr()), shared, "{len} bytes");
    }
}

#[test]
fn what_does_not_lie_in_a_block_is_copied() {
    let bytes = vec![b'x'; 2 * SLICE_MIN];
    assert_eq!(slice(&Bytes::new(), &bytes), bytes);
    assert_eq!(slice(&Bytes::from(vec![b'y'; SLICE_MIN]), &bytes), bytes);
}

#[test]
fn what_is_nested_too_deep_is_refused_and_takes_no_stack() {
    let nested = |depth| [&b"*1\r\n".repeat(depth)[..], b"_\r\n"].concat();
    assert!(Value::read(&nested(DEPTH_MAX).into()).is_ok());
    assert!(Value::read(&nested(DEPTH_MAX + 1).into()).is_err());
    let deep = nested(100_000);
    let (reply, rest) = Reply::read(&deep).unwrap();
    assert_eq!((reply.kind().to_string().as_str(), rest), ("array of 1", &b""[..]));
    assert!(Value::read(&deep.into()).is_err());
}

#[test]
fn what_is_malformed_is_no_value() {
    for (bytes, _) in REFUSED {
        assert!(Value::read(&Bytes::from_static(bytes)).is_err());
    }
}

#[test]
fn the_debug_of_an_error_shows_its_code_alone() {
    let value = read(b"*1\r\n-ERR unknown command 'x', with args beginning with: 'secret'\r\n");
    assert_eq!(format!("{value:?}"), "Array([Error(ErrorValue(ERR))])");
}
