//! Values as texts: a value that was read is written, and must be read again as the same.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use onetrip::types::{Interval, Multirange, Numeric, Range, TimeTz};

use crate::input::{Input, show_debug, text};

/// A byte that says which type it is, and a text.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = input.u8();
    let text = text(input.rest());
    match kind % 8 {
        0 => numeric(text),
        1 => interval(text),
        2 => same::<TimeTz>(text),
        3 => same::<Range<i32>>(text),
        4 => same::<Range<Numeric>>(text),
        5 => same::<Range<String>>(text),
        6 => same::<Multirange<i64>>(text),
        _ => same::<Multirange<String>>(text),
    }
}

fn same<T: FromStr<Err: Debug> + Display + PartialEq + Debug>(text: &str) {
    let Ok(value) = text.parse::<T>() else { return };
    show_debug(&value);
    let written = value.to_string();
    assert_eq!(written.parse::<T>().expect("what was written can be read"), value, "{written}");
}

fn numeric(text: &str) {
    same::<Numeric>(text);
    let Ok(value) = text.parse::<Numeric>() else { return };
    if let Ok(decimal) = rust_decimal::Decimal::try_from(value.clone()) {
        assert_eq!(Numeric::from(decimal), value);
    }
    if let Ok(decimal) = bigdecimal::BigDecimal::try_from(value.clone()) {
        assert_eq!(Numeric::try_from(decimal).expect("it was one"), value);
    }
    if let Ok(number) = i64::try_from(value.clone()) {
        assert_eq!(Numeric::from(number), value);
    }
}

fn interval(text: &str) {
    same::<Interval>(text);
    let Ok(value) = text.parse::<Interval>() else { return };
    let iso = value.iso_8601().to_string();
    assert_eq!(iso.parse::<Interval>().expect("ISO 8601 can be read"), value, "{iso}");
}
