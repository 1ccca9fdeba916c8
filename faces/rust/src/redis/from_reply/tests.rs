#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Debug;

use super::*;
use onetrip_redis::value::SLICE_MIN;

fn convert<T: FromReply>(bytes: &str) -> Result<T, Mismatch> {
    let block = Bytes::copy_from_slice(bytes.as_bytes());
    let (reply, rest) = ReplyView::read(&block).unwrap();
    assert_eq!(rest, b"");
    T::from_reply(reply, &block)
}

/// Each of these replies converts to this value.
fn assert_all<T: FromReply + Debug + PartialEq>(expected: &T, replies: &[&str]) {
    for reply in replies {
        assert_eq!(&convert::<T>(reply).unwrap(), expected, "{reply:?}");
    }
}

/// The reply does not convert, and the error has this text.
fn assert_not<T: FromReply + Debug>(reply: &str, said: &str) {
    assert_eq!(convert::<T>(reply).unwrap_err().to_string(), said, "{reply:?}");
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| text.to_string()).collect()
}

#[test]
fn anything_but_an_error_is_the_unit() {
    assert_all(&(), &["+OK\r\n", "_\r\n", ":1\r\n", "*1\r\n-ERR\r\n", "#f\r\n"]);
    assert_not::<()>("-ERR no\r\n", "the error ERR");
}

#[test]
fn booleans_of_both_protocols() {
    assert_all(&true, &[":1\r\n", "#t\r\n", "+OK\r\n"]);
    assert_all(&false, &[":0\r\n", "#f\r\n"]);
    assert_not::<bool>(":2\r\n", "an integer other than 0 and 1 where a boolean was expected");
    assert_not::<bool>("+NO\r\n", "a simple string where a boolean was expected");
    assert_not::<bool>("_\r\n", "nil where a boolean was expected");
}

#[test]
fn integers_of_every_width_and_from_text() {
    assert_all(&-5_i8, &[":-5\r\n", "$2\r\n-5\r\n", "+-5\r\n", "(-5\r\n"]);
    assert_all(&200_u8, &[":200\r\n", "$3\r\n200\r\n"]);
    assert_all(&i64::MIN, &[":-9223372036854775808\r\n", "$20\r\n-9223372036854775808\r\n"]);
    assert_all(&u64::MAX, &["$20\r\n18446744073709551615\r\n", "(18446744073709551615\r\n"]);
    assert_all(&(1_u128 << 100), &["(1267650600228229401496703205376\r\n"]);
    assert_all(&3_usize, &[":3\r\n"]);
    assert_all(&-3_isize, &[":-3\r\n"]);
    assert_all(&(7_i16, 7_i32, 7_i128, 7_u16, 7_u32), &["*5\r\n:7\r\n:7\r\n:7\r\n:7\r\n:7\r\n"]);
}

#[test]
fn integers_that_do_not_fit_are_refused() {
    let out_of_range = "an integer out of range where an integer (u8) was expected";
    assert_not::<u8>(":256\r\n", out_of_range);
    assert_not::<u8>(":-1\r\n", out_of_range);
    let none = "a bulk string that does not parse where an integer (i64) was expected";
    assert_not::<i64>("$3\r\nabc\r\n", none);
    assert_not::<i64>("$0\r\n\r\n", none);
    assert_not::<i64>("$19\r\n9223372036854775808\r\n", none);
    assert_not::<i64>(",1.0\r\n", "a double where an integer (i64) was expected");
    assert_not::<i64>("_\r\n", "nil where an integer (i64) was expected");
    assert_not::<i64>("*0\r\n", "an array of 0 where an integer (i64) was expected");
}

#[test]
fn floats_of_both_protocols() {
    assert_all(&1.5_f64, &[",1.5\r\n", "$3\r\n1.5\r\n", "+1.5\r\n"]);
    assert_all(&1.5_f32, &[",1.5\r\n", "$3\r\n1.5\r\n"]);
    assert_all(&3.0_f64, &[":3\r\n", "$1\r\n3\r\n"]);
    assert_all(&f64::INFINITY, &[",inf\r\n", "$3\r\ninf\r\n"]);
    assert!(convert::<f64>(",nan\r\n").unwrap().is_nan());
    assert!(convert::<f64>("$4\r\n-nan\r\n").unwrap().is_nan());
    assert_not::<f64>(
        "$1\r\nx\r\n",
        "a bulk string that does not parse where a number was expected",
    );
    assert_not::<f64>("#t\r\n", "a boolean where a number was expected");
}

#[test]
fn strings_are_checked_for_utf_8() {
    let expected = String::from("hé");
    assert_all(&expected, &["$3\r\nhé\r\n", "+hé\r\n", "=7\r\ntxt:hé\r\n"]);
    assert_all(&expected, &["$?\r\n;1\r\nh\r\n;2\r\né\r\n;0\r\n"]);
    assert_all(&String::from("12"), &["(12\r\n"]);
    assert_not::<String>(":12\r\n", "an integer where a string was expected");
    let block = Bytes::from_static(b"$1\r\n\xff\r\n");
    let (reply, _) = ReplyView::read(&block).unwrap();
    let why = String::from_reply(reply, &block).unwrap_err().to_string();
    assert_eq!(why, "a bulk string that is not UTF-8 where text was expected");
}

#[test]
fn bytes_are_any_bytes() {
    let block = Bytes::from_static(b"$4\r\n\xff\0\r\n\r\n");
    let (reply, _) = ReplyView::read(&block).unwrap();
    let expected = b"\xff\0\r\n";
    assert_eq!(Vec::<u8>::from_reply(reply.clone(), &block).unwrap(), expected);
    assert_eq!(<[u8; 4]>::from_reply(reply.clone(), &block).unwrap(), *expected);
    assert_eq!(Bytes::from_reply(reply, &block).unwrap(), expected.as_slice());
    assert_all(&vec![1_u8, 2], &["*2\r\n:1\r\n:2\r\n"]);
    assert_all(&vec![b"a".to_vec(), vec![]], &["*2\r\n$1\r\na\r\n$0\r\n\r\n"]);
    assert_not::<Vec<u8>>(":1\r\n", "an integer where a string was expected");
    let two = "a bulk string of another length where an array of 2 was expected";
    assert_not::<[u8; 2]>("$1\r\na\r\n", two);
}

#[test]
fn long_bytes_are_slices_of_their_block() {
    for (len, shared) in [(SLICE_MIN, true), (SLICE_MIN - 1, false)] {
        let block = Bytes::from(format!("*1\r\n${len}\r\n{}\r\n", "x".repeat(len)));
        let (reply, _) = ReplyView::read(&block).unwrap();
        let list = Vec::<Bytes>::from_reply(reply, &block).unwrap();
        assert_eq!(list[0].len(), len);
        assert_eq!(block.as_ptr_range().contains(&list[0].as_ptr()), shared);
    }
}

#[test]
fn nil_is_none() {
    assert_all(&None::<i64>, &["_\r\n", "$-1\r\n", "*-1\r\n"]);
    assert_all(&Some(1), &[":1\r\n"]);
    assert_all(&vec![Some(1), None], &["*2\r\n:1\r\n$-1\r\n"]);
    assert_all(&None::<Vec<String>>, &["*-1\r\n"]);
    assert_not::<Option<i64>>(
        "+x\r\n",
        "a simple string that does not parse where an integer (i64) was expected",
    );
    assert_not::<Vec<i64>>("*-1\r\n", "nil where an array was expected");
    assert_not::<Vec<i64>>("*1\r\n_\r\n", "nil where an integer (i64) was expected");
}

#[test]
fn lists_and_sets_take_every_aggregate() {
    let replies =
        ["*2\r\n:1\r\n:2\r\n", "~2\r\n:1\r\n:2\r\n", "%1\r\n:1\r\n:2\r\n", ">2\r\n:1\r\n:2\r\n"];
    assert_all(&vec![1, 2], &replies);
    assert_all(&[1, 2], &replies);
    assert_all(&HashSet::from([1, 2]), &replies);
    assert_all(&BTreeSet::from([1, 2]), &replies);
    assert_all(&vec![1, 2], &["*?\r\n:1\r\n:2\r\n.\r\n"]);
    assert_all(&vec![vec![1], vec![]], &["*2\r\n*1\r\n:1\r\n*0\r\n"]);
    assert_not::<Vec<i64>>(":1\r\n", "an integer where an array was expected");
    let three = "an array of 2 of another length where an array of 3 was expected";
    assert_not::<[i64; 3]>(replies[0], three);
}

#[test]
fn maps_of_both_protocols() {
    let flat = "*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:2\r\n";
    let map = "%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n";
    let nested = "*2\r\n*2\r\n+a\r\n:1\r\n*2\r\n+b\r\n:2\r\n";
    let streamed = "%?\r\n+a\r\n:1\r\n+b\r\n:2\r\n.\r\n";
    let replies = [flat, map, nested, streamed];
    let entries = [(String::from("a"), 1), (String::from("b"), 2)];
    assert_all(&HashMap::from(entries.clone()), &replies);
    assert_all(&BTreeMap::from(entries.clone()), &replies);
    assert_all(&entries.to_vec(), &replies);
    assert_all(&entries, &replies);
    assert_all(&HashMap::<String, i64>::new(), &["*0\r\n", "%0\r\n", "*?\r\n.\r\n"]);
}

#[test]
fn what_is_no_map_is_refused() {
    type Map = HashMap<String, String>;
    assert_not::<Map>(":1\r\n", "an integer where a map was expected");
    assert_not::<Map>("_\r\n", "nil where a map was expected");
    let odd = "an array of 3 of another length where a map was expected";
    assert_not::<Map>("*3\r\n+a\r\n+b\r\n+c\r\n", odd);
    let single = "an array of 1 of another length where an array of 2 was expected";
    assert_not::<Map>("*2\r\n*1\r\n+a\r\n*2\r\n+a\r\n+b\r\n", single);
    assert_not::<Map>(
        "*2\r\n*2\r\n+a\r\n+b\r\n+c\r\n",
        "a simple string where an array of 2 was expected",
    );
}

#[test]
fn members_with_scores_of_both_protocols() {
    let expected = vec![(String::from("a"), 1.5), (String::from("b"), 2.0)];
    let flat = "*4\r\n$1\r\na\r\n$3\r\n1.5\r\n$1\r\nb\r\n$1\r\n2\r\n";
    let nested = "*2\r\n*2\r\n$1\r\na\r\n,1.5\r\n*2\r\n$1\r\nb\r\n,2\r\n";
    assert_all(&expected, &[flat, nested]);
    assert_all(
        &Some((String::from("key"), expected)),
        &[
            "*2\r\n$3\r\nkey\r\n*4\r\n$1\r\na\r\n$3\r\n1.5\r\n$1\r\nb\r\n$1\r\n2\r\n",
            "*2\r\n$3\r\nkey\r\n*2\r\n*2\r\n$1\r\na\r\n,1.5\r\n*2\r\n$1\r\nb\r\n,2\r\n",
        ],
    );
}

#[test]
fn entries_of_a_stream_are_nested_pairs() {
    type Entries = Vec<(String, BTreeMap<String, String>)>;
    let fields = BTreeMap::from([(String::from("k"), String::from("v"))]);
    let entries = vec![(String::from("1-1"), fields)];
    assert_all::<Entries>(&entries, &["*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nk\r\n$1\r\nv\r\n"]);
    let streams = BTreeMap::from([(String::from("s"), entries)]);
    assert_all::<BTreeMap<String, Entries>>(
        &streams,
        &[
            "*1\r\n*2\r\n+s\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nk\r\n$1\r\nv\r\n",
            "%1\r\n+s\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nk\r\n$1\r\nv\r\n",
        ],
    );
}

#[test]
fn tuples_have_as_many_items_as_they_say() {
    assert_all(&(1,), &["*1\r\n:1\r\n"]);
    assert_all(&(1, String::from("a"), None::<f64>), &["*3\r\n:1\r\n+a\r\n_\r\n"]);
    let twelve = format!("*12\r\n{}", ":1\r\n".repeat(12));
    assert_all(&(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), &[&twelve]);
    assert_all(&(String::from("0"), texts(&["a", "b"])), &["*2\r\n$1\r\n0\r\n*2\r\n+a\r\n+b\r\n"]);
    let two = "an array of 3 of another length where an array of 2 was expected";
    assert_not::<(i64, i64)>("*3\r\n:1\r\n:2\r\n:3\r\n", two);
    assert_not::<(i64, i64)>(":1\r\n", "an integer where an array of 2 was expected");
    assert_not::<(i64, i64)>(
        "*2\r\n:1\r\n+x\r\n",
        "a simple string that does not parse where an integer (i64) was expected",
    );
}

#[test]
fn lists_of_larger_tuples_are_nested_or_flat() {
    let expected = vec![(1, 2, 3), (4, 5, 6)];
    let flat = "*6\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n";
    let nested = "*2\r\n*3\r\n:1\r\n:2\r\n:3\r\n*3\r\n:4\r\n:5\r\n:6\r\n";
    assert_all(&expected, &[flat, nested]);
    let odd = "an array of 4 of another length where an array of tuples was expected";
    assert_not::<Vec<(i64, i64, i64)>>("*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", odd);
    let map = "a map of 1 where an array of tuples was expected";
    assert_not::<Vec<(i64, i64, i64)>>("%1\r\n:1\r\n:2\r\n", map);
}

#[test]
fn an_error_inside_fails_the_whole_unless_it_is_asked_for() {
    let reply = "*2\r\n:1\r\n-WRONGTYPE Operation against a key\r\n";
    let mismatch = convert::<Vec<i64>>(reply).unwrap_err();
    assert_eq!(mismatch.to_string(), "the error WRONGTYPE");
    assert_eq!(mismatch.server().unwrap().message(), b"Operation against a key");
    let list = convert::<Vec<Result<i64, ErrorValue>>>(reply).unwrap();
    assert_eq!(list[0], Ok(1));
    assert_eq!(list[1].as_ref().unwrap_err().reply().code(), b"WRONGTYPE");
    assert!(matches!(convert::<Value>(reply), Ok(Value::Array(items)) if items.len() == 2));
    assert!(convert::<Vec<i64>>("*1\r\n+x\r\n").unwrap_err().server().is_none());
}

#[test]
fn a_mismatch_shows_no_value() {
    let reply = "*1\r\n-ERR unknown command 'x', with args beginning with: 'secret'\r\n";
    let mismatch = convert::<Vec<i64>>(reply).unwrap_err();
    assert_eq!(format!("{mismatch:?} {mismatch}"), "Mismatch(the error ERR) the error ERR");
    let mismatch = convert::<i64>("$6\r\nsecret\r\n").unwrap_err();
    assert!(!format!("{mismatch:?} {mismatch}").contains("secret"));
}

#[test]
fn a_value_is_anything() {
    let map = Value::Map(vec![(Value::Simple("a".into()), Value::Double(1.0))]);
    assert_all(&map, &["%1\r\n+a\r\n,1\r\n"]);
    assert_all(&Value::Nil, &["$-1\r\n"]);
    let deep = format!("{}_\r\n", "*1\r\n".repeat(1000));
    assert_not::<Value>(&deep, "an array of 1 nested too deep where a value was expected");
}

#[test]
fn errors_name_the_command_and_what_it_answered() {
    let decoded = |bytes: &'static str| {
        crate::redis::decode::decode::<HashMap<String, String>>(&Bytes::from(bytes), "HGETALL")
    };
    let error = decoded(":1\r\n").unwrap_err();
    assert_eq!(error.to_string(), "HGETALL answered an integer where a map was expected");
    assert_eq!(error.kind(), crate::Kind::Conversion);
    let error = decoded("*2\r\n+a\r\n-ERR inside\r\n").unwrap_err();
    assert_eq!((error.kind(), error.redis_code()), (crate::Kind::Server, Some("ERR")));
    let error = decoded("*2\r\n+a\r\n").unwrap_err();
    assert_eq!(error.to_string(), "the reply to HGETALL can't be read: a reply is not whole");
}
