//! Describes the kind of a value that could not be read, for an error that must not show the value.

use std::borrow::Cow;

use postgres_types::{Kind, Type};

use super::checks::dimensions;
use super::reader::Reader;

/// The kind of a value, as its type shows it, or its length.
pub(crate) fn value_kind(type_: &Type, raw: &[u8]) -> Cow<'static, str> {
    if let Kind::Domain(of) = type_.kind() {
        return value_kind(of, raw);
    }
    special(type_, raw)
        .map_or_else(|| format!("a value of {} bytes", raw.len()).into(), Cow::Borrowed)
}

fn special(type_: &Type, raw: &[u8]) -> Option<&'static str> {
    let reader = Reader::new(raw);
    match type_.kind() {
        Kind::Array(_) => array(reader),
        Kind::Enum(labels) => {
            let known = labels.iter().any(|label| label.as_bytes() == raw);
            (!known).then_some("a label that the enum did not have when its type was learned")
        }
        Kind::Range(_) => (raw == [1]).then_some("an empty range"),
        _ => match *type_ {
            Type::NUMERIC => numeric(reader),
            Type::DATE => infinity(raw, &i32::MAX.to_be_bytes(), &i32::MIN.to_be_bytes()),
            Type::TIMESTAMP | Type::TIMESTAMPTZ => {
                infinity(raw, &i64::MAX.to_be_bytes(), &i64::MIN.to_be_bytes())
            }
            Type::TIME => (raw == 86_400_000_000_i64.to_be_bytes()).then_some("24:00"),
            _ => None,
        },
    }
}

fn array(mut reader: Reader<'_>) -> Option<&'static str> {
    const DIMENSIONS: [&str; 7] = [
        "an empty array",
        "an array of one dimension",
        "an array of two dimensions",
        "an array of three dimensions",
        "an array of four dimensions",
        "an array of five dimensions",
        "an array of six dimensions",
    ];
    DIMENSIONS.get(dimensions(&mut reader).ok()?.len()).copied()
}

fn numeric(mut reader: Reader<'_>) -> Option<&'static str> {
    let (_count, _weight) = (reader.u16().ok()?, reader.i16().ok()?);
    match reader.u16().ok()? {
        0xc000 => Some("NaN"),
        0xd000 => Some("infinity"),
        0xf000 => Some("-infinity"),
        _ => None,
    }
}

fn infinity(raw: &[u8], positive: &[u8], negative: &[u8]) -> Option<&'static str> {
    match raw {
        _ if raw == positive => Some("infinity"),
        _ if raw == negative => Some("-infinity"),
        _ => None,
    }
}
