//! What a variable may hold, and how it gets into a statement.

use std::error::Error as StdError;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use onetrip::types::{Format, IsNull, ToSql, Type};

use super::expr::{format_double, shortened};

/// A value of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
}

/// A value of a variable.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Scalar(Scalar),
    /// From the command line or from the server: what it is shows when an expression looks at it.
    Text(Arc<str>),
}

impl Scalar {
    pub(super) fn to_int(self) -> Result<i64, String> {
        match self {
            Scalar::Int(value) => Ok(value),
            Scalar::Double(value) => {
                let rounded = value.round_ties_even();
                // 2^63 is the first that doesn't fit; its negative does.
                let fits = (-(2f64.powi(63))..2f64.powi(63)).contains(&rounded);
                match fits {
                    true => Ok(rounded as i64),
                    false => Err(format!("double to int overflow for {value}")),
                }
            }
            _ => Err(self.not_as("int")),
        }
    }

    pub(super) fn to_double(self) -> Result<f64, String> {
        match self {
            Scalar::Int(value) => Ok(value as f64),
            Scalar::Double(value) => Ok(value),
            _ => Err(self.not_as("double")),
        }
    }

    pub(super) fn to_bool(self) -> Result<bool, String> {
        match self {
            Scalar::Bool(value) => Ok(value),
            _ => Err(self.not_as("boolean")),
        }
    }

    /// Whether it is a condition that holds.
    pub(super) fn is_truthy(self) -> bool {
        match self {
            Scalar::Null => false,
            Scalar::Bool(value) => value,
            Scalar::Int(value) => value != 0,
            Scalar::Double(value) => value != 0.0,
        }
    }

    /// As IS asks: of the same type, and the same.
    pub(super) fn is(self, other: Scalar) -> bool {
        self == other
    }

    fn type_name(self) -> &'static str {
        match self {
            Scalar::Null => "null",
            Scalar::Bool(_) => "boolean",
            Scalar::Int(_) => "int",
            Scalar::Double(_) => "double",
        }
    }

    fn not_as(self, wanted: &str) -> String {
        format!("cannot coerce {} to {wanted}", self.type_name())
    }

    /// With its type in front, as `debug` shows it.
    pub(super) fn described(self) -> String {
        match self {
            Scalar::Null => "null".into(),
            value => format!("{} {value}", value.type_name()),
        }
    }
}

/// As it stands in a statement.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Null => f.write_str("NULL"),
            Scalar::Bool(value) => value.fmt(f),
            Scalar::Int(value) => value.fmt(f),
            Scalar::Double(value) => f.write_str(&format_double(*value)),
        }
    }
}

impl Value {
    /// What an expression sees.
    pub(super) fn to_scalar(&self, name: &str) -> Result<Scalar, String> {
        match self {
            Value::Scalar(value) => Ok(*value),
            Value::Text(text) => read(text).ok_or_else(|| {
                format!("malformed variable \"{name}\" value: \"{}\"", shortened(text))
            }),
        }
    }

    /// Writes it as it is, for the simple protocol.
    pub(super) fn write_plain(&self, out: &mut String) {
        match self {
            // A String takes all.
            Value::Scalar(value) => write!(out, "{value}").unwrap_or(()),
            Value::Text(text) => out.push_str(text),
        }
    }

    /// Writes it as a literal without a type.
    pub(super) fn write_literal(&self, out: &mut String) {
        if *self == Value::Scalar(Scalar::Null) {
            return out.push_str("NULL");
        }
        let start = out.len();
        self.write_plain(out);
        let plain = out.split_off(start);
        out.push_str(if plain.contains('\\') { " E'" } else { "'" });
        out.push_str(&plain.replace('\\', "\\\\").replace('\'', "''"));
        out.push('\'');
    }
}

/// What a text is: a word for a truth value and its beginnings, an integer, or a double.
fn read(text: &str) -> Option<Scalar> {
    let begins = |word: &str, least: usize| {
        text.len() >= least
            && word.get(..text.len()).is_some_and(|it| it.eq_ignore_ascii_case(text))
    };
    if text.is_empty() {
        return None;
    }
    if text.eq_ignore_ascii_case("null") {
        return Some(Scalar::Null);
    }
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) {
        return Some(Scalar::Bool(true));
    }
    if begins("false", 1) || begins("no", 1) || begins("off", 2) {
        return Some(Scalar::Bool(false));
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Scalar::Int);
    }
    text.trim().parse().ok().filter(|number: &f64| number.is_finite()).map(Scalar::Double)
}

/// As a parameter: text without a type, which the server reads as it would read a literal.
impl ToSql for Value {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Value::Scalar(Scalar::Null) => return Ok(IsNull::Yes),
            Value::Scalar(value) => write!(out.writer(), "{value}")?,
            Value::Text(text) => out.extend_from_slice(text.as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    fn to_sql_checked(
        &self,
        type_: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        self.to_sql(type_, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_can_not_be_left_by_its_value() {
        let literal = |text: &str| {
            let mut out = String::new();
            Value::Text(text.into()).write_literal(&mut out);
            out
        };
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal("a\\'; drop"), " E'a\\\\''; drop'");
        let mut out = String::new();
        Value::Scalar(Scalar::Null).write_literal(&mut out);
        assert_eq!(out, "NULL");
    }

    #[test]
    fn doubles_are_cut_to_the_integers_that_exist() {
        assert_eq!(Scalar::Double(-(2f64.powi(63))).to_int(), Ok(i64::MIN));
        assert!(Scalar::Double(2f64.powi(63)).to_int().is_err());
        assert!(Scalar::Double(f64::NAN).to_int().is_err());
    }
}
