#![allow(clippy::unwrap_used)]

use super::*;
use crate::binary::calendar;

fn exact(type_oid: u32, text: &str) -> bool {
    is_exact_text(type_oid, text.as_bytes())
}

/// A text whose parameters are only stored.
const STORES: &str = "insert into t values ($1, $2)";

/// One parameter in binary form, as in a Bind.
fn binary(value: &[u8]) -> Vec<u8> {
    let len = (value.len() as u32).to_be_bytes();
    [&[0, 1, 0, 1, 0, 1][..], &len, value].concat()
}

/// Uses with learned types, of values that are only stored, where the zone is UTC.
fn learned<'a>(named: &'a [u32], first: &'a [u8], more: &'a [Vec<u8>]) -> Parameters<'a> {
    Parameters { named, are_learned: true, first, more, moments: &[], is_utc: true, text: STORES }
}

/// The text that takes the place of a value of a learned type; `None` where it keeps its type.
fn instead(type_oid: u32, value: &[u8], is_utc: bool) -> Option<String> {
    instead_in(STORES, type_oid, value, is_utc)
}

fn instead_in(sql: &str, type_oid: u32, value: &[u8], is_utc: bool) -> Option<String> {
    let (named, first) = ([type_oid], binary(value));
    let of = Parameters { is_utc, text: sql, ..learned(&named, &first, &[]) };
    let loose = of.loosened()?;
    assert_eq!(loose.named, [0], "the server infers its type");
    let (formats, mut values) = parts_of(&loose.first).unwrap();
    assert_eq!(formats.of(0), Some(Format::Text));
    Some(String::from_utf8(values.next().unwrap().unwrap().to_vec()).unwrap())
}

#[test]
fn whole_numbers_are_exact_as_the_server_prints_them() {
    for text in ["0", "7", "-7", "42", "2147483647", "-2147483647"] {
        assert!(exact(oid::INT4, text), "{text}");
    }
    for text in
        ["", "-", "-0", "+1", "007", " 7", "7 ", "1.5e3", "0x1f", "1_000", "2147483648", "a"]
    {
        assert!(!exact(oid::INT4, text), "{text}");
    }
    assert!(exact(oid::INT8, "9223372036854775807") && !exact(oid::INT8, "9223372036854775808"));
    assert!(exact(oid::NUMERIC, "123456789012345678901234567890") && !exact(oid::NUMERIC, "1.5"));
    assert!(exact(oid::INT8_ARRAY, "{1,-2,3}") && exact(oid::INT8_ARRAY, "{}"));
    assert!(!exact(oid::INT8_ARRAY, "{1, 2}") && !exact(oid::INT8_ARRAY, "{\"1\"}"));
}

#[test]
fn a_float_is_exact_if_no_cast_rounds_it() {
    assert!(exact(oid::FLOAT4, "123456") && !exact(oid::FLOAT4, "1234567"));
    assert!(exact(oid::FLOAT8, "123456789012345") && !exact(oid::FLOAT8, "1234567890123456"));
    for text in ["0.5", "1e3", "NaN", "-0", "Infinity"] {
        assert!(!exact(oid::FLOAT8, text), "{text}");
    }
}

#[test]
fn a_date_is_exact_without_a_time_and_a_time_without_a_zone() {
    assert!(exact(oid::DATE, "2020-12-31"));
    for text in
        ["2020-12-31 12:00:00", "20201231", "0000-01-01", "12-31-2020", "2020-13-01", "é020-01-01"]
    {
        assert!(!exact(oid::DATE, text), "{text}");
    }
    for text in ["2020-01-01 12:00:00", "2020-01-01 23:59:59.5", "2020-01-01 00:00:00.000001"] {
        assert!(exact(oid::TIMESTAMP, text), "{text}");
    }
    for text in [
        "2020-01-01T12:00:00",
        "2020-01-01 12:00:00+05:00",
        "2020-01-01 12:00:00Z",
        "2020-01-01 24:00:00",
        "2020-01-01 12:00:60",
        "2020-01-01 12:00:00.50",
        "2020-01-01 12:00:00.",
        "2020-01-01 12:00:00.1234567",
    ] {
        assert!(!exact(oid::TIMESTAMP, text), "{text}");
    }
    let utc = b"2020-01-01 12:00:00+00";
    for is_utc in [true, false] {
        let of = Parameters { is_utc, text: STORES, ..Parameters::default() };
        assert_eq!(of.is_exact_text(oid::TIMESTAMPTZ, utc, || true), is_utc);
    }
}

#[test]
fn what_is_not_known_is_not_exact() {
    for type_oid in [0, 17, 790, 869, 3802, 16_384] {
        assert!(!exact(type_oid, "1"), "{type_oid}");
    }
}

#[test]
fn a_learned_value_that_a_cast_would_change_leaves_as_text() {
    assert_eq!(instead(oid::FLOAT4, &0.1_f32.to_be_bytes(), true).as_deref(), Some("0.1"));
    assert_eq!(
        instead(oid::FLOAT8, &(-1e-7_f64).to_be_bytes(), true).as_deref(),
        Some("-0.0000001")
    );
    assert_eq!(instead(oid::FLOAT8, &f64::NAN.to_be_bytes(), true).as_deref(), Some("NaN"));
    assert_eq!(instead(oid::FLOAT8, &42_f64.to_be_bytes(), true), None);
    let moment = 86_400_000_000_i64 * 366 + 43_200_500_000;
    let text = instead(oid::TIMESTAMPTZ, &moment.to_be_bytes(), false);
    assert_eq!(text.as_deref(), Some("2001-01-01 12:00:00.5+00"));
    assert_eq!(instead(oid::TIMESTAMPTZ, &moment.to_be_bytes(), true), None);
    assert_eq!(instead(3802, b"\x01{\"a\": 1}", true).as_deref(), Some("{\"a\": 1}"));
    let mut interval = Vec::new();
    calendar::Interval { micros: -3_600_000_001, days: 2, months: -14 }.put(&mut interval);
    let text = instead(1186, &interval, true);
    assert_eq!(text.as_deref(), Some("-14 mons 2 days -1:00:00.000001"));
    let address = instead(869, &[2, 32, 0, 4, 1, 2, 3, 4], true);
    assert_eq!(address.as_deref(), Some("1.2.3.4"), "a cast to text gives it a mask");
    let mut six = vec![3, 64, 0, 16];
    six.extend_from_slice(&1_u128.to_be_bytes());
    assert_eq!(instead(869, &six, true).as_deref(), Some("::1/64"));
    assert_eq!(instead(oid::INT4, &7_i32.to_be_bytes(), false), None);
    // A type of the user's stays: its binary form says what it is, or it is cast to text alone.
    assert_eq!(instead(16_384, b"happy", false), None);
}

#[test]
fn a_text_of_a_char_is_only_stored_by_name() {
    const COMPARES: &str = "select from t where c = $1";
    let compared = |of, value: &[u8]| instead_in(COMPARES, of, value, true);
    assert_eq!(instead(oid::BPCHAR, b"42", true), None);
    assert_eq!(compared(oid::BPCHAR, b"42").as_deref(), Some("42"));
    assert_eq!(compared(oid::TEXT, b"42"), None);
    assert_eq!(compared(oid::TEXT, b"42 ").as_deref(), Some("42 "));
    // {"42 "} and {"42"}, as arrays of text.
    let array = |text: &[u8]| {
        let head = [[0, 0, 0, 1], [0; 4], [0, 0, 0, 25], [0, 0, 0, 1], [0, 0, 0, 1]].concat();
        [&head, &(text.len() as u32).to_be_bytes()[..], text].concat()
    };
    assert_eq!(compared(1009, &array(b"42 ")).as_deref(), Some("{\"42 \"}"));
    assert_eq!(compared(1009, &array(b"42")), None);
}

/// Exact values leave as text where another use of the same request has an inexact text there.
#[test]
fn values_beside_an_inexact_text_leave_as_texts() {
    let text = |value: &[u8]| {
        let len = (value.len() as u32).to_be_bytes();
        [&[0, 1, 0, 0, 0, 1][..], &len, value].concat()
    };
    let beside = |of: u32, value: &[u8]| {
        let (named, first, more) = ([of], binary(value), [text(b" inexact ")]);
        let loose = learned(&named, &first, &more).loosened().unwrap();
        assert_eq!((&loose.named[..], &loose.more[0]), (&[0][..], &more[0]));
        let value = parts_of(&loose.first).unwrap().1.next().unwrap().unwrap();
        String::from_utf8(value.to_vec()).unwrap()
    };
    assert_eq!(beside(oid::BOOL, &[1]), "true");
    assert_eq!(beside(oid::INT2, &(-7_i16).to_be_bytes()), "-7");
    assert_eq!(beside(oid::INT4, &i32::MIN.to_be_bytes()), "-2147483648");
    assert_eq!(beside(oid::INT8, &i64::MAX.to_be_bytes()), "9223372036854775807");
    assert_eq!(beside(oid::DATE, &366_i32.to_be_bytes()), "2001-01-01");
    assert_eq!(beside(oid::DATE, &(-730_120_i32).to_be_bytes()), "0001-12-31 BC");
    assert_eq!(beside(oid::DATE, &i32::MAX.to_be_bytes()), "infinity");
    assert_eq!(beside(oid::TIME, &1_500_000_i64.to_be_bytes()), "00:00:01.5");
    assert_eq!(beside(17, &[0xff, 0]), "\\xff00");
    let uuid = 0xa0ee_bc99_9c0b_4ef8_bb6d_6bb9_bd38_0a11_u128.to_be_bytes();
    assert_eq!(beside(oid::UUID, &uuid), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
    let array = [[0, 0, 0, 1], [0; 4], [0, 0, 0, 23], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 4]];
    let array = [&array.concat()[..], &7_i32.to_be_bytes()].concat();
    assert_eq!(beside(1007, &array), "{\"7\"}");
}

#[test]
fn the_other_parameters_and_uses_stay_as_they_are() {
    let named = [oid::INT4, oid::FLOAT8];
    let write = |number: i32, float: Option<f64>| {
        let mut out = vec![0, 1, 0, 1, 0, 2, 0, 0, 0, 4];
        out.extend_from_slice(&number.to_be_bytes());
        match float {
            Some(it) => {
                out.extend_from_slice(&[0, 0, 0, 8]);
                out.extend_from_slice(&it.to_be_bytes());
            }
            None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        }
        out
    };
    let (first, more) = (write(1, None), [write(2, Some(1.0)), write(3, Some(0.5))]);
    let of = learned(&named, &first, &more);
    let loose = of.loosened().unwrap();
    assert_eq!(loose.named, [oid::INT4, 0]);
    let texts: Vec<_> = std::iter::once(&loose.first)
        .chain(&loose.more)
        .map(|it| parts_of(it).unwrap().1.map(|it| it.map(<[u8]>::to_vec)).collect::<Vec<_>>())
        .collect();
    let number = |it: i32| Some(it.to_be_bytes().to_vec());
    assert_eq!(texts[0], [number(1), None]);
    assert_eq!(texts[1], [number(2), Some(b"1".to_vec())]);
    assert_eq!(texts[2], [number(3), Some(b"0.5".to_vec())]);
    assert!(Parameters { are_learned: false, ..of }.loosened().is_none(), "the caller has said so");
}

#[test]
fn a_name_stands_for_inferred_types_only_if_the_values_are_exact() {
    let text = |value: &str| {
        [&[0, 0, 0, 1][..], &(value.len() as u32).to_be_bytes(), value.as_bytes()].concat()
    };
    let of = |first: &[u8], types: &[u32]| {
        Parameters { first, ..Parameters::default() }.may_be_bound(types)
    };
    assert!(of(&text("7"), &[oid::INT4]) && !of(&text("007"), &[oid::INT4]));
    assert!(!of(&text("7"), &[]), "a type that is not known");
    assert!(of(&[0, 0, 0, 1, 255, 255, 255, 255], &[]), "NULL is NULL");
    assert!(!of(&binary(&[0, 0, 0, 7]), &[oid::INT4]), "bytes mean what their type says");
    assert!(of(&[], &[]) && of(&[0, 0, 0, 0], &[]));
}

/// P56. A moment means another thing as a date, and an assignment casts it to that as its text is.
#[test]
fn a_moment_with_a_time_of_day_is_not_compared_by_a_remembered_type() {
    const COMPARES: &str = "select * from t where c = $1";
    let (day, noon) = (calendar::DAY * 366, calendar::DAY * 366 + 43_200_500_000);
    for (of, zone) in [(oid::TIMESTAMP, ""), (oid::TIMESTAMPTZ, "+00")] {
        let text = format!("2001-01-01 12:00:00.5{zone}");
        let binary = |it: i64| instead_in(COMPARES, of, &it.to_be_bytes(), true);
        assert_eq!(binary(noon).as_deref(), Some(&*text));
        assert_eq!(binary(day), None, "midnight is that day");
        assert_eq!(binary(i64::MAX), None, "infinity is infinity");
        assert_eq!(instead_in(STORES, of, &noon.to_be_bytes(), true), None);
        let is_exact = |sql, text: &str| {
            let of_text = Parameters { is_utc: true, text: sql, ..Parameters::default() };
            of_text.is_exact_text(of, text.as_bytes(), || of_text.stored()(0))
        };
        assert!(is_exact(STORES, &text) && !is_exact(COMPARES, &text));
        assert!(is_exact(COMPARES, &format!("2001-01-01 00:00:00{zone}")));
        assert!(!is_exact(COMPARES, &format!("2001-01-01 00:00:00.5{zone}")));
    }
    let mut array =
        [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 90, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 8].to_vec();
    array.extend_from_slice(&noon.to_be_bytes());
    let any = "select * from t where c = any($1)";
    let text = instead_in(any, 1115, &array, true);
    assert_eq!(text.as_deref(), Some("{\"2001-01-01 12:00:00.5\"}"));
}

/// P56. A moment of a language that has no type for a `timestamp` alone.
#[test]
fn a_moment_that_goes_to_both_types_goes_by_name_where_they_have_one_wall_clock() {
    let mut text = Vec::new();
    let noon = calendar::DAY * 366 + 43_200_500_000;
    assert!(put_moment(oid::TIMESTAMPTZ, &noon.to_be_bytes(), &mut text).is_some());
    assert_eq!(text, b"2001-01-01 12:00:00.5+00");
    assert!(put_moment(oid::DATE, &7_i32.to_be_bytes(), &mut Vec::new()).is_none());
    let first = [&[0, 0, 0, 1][..], &(text.len() as u32).to_be_bytes(), &text].concat();
    let of = |is_utc, moments: &[bool], type_oid| {
        let rest = Parameters { moments, text: STORES, ..Parameters::default() };
        Parameters { first: &first, is_utc, ..rest }.may_be_bound(&[type_oid])
    };
    for type_oid in [oid::TIMESTAMP, oid::TIMESTAMPTZ] {
        assert!(of(true, &[true], type_oid) && !of(false, &[true], type_oid));
    }
    assert!(!of(true, &[true], oid::DATE) && !of(true, &[], oid::TIMESTAMP));
}
