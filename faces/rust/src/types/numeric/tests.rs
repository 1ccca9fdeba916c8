//! Numerics without a server.
#![allow(clippy::unwrap_used)]

use super::*;

fn numeric(text: &str) -> Numeric {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn hash(numeric: &Numeric) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    numeric.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn texts_are_written_as_they_were_read() {
    for text in [
        "0",
        "0.0",
        "0.000",
        "1",
        "-1",
        "9999",
        "10000",
        "100000000",
        "-0.1",
        "0.0001",
        "0.00001",
        "0.10000",
        "12345.678900",
        "1000000000000000000000000000000000000000000000000.5",
        "NaN",
        "Infinity",
        "-Infinity",
        "123456789012345678901234567890123456789012345678901234567890",
    ] {
        assert_eq!(numeric(text).to_string(), text);
    }
}

#[test]
fn other_ways_to_write_a_number_are_read() {
    for (text, same) in [
        ("+1", "1"),
        ("-0", "0"),
        ("-0.00", "0.00"),
        ("1.", "1"),
        (".5", "0.5"),
        ("007", "7"),
        ("1e3", "1000"),
        ("1.5e-3", "0.0015"),
        ("1.50E+1", "15.0"),
        ("0e5", "0"),
        ("0e-5", "0.00000"),
        ("nan", "NaN"),
        ("inf", "Infinity"),
        ("+INFINITY", "Infinity"),
        ("-inf", "-Infinity"),
        ("1e-4", "0.0001"),
        ("12e-5", "0.00012"),
        ("0.00012e5", "12"),
        ("0.00012e4", "1.2"),
    ] {
        assert_eq!(numeric(text).to_string(), same, "{text}");
    }
}

#[test]
fn what_is_no_number_is_refused_without_being_shown() {
    for text in ["", "-", ".", "e5", "1e", "1e+", "1x", "--1", "1.2.3", " 1", "-NaN", "1e5.0", "١"]
    {
        let error = text.parse::<Numeric>().unwrap_err();
        assert_eq!(error.to_string(), "it is not a number", "{text}");
    }
}

#[test]
fn digits_end_where_those_of_the_server_do() {
    assert_eq!(numeric("1e131071").to_string().len(), 131_072);
    assert_eq!(numeric("1e-16383").scale(), 16_383);
    for text in ["1e131072", "1e-16384", "0e-16384", "0e1073741823", "1e99999999999999999999"] {
        assert_eq!(text.parse::<Numeric>().unwrap_err(), OUT_OF_RANGE, "{text}");
    }
}

#[test]
fn order_equality_and_hash_go_by_value() {
    let ascending = [
        "-Infinity",
        "-1e100",
        "-10001",
        "-10000",
        "-1.5",
        "-1.4999",
        "-0.0001",
        "0",
        "1e-30",
        "0.5",
        "0.50001",
        "1",
        "1.0000001",
        "9999",
        "10000",
        "10000.1",
        "1e100",
        "Infinity",
        "NaN",
    ];
    for (i, a) in ascending.iter().enumerate() {
        for (j, b) in ascending.iter().enumerate() {
            assert_eq!(numeric(a).cmp(&numeric(b)), i.cmp(&j), "{a} and {b}");
            assert_eq!(numeric(a) == numeric(b), i == j, "{a} and {b}");
        }
    }
    for (a, b) in
        [("1.0", "1.00"), ("0", "0.000"), ("-5", "-5.0"), ("100", "100.00"), ("NaN", "nan")]
    {
        assert_eq!(numeric(a), numeric(b));
        assert_eq!(hash(&numeric(a)), hash(&numeric(b)));
    }
}

#[test]
fn integers_go_both_ways_and_nothing_is_rounded() {
    for value in [0, 1, -1, 42, 10_000, i128::from(i64::MIN), i128::MAX, i128::MIN] {
        assert_eq!(Numeric::from(value).to_string(), value.to_string());
        assert_eq!(i128::try_from(Numeric::from(value)), Ok(value));
    }
    assert_eq!(Numeric::from(u128::MAX).to_string(), u128::MAX.to_string());
    assert_eq!(u128::try_from(Numeric::from(u128::MAX)), Ok(u128::MAX));
    assert_eq!(i32::try_from(numeric("7.000")), Ok(7));
    assert_eq!(i32::try_from(numeric("1e5")), Ok(100_000));
    for (text, reason) in [
        ("7.001", "it is not a whole number"),
        ("NaN", "it is NaN"),
        ("-inf", "it is infinite"),
        ("1e100", "it is out of the range of the integer"),
        ("2147483648", "it is out of the range of the integer"),
    ] {
        assert_eq!(i32::try_from(numeric(text)).unwrap_err().to_string(), reason);
    }
    assert!(u8::try_from(numeric("-1")).is_err());
    assert!(i128::try_from(numeric("170141183460469231731687303715884105728")).is_err());
}

#[test]
fn a_coefficient_and_a_scale_are_a_number() {
    for (coefficient, scale, text) in [
        (1990, 2, "19.90"),
        (-5, 1, "-0.5"),
        (5, 4, "0.0005"),
        (5, 5, "0.00005"),
        (0, 3, "0.000"),
        (123_456_789, 0, "123456789"),
        (i128::MAX, 1, "17014118346046923173168730371588410572.7"),
    ] {
        let number = Numeric::from_i128_with_scale(coefficient, scale).unwrap();
        assert_eq!(number.to_string(), text);
        assert_eq!(number.to_i128_with_scale(scale), Some(coefficient), "{text}");
    }
    assert!(Numeric::from_i128_with_scale(1, Numeric::SCALE_MAX + 1).is_err());
    assert_eq!(numeric("1.5").to_i128_with_scale(0), None, "that would round");
    assert_eq!(numeric("1.5").to_i128_with_scale(5), Some(150_000));
    assert_eq!(numeric("1e40").to_i128_with_scale(0), None);
}

#[test]
fn a_float_is_the_nearest() {
    assert_eq!(numeric("0.1").to_f64(), 0.1);
    assert_eq!(numeric("1e400").to_f64(), f64::INFINITY);
    assert_eq!(numeric("-Infinity").to_f64(), f64::NEG_INFINITY);
    assert!(numeric("NaN").to_f64().is_nan());
}

#[test]
fn width_and_fill_are_heeded_and_nothing_is_cut_off() {
    assert_eq!(
        format!(
            "{:>8}|{:<8}|{:08.1}|{:+}",
            numeric("-1.50"),
            numeric("2"),
            numeric("-1.50"),
            numeric("3")
        ),
        "   -1.50|2       |-0001.50|+3"
    );
}

#[test]
fn a_numeric_is_small() {
    assert_eq!(size_of::<Numeric>(), 32);
    let inside = |text: &str| matches!(numeric(text).groups, Groups::Few { .. });
    assert!(inside(&"9".repeat(44)) && !inside(&"9".repeat(45)));
}
