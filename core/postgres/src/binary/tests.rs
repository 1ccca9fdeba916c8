#![allow(clippy::unwrap_used)]

use super::array::{Token, put_head, put_quoted, read, tokens};
use super::calendar::{DAY, DAYS_FROM_1970, Interval, civil, clock, days, micros};
use super::numeric::{self, Class, Fault};
use super::{Malformed, Parts, TooLong, put, put_count, range, shortest, vector, vector_head};

/// A head of words, and bytes behind it.
fn bytes(words: &[i32], rest: &[u8]) -> Vec<u8> {
    let head = words.iter().flat_map(|word| word.to_be_bytes());
    head.chain(rest.iter().copied()).collect()
}

#[test]
fn parts_are_read_as_they_were_put() {
    let mut out = Vec::new();
    put_count(&mut out, 3).unwrap();
    for value in [Some(&b"ab"[..]), None, Some(b"")] {
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(value.unwrap_or_default());
            Ok::<_, TooLong>(value.is_some())
        };
        put(&mut out, write).unwrap();
    }
    let mut parts = Parts(&out);
    assert_eq!(parts.count(4), Ok(3));
    assert_eq!([parts.part(), parts.part()], [Ok(Some(&b"ab"[..])), Ok(None)]);
    assert_eq!(parts.some(), Ok(&b""[..]));
    assert_eq!((parts.part(), parts.0), (Err(Malformed), &b""[..]));
}

#[test]
fn lengths_and_counts_that_lie_are_refused() {
    for value in [bytes(&[-2], b""), bytes(&[5], b"1234"), bytes(&[i32::MAX], b""), vec![0, 0, 0]] {
        assert_eq!(Parts(&value).part(), Err(Malformed), "{value:?}");
    }
    assert_eq!(Parts(&bytes(&[-1], b"")).some(), Err(Malformed));
    for (count, is_there) in [(2, true), (3, false), (-1, false)] {
        assert_eq!(Parts(&bytes(&[count, -1, -1], b"")).count(4).is_ok(), is_there);
    }
    let (count, mut parts) = Parts::of_row(&[0, 9, 0]).unwrap();
    assert_eq!((count, parts.part()), (9, Err(Malformed)));
    assert_eq!(Parts::of_row(&[1]), Err(Malformed));
}

#[test]
fn arrays() {
    let mut out = Vec::new();
    put_head(&mut out, &[2, 1], true, 23).unwrap();
    assert_eq!(out, bytes(&[2, 1, 23, 2, 1, 1, 1], b""));
    out.extend(bytes(&[1], b"x"));
    out.extend(bytes(&[-1], b""));
    let (lens, dimensions, mut elements) = read(&out).unwrap();
    assert_eq!(lens[..dimensions], [2, 1]);
    assert_eq!([elements.part(), elements.part()], [Ok(Some(&b"x"[..])), Ok(None)]);
    assert_eq!(read(&bytes(&[0, 0, 23], b"")).map(|it| it.1), Ok(0));
    let huge = [1, 0, 23, i32::MAX, 1];
    let product = [3, 0, 23, 1 << 16, 1, 1 << 16, 1, 1 << 16, 1];
    // Nothing in each of very many rows is also more than came.
    let empty = [2, 0, 23, i32::MAX, 1, 0, 1];
    for words in [&[7, 0, 23][..], &[-1, 0, 23], &huge, &product, &empty, &[1, 0, 23, -1, 1]] {
        assert_eq!(read(&bytes(words, b"")), Err(Malformed), "{words:?}");
    }
}

#[test]
fn arrays_as_texts() {
    let element = |text: &'static str| Token::Element(Some(text.into()));
    let all = |text| tokens(text, b',').collect::<Result<Vec<_>, _>>();
    let (open, close) = (Token::Open, Token::Close);
    assert_eq!(all("{}"), Ok(vec![open.clone(), close.clone()]));
    let text = r#"[0:1]={{a,"b\"\\,}"},{NULL,"NULL"}}"#;
    let first = [open.clone(), open.clone(), element("a"), element("b\"\\,}"), close.clone()];
    let second = [open, Token::Element(None), element("NULL"), close.clone(), close];
    assert_eq!(all(text), Ok([first, second].concat()));
    for text in ["", "x", "{", "{a", "{\"a", "{\"a\\", "{a}}{"] {
        let is_whole = text == "{a}}{";
        assert_eq!(all(text).is_ok(), is_whole, "{text}");
    }
    let mut out = Vec::new();
    put_quoted(&mut out, br#"b"\,}"#);
    assert_eq!(out, br#""b\"\\,}""#);
}

/// P70.
#[test]
fn the_text_of_an_array_is_read_by_the_delimiter_of_its_type() {
    let element = |text: &'static str| Token::Element(Some(text.into()));
    let all = |text| tokens(text, b';').collect::<Result<Vec<_>, _>>();
    let boxes = [element("(1,1),(0,0)"), Token::Element(None), element("a;b")];
    let whole = [vec![Token::Open], boxes.to_vec(), vec![Token::Close]].concat();
    assert_eq!(all(r#"{(1,1),(0,0);NULL;"a;b"}"#), Ok(whole));
}

#[test]
fn ranges() {
    let part = bytes(&[1], b"x");
    let of = |flags: u8, parts: &[u8]| [&[flags], parts].concat();
    let read = |value: &[u8]| {
        range::read(value).map(|it| (it.is_empty, it.lower.0.is_some(), it.upper.0.is_some()))
    };
    assert_eq!(read(&[range::EMPTY]), Ok((true, false, false)));
    for (lower, upper) in [(Some(true), Some(false)), (None, Some(true)), (Some(false), None)] {
        let count = usize::from(lower.is_some()) + usize::from(upper.is_some());
        let value = of(range::flags(lower, upper), &part.repeat(count));
        let it = range::read(&value).unwrap();
        assert_eq!(it.lower.0.map(|_| it.lower.1), lower);
        assert_eq!(it.upper.0.map(|_| it.upper.1), upper);
    }
    assert_eq!(
        [read(&[]), read(&of(range::flags(Some(true), Some(true)), &part))],
        [Err(Malformed); 2]
    );
}

#[test]
fn vectors() {
    let value = [&vector_head(1).unwrap()[..], &1.1_f32.to_be_bytes()].concat();
    assert_eq!(vector(&value).map(|it| it.iter().map(|it| shortest(*it)).collect()), Ok(vec![1.1]));
    assert_eq!([vector(&value[..7]), vector(&[0, 2, 0, 0])], [Err(Malformed); 2]);
    assert_eq!(vector_head(65_536), Err(TooLong));
}

#[test]
fn the_calendar_goes_both_ways() {
    let known = [
        ((2000, 1, 1), 0),
        ((2000, 2, 29), 59),
        ((1970, 1, 1), -i64::from(DAYS_FROM_1970)),
        ((1900, 3, 1), -36_465),
        ((9999, 12, 31), 2_921_939),
        ((1, 1, 1), -730_119),
    ];
    for ((year, month, day), count) in known {
        assert_eq!(days(year, month, day), count);
        assert_eq!(civil(count), (year.into(), month, day));
    }
    let mut last = civil(-800_000);
    for count in -799_999..800_000 {
        let (year, month, day) = civil(count);
        assert_eq!(days(year as i32, month, day), count);
        assert!((year, month, day) > last, "{count}");
        last = (year, month, day);
    }
    assert_eq!(clock(DAY - 1), (23, 59, 59, 999_999));
    assert_eq!(micros(23, 59, 59, 999_999), DAY - 1);
}

#[test]
fn intervals() {
    let interval = Interval { micros: -5, days: 3, months: -14 };
    let mut out = Vec::new();
    interval.put(&mut out);
    assert_eq!(Interval::read(&out), Ok(interval));
    assert_eq!([Interval::read(&out[1..]), Interval::read(&[0; 17])], [Err(Malformed); 2]);
}

fn binary(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    numeric::put(&mut out, &numeric::parse(text).unwrap());
    out
}

#[test]
fn numerics_go_both_ways() {
    let same = [
        "0",
        "0.00",
        "1",
        "-1",
        "9999",
        "10000",
        "12345678",
        "0.0001",
        "0.00001",
        "-0.5",
        "1.50",
        "100000000.00000001",
        "123456789012345678901234567890.000100",
        "NaN",
        "Infinity",
        "-Infinity",
    ];
    for text in same {
        assert_eq!(numeric::read(&binary(text)).unwrap().text(), text);
    }
    let others =
        [("-0.0", "0.0"), ("+1.5e3", "1500"), ("1e-5", "0.00001"), ("007", "7"), (".5", "0.5")];
    for (text, written) in others {
        assert_eq!(numeric::read(&binary(text)).unwrap().text(), written);
    }
    assert_eq!(binary("-10000.5"), [0, 3, 0, 1, 0x40, 0, 0, 1, 0, 1, 0, 0, 0x13, 0x88]);
}

#[test]
fn numerics_that_are_none() {
    for text in ["", "-", ".", "x", "1x", "1e", "1e+", "--1", "1.2.3", "nan1", "0x1"] {
        assert_eq!(numeric::parse(text), Err(Fault::NoNumber), "{text}");
    }
    let digits = "1".repeat(131_073);
    for text in [&digits, "1e131072", "1e-16384", "1e1000000000", "1e99999999999999999999"] {
        assert_eq!(numeric::parse(text), Err(Fault::TooLong));
    }
    assert!(numeric::parse("1e131071").is_ok() && numeric::parse("1e-16383").is_ok());
    let longest = "9".repeat(131_072);
    assert_eq!(numeric::read(&binary(&longest)).unwrap().text(), longest);
    let one = binary("1");
    for (at, byte) in [(1, 2), (4, 1), (8, 0x27)] {
        let mut bad = one.clone();
        (bad[at], bad[9]) = (byte, if at == 8 { 0x10 } else { 1 });
        assert_eq!(numeric::read(&bad), Err(Malformed), "{at}");
    }
    assert_eq!([numeric::read(&one[..7]), numeric::read(&one[..9])], [Err(Malformed); 2]);
}

#[test]
fn numerics_as_whole_numbers_of_units() {
    let scaled = |text: &str, scale| numeric::read(&binary(text)).unwrap().scaled(scale);
    assert_eq!(scaled("123.450", 3), Some(123_450));
    assert_eq!(scaled("-0.001", 3), Some(-1));
    assert_eq!(scaled("0.000", 3), Some(0));
    assert_eq!(scaled("70000", 2), Some(7_000_000));
    let longest = "9".repeat(38);
    assert_eq!(scaled(&longest, 0), longest.parse().ok());
    assert_eq!(scaled(&format!("{}.{}", &longest[..35], &longest[35..]), 3), longest.parse().ok());
    assert_eq!([scaled("0.0001", 3), scaled(&longest, 3), scaled("NaN", 0)], [None; 3]);
    assert_eq!(numeric::read(&binary("-0")).unwrap().class, Class::Positive);
}
