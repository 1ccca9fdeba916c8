//! Ranges without a server.
#![allow(clippy::unwrap_used)]

use std::ops::Bound::{Excluded, Included, Unbounded};

use super::*;
use crate::types::Numeric;

#[test]
fn texts_are_written_as_they_were_read() {
    for text in ["[1,5)", "(1,5]", "[-3,3]", "(,)", "[1,)", "(,-7)", "empty"] {
        assert_eq!(text.parse::<Range<i32>>().unwrap().to_string(), text);
    }
    for text in ["{}", "{[1,2)}", "{(,1),[3,4],(7,)}"] {
        assert_eq!(text.parse::<Multirange<i32>>().unwrap().to_string(), text);
    }
}

#[test]
fn bounds_are_quoted_where_they_have_to_be() {
    for (bound, text) in [
        ("a", "[a,)"),
        ("", "[\"\",)"),
        ("a b", "[\"a b\",)"),
        ("x,y", "[\"x,y\",)"),
        ("\"", "[\"\"\"\",)"),
        ("\\", "[\"\\\\\",)"),
        ("(]", "[\"(]\",)"),
        ("ü", "[ü,)"),
        ("\u{b}", "[\"\u{b}\",)"),
    ] {
        let range = Range::from(bound.to_owned()..);
        assert_eq!(range.to_string(), text);
        assert_eq!(text.parse(), Ok(range), "{text}");
    }
    let same: Range<String> = "[a\\,\"b\",\"\"\"\\c\"]".parse().unwrap();
    assert_eq!(same, Range::from("a,b".to_owned()..="\"c".to_owned()));
}

#[test]
fn what_is_no_range_is_refused_without_being_shown() {
    for text in [
        "", "[", "[1", "[1,", "[1,2", "1,2", "[1]", "[1,2,3]", "[a,b]", "[1,2)x", "{1}", "[(1,2)",
        "em", "[\"1,2)", "[1,2\\", "nüll",
    ] {
        let error = text.parse::<Range<i32>>().unwrap_err();
        assert!(error.to_string().contains("range"), "{text}");
    }
    for text in ["", "{", "}", "{[1,2)", "{[1,2),}", "{,}", "{[1,2)[3,4)}", "[1,2)"] {
        assert!(text.parse::<Multirange<i32>>().is_err(), "{text}");
    }
}

#[test]
fn blanks_around_ranges_are_skipped() {
    assert_eq!(" [1,2) ".parse(), Ok(Range::from(1..2)));
    assert_eq!(" EMPTY ".parse(), Ok(Range::<i32>::Empty));
    let two = Multirange::from(vec![Range::from(1..2), Range::from(3..4)]);
    assert_eq!(" { [1,2) , [3,4) } ".parse(), Ok(two));
}

#[test]
fn the_ranges_of_rust_are_ranges() {
    assert_eq!(Range::from(1..2), Range::new(Included(1), Excluded(2)));
    assert_eq!(Range::from(1..=2), Range::new(Included(1), Included(2)));
    assert_eq!(Range::from(1..), Range::new(Included(1), Unbounded));
    assert_eq!(Range::from(..2), Range::new(Unbounded, Excluded(2)));
    assert_eq!(Range::from(..=2), Range::new(Unbounded, Included(2)));
    assert_eq!(Range::<i32>::from(..), Range::new(Unbounded, Unbounded));
    assert_eq!(Range::from(1..2).map(i64::from), Range::from(1_i64..2));
}

#[test]
fn a_value_is_in_a_range_or_not() {
    let range = Range::new(Excluded(Numeric::from(1)), Included(Numeric::from(3)));
    let inside: Vec<i32> = (0..5).filter(|i| range.contains(&Numeric::from(*i))).collect();
    assert_eq!(inside, [2, 3]);
    assert!(!Range::Empty.contains(&1) && Range::from(..).contains(&1));
    assert_eq!((range.lower(), Range::<i32>::Empty.upper()), (Some(&Excluded(1.into())), None));
}
