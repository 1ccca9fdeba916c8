//! The scanner: every type, cut at every byte, every limit, and bytes that are not RESP.

use crate::replies::{REFUSED, WHOLE};
use onetrip_engine::Violation;
use onetrip_redis::scan::{Scan, ScanLimits, Scanner};

/// Scans one reply that arrives in pieces. Which bytes a host keeps or removes must make no
/// difference.
fn scan(pieces: &[&[u8]], consume: bool, limits: &ScanLimits) -> Result<Option<Scan>, Violation> {
    let mut scanner = Scanner::new(limits.clone());
    let (mut input, mut gone) = (Vec::new(), 0);
    for piece in pieces {
        input.extend_from_slice(piece);
        match scanner.scan(&input)? {
            Scan::Whole { len, start, kind } => {
                let start = if start == 0 { 0 } else { start + gone };
                return Ok(Some(Scan::Whole { len: len + gone, start, kind }));
            }
            Scan::Need(need) => assert!(need > input.len(), "{need} of {}", input.len()),
        }
        if consume {
            let seen = scanner.seen();
            assert!(seen <= input.len());
            scanner.consumed(seen);
            assert_eq!(scanner.seen(), 0);
            input.drain(..seen);
            gone += seen;
        }
    }
    Ok(None)
}

fn at_once(reply: &[u8]) -> Result<Option<Scan>, Violation> {
    scan(&[reply], false, &ScanLimits::default())
}

fn singly(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.chunks(1).collect()
}

/// A reply as the scanner reports it. Its first byte is its kind.
fn whole(reply: &[u8]) -> Option<Scan> {
    Some(Scan::Whole { len: reply.len(), start: 0, kind: reply[0] })
}

#[test]
fn every_type_is_found_whole_and_with_more_behind_it() {
    for reply in WHOLE {
        assert_eq!(at_once(reply).unwrap(), whole(reply), "{}", reply.escape_ascii());
        let more = [reply, &b"+more\r\n"[..]].concat();
        assert_eq!(at_once(&more).unwrap(), whole(reply), "{}", reply.escape_ascii());
    }
}

#[test]
fn every_split_position_means_the_same() {
    let limits = ScanLimits::default();
    for reply in WHOLE {
        for at in 0..=reply.len() {
            let (front, back) = reply.split_at(at);
            let found = scan(&[front, back], false, &limits).unwrap();
            assert_eq!(found, whole(reply), "{} at {at}", reply.escape_ascii());
        }
        assert_eq!(scan(&singly(reply), false, &limits).unwrap(), whole(reply));
    }
}

#[test]
fn what_was_seen_may_be_taken_off_at_any_time() {
    let limits = ScanLimits::default();
    for reply in WHOLE {
        for at in 0..=reply.len() {
            let (front, back) = reply.split_at(at);
            let found = scan(&[front, back], true, &limits).unwrap();
            assert_eq!(found, whole(reply), "{} at {at}", reply.escape_ascii());
        }
        assert_eq!(scan(&singly(reply), true, &limits).unwrap(), whole(reply));
    }
}

#[test]
fn an_incomplete_reply_needs_no_more_than_it_lacks() {
    for reply in WHOLE {
        for at in 0..reply.len() {
            let mut scanner = Scanner::new(ScanLimits::default());
            let found = scanner.scan(&reply[..at]).unwrap();
            let Scan::Need(need) = found else { panic!("{found:?} at {at}") };
            assert!(at < need && need <= reply.len(), "{} at {at}", reply.escape_ascii());
        }
    }
}

#[test]
fn a_long_string_needs_all_of_it() {
    let mut scanner = Scanner::new(ScanLimits::default());
    assert_eq!(scanner.scan(b"$1000\r\nabc").unwrap(), Scan::Need(7 + 1000 + 2));
    assert_eq!(scanner.seen(), 10);
}

#[test]
fn attributes_stand_in_front_and_the_kind_is_that_of_the_reply() {
    for (attributes, reply) in [
        ("|1\r\n+ttl\r\n:3600\r\n", "+OK\r\n"),
        ("|0\r\n", "$3\r\nfoo\r\n"),
        ("|1\r\n+a\r\n|1\r\n+b\r\n_\r\n*1\r\n:1\r\n", ">1\r\n+x\r\n"),
        ("|1\r\n+a\r\n:1\r\n|1\r\n+b\r\n:2\r\n", "*2\r\n|1\r\n+c\r\n:3\r\n:4\r\n:5\r\n"),
    ] {
        let bytes = [attributes.as_bytes(), reply.as_bytes()].concat();
        let start = attributes.len();
        let expected = Some(Scan::Whole { len: bytes.len(), start, kind: reply.as_bytes()[0] });
        assert_eq!(at_once(&bytes).unwrap(), expected);
        let limits = ScanLimits::default();
        assert_eq!(scan(&singly(&bytes), false, &limits).unwrap(), expected);
    }
}

#[test]
fn the_kind_is_known_from_its_first_byte_on_and_until_the_reply_is_whole() {
    let bytes = b"|1\r\n+a\r\n:1\r\n*1\r\n:1\r\n";
    let mut scanner = Scanner::new(ScanLimits::default());
    for come in 0..bytes.len() {
        scanner.scan(&bytes[..come]).unwrap();
        assert_eq!(scanner.kind(), (come > 12).then_some(b'*'), "{come}");
    }
    scanner.scan(bytes).unwrap();
    assert_eq!(scanner.kind(), None);
}

#[test]
fn where_the_reply_begins_moves_with_what_is_taken_off() {
    let bytes = b"|1\r\n+a\r\n:1\r\n*1\r\n:1\r\n";
    let mut scanner = Scanner::new(ScanLimits::default());
    scanner.scan(&bytes[..9]).unwrap();
    scanner.consumed(8);
    let found = scanner.scan(&bytes[8..]).unwrap();
    assert_eq!(found, Scan::Whole { len: bytes.len() - 8, start: 4, kind: b'*' });
}

#[test]
fn where_the_reply_begins_moves_after_it_has_begun_too() {
    let bytes = b"|1\r\n+a\r\n:1\r\n*2\r\n:1\r\n:2\r\n";
    for (taken, start) in [(4, 8), (8, 4), (12, 0), (16, 0), (20, 0)] {
        let mut scanner = Scanner::new(ScanLimits::default());
        scanner.scan(&bytes[..22]).unwrap();
        assert_eq!((scanner.seen(), scanner.kind()), (20, Some(b'*')));
        scanner.consumed(taken);
        let found = scanner.scan(&bytes[taken..]).unwrap();
        assert_eq!(found, Scan::Whole { len: bytes.len() - taken, start, kind: b'*' });
    }
}

#[test]
fn one_reply_after_the_other_is_found() {
    let stream: Vec<u8> = WHOLE.concat();
    for piece in [1, 2, 3, 5, 17, stream.len()] {
        let mut scanner = Scanner::new(ScanLimits::default());
        let (mut input, mut found) = (Vec::new(), Vec::new());
        for bytes in stream.chunks(piece) {
            input.extend_from_slice(bytes);
            while let Scan::Whole { len, .. } = scanner.scan(&input).unwrap() {
                found.push(input.drain(..len).collect::<Vec<u8>>());
            }
        }
        assert_eq!(found, WHOLE, "in pieces of {piece}");
    }
}

#[test]
fn what_is_no_resp_is_refused_wherever_it_is_cut() {
    let limits = ScanLimits::default();
    for (bytes, why) in REFUSED {
        let refused = Err(Violation(why));
        let shown = bytes.escape_ascii();
        assert_eq!(at_once(bytes), refused, "{shown}");
        assert_eq!(scan(&singly(bytes), false, &limits), refused, "{shown}");
        assert_eq!(scan(&singly(bytes), true, &limits), refused, "{shown}");
        let nested = [&b"*2\r\n:1\r\n"[..], bytes].concat();
        assert!(at_once(&nested).is_err(), "{shown} in an array");
    }
}

#[test]
fn a_type_that_nobody_knows_is_refused_at_its_first_byte() {
    let known = b"+-:$*_,#!=(%~|>";
    for byte in 0..=u8::MAX {
        assert_eq!(at_once(&[byte]).is_ok(), known.contains(&byte), "{}", byte.escape_ascii());
    }
}

#[test]
fn a_refused_stream_stays_refused() {
    for (bytes, why) in REFUSED {
        let mut scanner = Scanner::new(ScanLimits::default());
        assert_eq!(scanner.scan(bytes), Err(Violation(why)));
        let more = [bytes, &b"+OK\r\n"[..]].concat();
        assert_eq!(scanner.scan(&more), Err(Violation(why)));
    }
}

/// Limits, one of which differs from the default.
fn limits(change: impl FnOnce(&mut ScanLimits)) -> ScanLimits {
    let mut limits = ScanLimits::default();
    change(&mut limits);
    limits
}

/// The first reply is accepted and the second is not, in one piece and in many.
fn assert_limit(limits: &ScanLimits, passes: &[u8], fails: &[u8], why: &'static str) {
    for pieces in [vec![passes], singly(passes)] {
        let found = scan(&pieces, false, limits).unwrap();
        assert_eq!(found, whole(passes), "{}", passes.escape_ascii());
    }
    for pieces in [vec![fails], singly(fails)] {
        let found = scan(&pieces, false, limits);
        assert_eq!(found, Err(Violation(why)), "{}", fails.escape_ascii());
    }
}

#[test]
fn lines_are_limited() {
    let limits = limits(|limits| limits.line_bytes_max = 4);
    let why = "a line is too long";
    assert_limit(&limits, b"+abcd\r\n", b"+abcde\r\n", why);
    assert_limit(&limits, b"-abcd\r\n", b"-abcde\r\n", why);
    assert_limit(&limits, b"+a\rcd\r\n", b"+a\rcde\r\n", why);
    assert_limit(&limits, b":1234\r\n", b":12345\r\n", why);
    assert_limit(&limits, b":-123\r\n", b":-1234\r\n", why);
    assert_limit(&limits, b"(1234\r\n", b"(12345\r\n", why);
    assert_limit(&limits, b",1.25\r\n", b",1.255\r\n", why);
    assert_limit(&limits, b"$0001\r\na\r\n", b"$00001\r\na\r\n", why);
    assert_limit(&limits, b"*0001\r\n_\r\n", b"*00001\r\n_\r\n", why);
    assert_limit(&limits, b"$?\r\n;0001\r\na\r\n;0\r\n", b"$?\r\n;00001\r\n", why);
    let endless = [b'x'; 6];
    assert!(scan(&[b"+", &endless], false, &limits).is_err());
}

#[test]
fn the_default_limit_of_a_line_is_64_kib() {
    let line = |len: usize| [b"+", &vec![b'x'; len][..], b"\r\n"].concat();
    let fails = line((64 << 10) + 1);
    assert_limit(&ScanLimits::default(), &line(64 << 10), &fails, "a line is too long");
}

#[test]
fn strings_are_limited() {
    let limits = limits(|limits| limits.string_bytes_max = 4);
    let why = "a string is too long";
    assert_limit(&limits, b"$4\r\nabcd\r\n", b"$5\r\n", why);
    assert_limit(&limits, b"$4\r\nabcd\r\n", b"$5\r\nabcde\r\n", why);
    assert_limit(&limits, b"=4\r\ntxt:\r\n", b"=5\r\n", why);
    assert_limit(&limits, b"*1\r\n$4\r\nabcd\r\n", b"*1\r\n$5\r\n", why);
    let chunks = b"$?\r\n;3\r\nabc\r\n;1\r\nd\r\n;0\r\n";
    assert_limit(&limits, chunks, b"$?\r\n;3\r\nabc\r\n;2\r\n", why);
    assert_limit(
        &limits,
        b"!6\r\nERR no\r\n",
        b"$?\r\n;3\r\nabc\r\n;18446744073709551615\r\n",
        why,
    );
}

#[test]
fn an_error_is_limited_as_a_line_is() {
    let limits = limits(|limits| limits.line_bytes_max = 4);
    assert_limit(&limits, b"!4\r\nOOPS\r\n", b"!5\r\n", "a string is too long");
    assert_limit(&limits, b"$5\r\nabcde\r\n", b"*1\r\n!5\r\n", "a string is too long");
}

#[test]
fn items_are_limited_and_an_entry_is_two() {
    let limits = limits(|limits| limits.items_max = 4);
    let why = "an aggregate has too many items";
    assert_limit(&limits, b"*4\r\n_\r\n_\r\n_\r\n_\r\n", b"*5\r\n", why);
    assert_limit(&limits, b"~4\r\n_\r\n_\r\n_\r\n_\r\n", b"~5\r\n", why);
    assert_limit(&limits, b">4\r\n_\r\n_\r\n_\r\n_\r\n", b">5\r\n", why);
    assert_limit(&limits, b"%2\r\n_\r\n_\r\n_\r\n_\r\n", b"%3\r\n", why);
    assert_limit(&limits, b"%2\r\n_\r\n_\r\n_\r\n_\r\n", b"|3\r\n", why);
    let stream = b"*?\r\n_\r\n_\r\n_\r\n_\r\n.\r\n";
    assert_limit(&limits, stream, b"*?\r\n_\r\n_\r\n_\r\n_\r\n_\r\n", why);
}

#[test]
fn depth_is_limited() {
    let limits = limits(|limits| limits.depth_max = 3);
    let why = "a reply is nested too deep";
    let passes = b"*1\r\n*1\r\n*1\r\n:1\r\n";
    assert_limit(&limits, passes, b"*1\r\n*1\r\n*1\r\n*1\r\n", why);
    assert_limit(&limits, passes, b"*?\r\n*?\r\n*?\r\n*?\r\n", why);
    assert_limit(&limits, passes, b"|1\r\n%1\r\n~1\r\n|1\r\n", why);
    // An empty aggregate opens no level, and one that has ended encloses nothing.
    assert_limit(&limits, b"*1\r\n*1\r\n*2\r\n*0\r\n*0\r\n", b">1\r\n~?\r\n%1\r\n*2\r\n", why);
    assert_limit(
        &limits,
        b"*2\r\n*1\r\n*1\r\n_\r\n*1\r\n*1\r\n_\r\n",
        b"*1\r\n*1\r\n*1\r\n*2\r\n",
        why,
    );
}

#[test]
fn the_default_depth_is_128() {
    let nested = |depth| [&b"*1\r\n".repeat(depth)[..], b"_\r\n"].concat();
    let why = "a reply is nested too deep";
    assert_limit(&ScanLimits::default(), &nested(128), &nested(129), why);
}

#[test]
fn what_has_to_be_kept_until_it_is_whole_is_limited() {
    let limits = limits(|limits| limits.push_bytes_max = 12);
    let why = "a push, or the attributes of a reply, exceed push_bytes_max";
    assert_limit(&limits, b">1\r\n$2\r\nab\r\n", b">1\r\n$3\r\nabc\r\n", why);
    assert_limit(&limits, b"*1\r\n$3\r\nabc\r\n", b"|1\r\n$3\r\nabc\r\n:1\r\n:1\r\n", why);
    assert_limit(
        &limits,
        b"*1\r\n$3\r\nabc\r\n",
        &[&b"|0\r\n".repeat(4)[..], b"_\r\n"].concat(),
        why,
    );
}

#[test]
fn counts_and_lengths_at_their_ends_neither_overflow_nor_allocate() {
    let limits = limits(|limits| {
        limits.items_max = u64::MAX;
        limits.string_bytes_max = u64::MAX;
        limits.push_bytes_max = u64::MAX;
    });
    for reply in [
        "*18446744073709551615\r\n*18446744073709551615\r\n*18446744073709551615\r\n:1\r\n",
        "%9223372036854775807\r\n%9223372036854775807\r\n:1\r\n",
        "|9223372036854775807\r\n~18446744073709551615\r\n",
        "$18446744073709551615\r\nabc",
        "=18446744073709551615\r\ntxt:",
        "$?\r\n;18446744073709551615\r\nabc",
    ] {
        let found = scan(&singly(reply.as_bytes()), false, &limits).unwrap();
        assert_eq!(found, None, "{reply}");
    }
    assert!(at_once(b"%9223372036854775808\r\n").is_err());
    assert!(at_once(b"*18446744073709551616\r\n").is_err());
}
