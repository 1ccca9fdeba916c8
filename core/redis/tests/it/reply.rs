//! Views of replies: every type, nested values, and bytes that are not replies.

use crate::replies::{REFUSED, WHOLE};
use onetrip_redis::scan::{Scan, ScanLimits, Scanner};
use onetrip_redis::{Malformed, Reply};

fn read(bytes: &[u8]) -> Reply<'_> {
    let (reply, rest) = Reply::read(bytes).unwrap();
    assert_eq!(rest, b"", "{}", bytes.escape_ascii());
    reply
}

/// The type and the value of a reply, as text.
fn shown(reply: Reply<'_>) -> String {
    let text = |bytes: &[u8]| format!("{}", bytes.escape_ascii());
    match reply {
        Reply::Nil => "nil".into(),
        Reply::Simple(line) => format!("simple {}", text(line)),
        Reply::Error(error) => format!("error {}: {}", text(error.code()), text(error.message())),
        Reply::Int(number) => format!("{number}"),
        Reply::Bulk(bytes) => format!("\"{}\"", text(&bytes)),
        Reply::Double(number) => format!("{number:?}"),
        Reply::Bool(truth) => format!("{truth}"),
        Reply::BigNumber(digits) => format!("big {}", text(digits)),
        Reply::Verbatim { format, text: bytes } => format!("{}:{}", text(format), text(bytes)),
        Reply::Array(items) => format!("[{}]", joined(items.map(shown))),
        Reply::Set(items) => format!("{{{}}}", joined(items.map(shown))),
        Reply::Push(items) => format!("push [{}]", joined(items.map(shown))),
        Reply::Map(pairs) => format!("{{{}}}", joined(pairs.map(entry))),
    }
}

fn entry((key, value): (Reply<'_>, Reply<'_>)) -> String {
    format!("{} => {}", shown(key), shown(value))
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

#[test]
fn every_type_is_read_as_what_it_is() {
    for (bytes, expected) in [
        ("_\r\n", "nil"),
        ("$-1\r\n", "nil"),
        ("*-1\r\n", "nil"),
        ("+OK\r\n", "simple OK"),
        ("-ERR no such key\r\n", "error ERR: no such key"),
        ("!21\r\nSYNTAX invalid syntax\r\n", "error SYNTAX: invalid syntax"),
        ("-OOPS\r\n", "error OOPS: "),
        ("-\r\n", "error : "),
        (":-12\r\n", "-12"),
        (":+12\r\n", "12"),
        ("$6\r\na\r\nb\0c\r\n", "\"a\\r\\nb\\x00c\""),
        ("$0\r\n\r\n", "\"\""),
        (",1.5\r\n", "1.5"),
        (",-inf\r\n", "-inf"),
        (",-nan\r\n", "NaN"),
        (",nan(0x1)\r\n", "NaN"),
        (",-NAN()\r\n", "NaN"),
        ("#t\r\n", "true"),
        ("#f\r\n", "false"),
        ("(-349285029438502934850293458\r\n", "big -349285029438502934850293458"),
        ("=15\r\ntxt:Some string\r\n", "txt:Some string"),
        ("*0\r\n", "[]"),
        ("*2\r\n:1\r\n*2\r\n$-1\r\n+x\r\n", "[1, [nil, simple x]]"),
        ("~2\r\n:1\r\n#t\r\n", "{1, true}"),
        (">2\r\n+message\r\n:1\r\n", "push [simple message, 1]"),
        ("%2\r\n+a\r\n:1\r\n+b\r\n%1\r\n_\r\n*0\r\n", "{simple a => 1, simple b => {nil => []}}"),
        ("$?\r\n;4\r\nHell\r\n;1\r\no\r\n;0\r\n", "\"Hello\""),
        ("*?\r\n:1\r\n~?\r\n:2\r\n.\r\n%?\r\n.\r\n.\r\n", "[1, {2}, {}]"),
        ("*2\r\n*?\r\n*2\r\n:1\r\n:2\r\n.\r\n:3\r\n", "[[[1, 2]], 3]"),
        ("%?\r\n+a\r\n:1\r\n.\r\n", "{simple a => 1}"),
    ] {
        assert_eq!(shown(read(bytes.as_bytes())), expected, "{}", bytes.escape_debug());
    }
}

#[test]
fn what_comes_behind_a_reply_is_returned() {
    for reply in WHOLE {
        let bytes = [reply, &b"+more\r\n"[..]].concat();
        let (_, rest) = Reply::read(&bytes).unwrap();
        assert_eq!(rest, b"+more\r\n", "{}", reply.escape_ascii());
    }
}

#[test]
fn what_is_cut_off_anywhere_is_not_whole() {
    for reply in WHOLE {
        for len in 0..reply.len() {
            assert!(Reply::read(&reply[..len]).is_err(), "{} to {len}", reply.escape_ascii());
        }
    }
}

#[test]
fn what_a_scanner_refuses_is_malformed_unless_it_is_a_limit() {
    for (bytes, why) in REFUSED {
        let more = [bytes, &b"+OK\r\n"[..]].concat();
        let found = Reply::read(&more);
        assert!(found.is_err(), "{} ({why})", bytes.escape_ascii());
        let nested = [&b"*2\r\n:1\r\n"[..], &more].concat();
        assert!(Reply::read(&nested).is_err(), "{} in an array", bytes.escape_ascii());
    }
}

#[test]
fn attributes_are_passed_over_wherever_they_stand() {
    let bytes = b"|1\r\n+ttl\r\n:10\r\n|1\r\n+x\r\n|1\r\n+y\r\n:0\r\n_\r\n*2\r\n|1\r\n+a\r\n:1\r\n:2\r\n|0\r\n:3\r\n";
    assert_eq!(shown(read(bytes)), "[2, 3]");
    let map = b"%1\r\n|1\r\n+a\r\n:1\r\n+key\r\n|1\r\n+b\r\n:1\r\n+value\r\n";
    assert_eq!(shown(read(map)), "{simple key => simple value}");
    let stream = b"*?\r\n|1\r\n+a\r\n*?\r\n.\r\n:1\r\n.\r\n";
    assert_eq!(shown(read(stream)), "[1]");
}

#[test]
fn attributes_can_be_had() {
    let bytes = b"|1\r\n+ttl\r\n:10\r\n|0\r\n|2\r\n+x\r\n|1\r\n+y\r\n:0\r\n_\r\n+z\r\n*1\r\n:1\r\n*1\r\n|1\r\n+a\r\n:1\r\n:2\r\n";
    let (attributes, reply, rest) = Reply::read_with_attributes(bytes).unwrap();
    assert!(!attributes.is_empty());
    let entries: Vec<String> = attributes.map(entry).collect();
    assert_eq!(entries, ["simple ttl => 10", "simple x => nil", "simple z => [1]"]);
    assert_eq!(rest, b"");
    let Reply::Array(mut items) = reply else { panic!("{}", reply.kind()) };
    let (attributes, item) = items.next_with_attributes().unwrap();
    assert_eq!(attributes.map(entry).collect::<Vec<_>>(), ["simple a => 1"]);
    assert!(matches!(item, Reply::Int(2)));
    let (attributes, ..) = Reply::read_with_attributes(b":1\r\n").unwrap();
    assert!(attributes.is_empty());
}

#[test]
fn kinds_have_names_for_messages() {
    for (bytes, kind) in [
        ("_\r\n", "nil"),
        ("+OK\r\n", "a simple string"),
        ("-ERR secret\r\n", "an error"),
        (":1\r\n", "an integer"),
        ("$1\r\na\r\n", "a bulk string"),
        (",1\r\n", "a double"),
        ("#t\r\n", "a boolean"),
        ("(1\r\n", "a big number"),
        ("=4\r\ntxt:\r\n", "a verbatim string"),
        ("*3\r\n_\r\n_\r\n_\r\n", "an array of 3"),
        ("~0\r\n", "a set of 0"),
        (">1\r\n_\r\n", "a push of 1"),
        ("%2\r\n_\r\n_\r\n_\r\n_\r\n", "a map of 2"),
        ("*?\r\n.\r\n", "an array"),
    ] {
        let found = read(bytes.as_bytes()).kind();
        assert_eq!(format!("{}{found}", found.article()), kind);
    }
    assert_eq!(read(b"*1\r\n_\r\n").kind().name(), "array");
}

#[test]
fn the_debug_of_an_error_shows_its_code_alone() {
    let reply = read(b"-ERR unknown command 'x', with args beginning with: 'secret'\r\n");
    assert_eq!(format!("{reply:?}"), "Error(ErrorReply(ERR))");
}

#[test]
fn items_know_how_many_are_left() {
    let Reply::Array(mut items) = read(b"*2\r\n:1\r\n:2\r\n") else { panic!("no array") };
    assert_eq!((items.left(), items.size_hint()), (Some(2), (2, Some(2))));
    items.next();
    assert_eq!((items.left(), items.is_empty()), (Some(1), false));
    items.next();
    assert_eq!((items.left(), items.is_empty(), items.next().is_none()), (Some(0), true, true));
    let Reply::Map(pairs) = read(b"%1\r\n:1\r\n:2\r\n") else { panic!("no map") };
    assert_eq!((pairs.left(), pairs.size_hint()), (Some(1), (1, Some(1))));
    assert_eq!(pairs.items().count(), 2);
    let Reply::Array(items) = read(b"*?\r\n:1\r\n.\r\n") else { panic!("no array") };
    assert_eq!((items.left(), items.size_hint()), (None, (0, None)));
}

#[test]
fn counts_that_nothing_can_hold_are_malformed() {
    for bytes in [
        "*18446744073709551615\r\n*18446744073709551615\r\n:1\r\n",
        "%9223372036854775807\r\n:1\r\n",
        "|9223372036854775807\r\n:1\r\n",
        "*1\r\n|9223372036854775807\r\n:1\r\n",
        "$18446744073709551615\r\n\r\n",
        "=18446744073709551615\r\ntxt:\r\n",
        "$?\r\n;18446744073709551615\r\n\r\n",
        "*1\r\n$18446744073709551615\r\n\r\n",
    ] {
        assert_eq!(Reply::read(bytes.as_bytes()).unwrap_err().to_string(), "a reply is not whole");
    }
}

/// Each byte of each complete reply is replaced by every other byte, one at a time. The two readers
/// of RESP must agree on the result.
#[test]
fn whatever_a_scanner_finds_whole_can_be_read_and_nothing_else() {
    for reply in WHOLE {
        for at in 0..reply.len() {
            for byte in 0..=u8::MAX {
                let mut bytes = reply.to_vec();
                bytes[at] = byte;
                agree(&bytes);
            }
        }
    }
}

fn agree(bytes: &[u8]) {
    let read = Reply::read(bytes).map(|(_, rest)| bytes.len() - rest.len());
    match (Scanner::new(ScanLimits::default()).scan(bytes), read) {
        (Ok(Scan::Whole { len, .. }), Ok(read)) => assert_eq!(len, read),
        (Ok(Scan::Need(_)) | Err(_), Err(Malformed { .. })) => {}
        (scanned, read) => panic!("{}: {scanned:?}, {read:?}", bytes.escape_ascii()),
    }
}
