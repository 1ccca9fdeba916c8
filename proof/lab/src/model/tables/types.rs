//! The types that columns can have: what a server makes of a text, of a binary form, and of a value
//! of another type. The results are those of PostgreSQL for the values that the simulation sends.

use onetrip_postgres::binary::{calendar, numeric};

use super::super::reply::code;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// int4
    Int4,
    /// int8
    Int8,
    /// float4
    Float4,
    /// float8
    Float8,
    /// numeric
    Numeric,
    /// text
    Text,
    /// date
    Date,
    /// timestamp
    Timestamp,
    /// timestamptz
    Timestamptz,
    /// inet, whose binary form clients don't read.
    Inet,
    /// An enum with this oid. Each one has the labels of [`LABELS`].
    Enum(u32),
}

/// The labels of every enum.
pub const LABELS: [&str; 2] = ["red", "green"];

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of int4 and int8.
    Whole(i64),
    /// Of float4.
    Float4(f32),
    /// Of float8.
    Float8(f64),
    /// Of date: days from 2000-01-01.
    Days(i64),
    /// Of timestamp and timestamptz: microseconds from 2000-01-01, in UTC for the latter.
    Micros(i64),
    /// Of all others: the canonical text.
    Text(String),
}

/// The SQLSTATE of what can't be done.
pub(in super::super) type Refused = &'static str;

const HOUR: i64 = 3_600_000_000;

impl Type {
    /// Types that a column can be changed to, and one enum for all.
    pub const ALL: [Type; 11] = [
        Type::Int4,
        Type::Int8,
        Type::Float4,
        Type::Float8,
        Type::Numeric,
        Type::Text,
        Type::Date,
        Type::Timestamp,
        Type::Timestamptz,
        Type::Inet,
        Type::Enum(0),
    ];

    /// Its number (src/include/catalog/pg_type.dat).
    #[must_use]
    pub fn oid(self) -> u32 {
        match self {
            Type::Int4 => 23,
            Type::Int8 => 20,
            Type::Float4 => 700,
            Type::Float8 => 701,
            Type::Numeric => 1700,
            Type::Text => 25,
            Type::Date => 1082,
            Type::Timestamp => 1114,
            Type::Timestamptz => 1184,
            Type::Inet => 869,
            Type::Enum(oid) => oid,
        }
    }

    /// The type of this number, if it is built in.
    #[must_use]
    pub fn of(oid: u32) -> Option<Type> {
        Type::ALL.into_iter().find(|type_| type_.oid() == oid && oid != 0)
    }

    /// The value of a text: the type's input function. `zone`: hours that the session's time zone is
    /// ahead of UTC.
    ///
    /// # Errors
    /// The text is none of a value.
    pub fn read(self, text: &str, zone: i64) -> Result<Value, Refused> {
        match self {
            Type::Int4 => whole(text, i64::from(i32::MIN), i64::from(i32::MAX)),
            Type::Int8 => whole(text, i64::MIN, i64::MAX),
            Type::Float4 => number(text).map(Value::Float4),
            Type::Float8 => number(text).map(Value::Float8),
            Type::Numeric => decimal(text).map(Value::Text),
            Type::Text => Ok(Value::Text(text.to_owned())),
            Type::Date => moment(text).map(|(days, ..)| Value::Days(days)),
            Type::Timestamp => {
                moment(text).map(|(days, micros, _)| Value::Micros(days * calendar::DAY + micros))
            }
            Type::Timestamptz => moment(text).map(|(days, micros, ahead)| {
                let ahead = ahead.unwrap_or(zone) * HOUR;
                Value::Micros(days * calendar::DAY + micros - ahead)
            }),
            Type::Inet => match text.split('.').filter(|it| it.parse::<u8>().is_ok()).count() {
                4 => Ok(Value::Text(text.to_owned())),
                _ => Err(code::INVALID_TEXT),
            },
            Type::Enum(_) if LABELS.contains(&text) => Ok(Value::Text(text.to_owned())),
            Type::Enum(_) => Err(code::INVALID_TEXT),
        }
    }

    /// The text of a value: the type's output function.
    #[must_use]
    pub fn write(self, value: &Value, zone: i64) -> String {
        match value {
            Value::Whole(number) => number.to_string(),
            Value::Float4(number) => number.to_string(),
            Value::Float8(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            Value::Days(days) => date_text(*days),
            Value::Micros(micros) if self == Type::Timestamptz => {
                format!("{}{zone:+03}", moment_text(micros + zone * HOUR))
            }
            Value::Micros(micros) => moment_text(*micros),
        }
    }

    /// The value of a binary form: the type's receive function.
    ///
    /// # Errors
    /// The bytes are none of a value.
    pub fn receive(self, bytes: &[u8]) -> Result<Value, Refused> {
        // A message that ends too early is one of its own (pq_copymsgbytes).
        let wrong = |len| if bytes.len() < len { code::PROTOCOL } else { code::INVALID_BINARY };
        let eight = || <[u8; 8]>::try_from(bytes).map_err(|_| wrong(8));
        let four = || <[u8; 4]>::try_from(bytes).map_err(|_| wrong(4));
        match self {
            Type::Int4 => Ok(Value::Whole(i32::from_be_bytes(four()?).into())),
            Type::Int8 => Ok(Value::Whole(i64::from_be_bytes(eight()?))),
            Type::Float4 => Ok(Value::Float4(f32::from_be_bytes(four()?))),
            Type::Float8 => Ok(Value::Float8(f64::from_be_bytes(eight()?))),
            Type::Date => Ok(Value::Days(i32::from_be_bytes(four()?).into())),
            Type::Timestamp | Type::Timestamptz => Ok(Value::Micros(i64::from_be_bytes(eight()?))),
            Type::Numeric => {
                let number = numeric::read(bytes).map_err(|_| code::INVALID_BINARY)?;
                Ok(Value::Text(number.text()))
            }
            Type::Inet => match bytes {
                [2, 32, 0, 4, a, b, c, d] => Ok(Value::Text(format!("{a}.{b}.{c}.{d}"))),
                _ => Err(code::INVALID_BINARY),
            },
            Type::Text | Type::Enum(_) => {
                let text = std::str::from_utf8(bytes).map_err(|_| code::INVALID_BINARY)?;
                self.read(text, 0)
            }
        }
    }

    /// The binary form of a value: the type's send function.
    #[must_use]
    pub fn send(self, value: &Value) -> Vec<u8> {
        match (self, value) {
            (Type::Int4, Value::Whole(number)) => (*number as i32).to_be_bytes().to_vec(),
            (_, Value::Whole(number) | Value::Micros(number)) => number.to_be_bytes().to_vec(),
            (_, Value::Float4(number)) => number.to_be_bytes().to_vec(),
            (_, Value::Float8(number)) => number.to_be_bytes().to_vec(),
            (_, Value::Days(days)) => (*days as i32).to_be_bytes().to_vec(),
            (Type::Numeric, Value::Text(text)) => {
                let mut out = Vec::new();
                numeric::put(&mut out, &numeric::parse(text).expect("it was read as a number"));
                out
            }
            (Type::Inet, Value::Text(text)) => {
                let parts = text.split('.').filter_map(|it| it.parse::<u8>().ok());
                [2, 32, 0, 4].into_iter().chain(parts).collect()
            }
            (_, Value::Text(text)) => text.clone().into_bytes(),
        }
    }

    /// Whether a value of another type is cast to this one when it is assigned to a column: what
    /// `pg_cast` has as implicit or for assignments, and anything to text.
    #[must_use]
    pub fn takes(self, from: Type) -> bool {
        use Type::{Date, Float4, Float8, Int4, Int8, Numeric, Text, Timestamp, Timestamptz};
        let is_number = |it| matches!(it, Int4 | Int8 | Float4 | Float8 | Numeric);
        let is_time = |it| matches!(it, Date | Timestamp | Timestamptz);
        self == from
            || self == Text
            || is_number(self) && is_number(from)
            || is_time(self) && is_time(from)
    }

    /// The value of another type, cast to this one.
    ///
    /// # Errors
    /// It is out of range, or there is no such cast.
    pub fn cast(self, from: Type, value: Value, zone: i64) -> Result<Value, Refused> {
        let text = from.write(&value, zone);
        match (self, value) {
            _ if !self.takes(from) => Err(code::DATATYPE),
            (_, value) if self == from => Ok(value),
            (Type::Text, _) => Ok(Value::Text(text)),
            (Type::Float4, Value::Float8(it)) => Ok(Value::Float4(it as f32)),
            (Type::Float8, Value::Float4(it)) => Ok(Value::Float8(it.into())),
            // FLT_DIG and DBL_DIG.
            (Type::Numeric, Value::Float4(it)) => Ok(Value::Text(rounded(it.into(), 6))),
            (Type::Numeric, Value::Float8(it)) => Ok(Value::Text(rounded(it, 15))),
            (Type::Int4 | Type::Int8, Value::Float4(it)) => self.whole_of(f64::from(it)),
            (Type::Int4 | Type::Int8, Value::Float8(it)) => self.whole_of(it),
            (Type::Int4 | Type::Int8, Value::Text(it)) => self.read(&without_part(&it), zone),
            (Type::Timestamp, Value::Days(days)) => Ok(Value::Micros(days * calendar::DAY)),
            (Type::Timestamptz, Value::Days(days)) => {
                Ok(Value::Micros(days * calendar::DAY - zone * HOUR))
            }
            (Type::Date, Value::Micros(at)) => {
                let ahead = if from == Type::Timestamptz { zone * HOUR } else { 0 };
                Ok(Value::Days((at + ahead).div_euclid(calendar::DAY)))
            }
            (Type::Timestamp, Value::Micros(at)) => Ok(Value::Micros(at + zone * HOUR)),
            (Type::Timestamptz, Value::Micros(at)) => Ok(Value::Micros(at - zone * HOUR)),
            _ => self.read(&text, zone),
        }
    }

    fn whole_of(self, number: f64) -> Result<Value, Refused> {
        // The nearest, and the even one of two.
        self.read(&format!("{}", number.round_ties_even()), 0).map_err(|_| code::OUT_OF_RANGE)
    }
}

fn whole(text: &str, least: i64, most: i64) -> Result<Value, Refused> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return Err(code::INVALID_TEXT);
    }
    let number = text.parse::<i64>().map_err(|_| code::OUT_OF_RANGE)?;
    let fits = (least..=most).contains(&number);
    fits.then_some(Value::Whole(number)).ok_or(code::OUT_OF_RANGE)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, Refused> {
    let is_number = text.bytes().all(|it| it.is_ascii_digit() || b"+-.e".contains(&it));
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or(code::INVALID_TEXT)
}

/// A decimal as numeric prints it.
fn decimal(text: &str) -> Result<String, Refused> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (front, part) = digits.split_once('.').unwrap_or((digits, ""));
    let are_digits = |it: &str| it.bytes().all(|it| it.is_ascii_digit());
    if front.is_empty() || !are_digits(front) || !are_digits(part) {
        return Err(code::INVALID_TEXT);
    }
    let front = front.trim_start_matches('0');
    let front = if front.is_empty() { "0" } else { front };
    let point = if part.is_empty() { "" } else { "." };
    let is_zero = front == "0" && part.bytes().all(|it| it == b'0');
    Ok(format!("{}{front}{point}{part}", if is_zero { "" } else { sign }))
}

/// A decimal without what is behind its point, to which it is rounded.
fn without_part(decimal: &str) -> String {
    let Some((front, part)) = decimal.split_once('.') else { return decimal.to_owned() };
    let number = front.parse::<i128>().unwrap_or(i128::MAX);
    let away = i128::from(part.as_bytes().first().is_some_and(|it| *it >= b'5'));
    let away = if decimal.starts_with('-') { -away } else { away };
    number.saturating_add(away).to_string()
}

/// A float as a decimal of so many digits.
fn rounded(number: f64, digits: usize) -> String {
    let text = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let sign = if mantissa.starts_with('-') { "-" } else { "" };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = 1 + exponent.parse::<i64>().unwrap_or(0);
    let (front, part) = match usize::try_from(point) {
        Ok(point) if point >= digits.len() => {
            (format!("{digits}{}", "0".repeat(point - digits.len())), String::new())
        }
        Ok(point) if point > 0 => (digits[..point].to_owned(), digits[point..].to_owned()),
        _ => ("0".to_owned(), format!("{}{digits}", "0".repeat(point.unsigned_abs() as usize))),
    };
    let part = part.trim_end_matches('0');
    let text = if part.is_empty() { front } else { format!("{front}.{part}") };
    decimal(&format!("{sign}{text}")).unwrap_or(text)
}

/// `2020-01-01`, with or without ` 12:00:00`, with or without `+05`: the day, the time, and the
/// hours ahead of UTC.
fn moment(text: &str) -> Result<(i64, i64, Option<i64>), Refused> {
    let read = || -> Option<(i64, i64, Option<i64>)> {
        let (date, rest) = text.split_at_checked(10)?;
        let mut parts = date.split('-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        let days = calendar::days(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
        if rest.is_empty() {
            return Some((days, 0, None));
        }
        let (time, zone) = rest.strip_prefix(' ')?.split_at_checked(8)?;
        let mut parts = time.split(':').map(|it| it.parse().ok());
        let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
        let ahead = if zone.is_empty() { None } else { Some(zone.parse().ok()?) };
        Some((days, calendar::micros(hour, minute, second, 0), ahead))
    };
    read().ok_or(code::INVALID_TIME)
}

fn date_text(days: i64) -> String {
    let (year, month, day) = calendar::civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

fn moment_text(micros: i64) -> String {
    let (days, time) = (micros.div_euclid(calendar::DAY), micros.rem_euclid(calendar::DAY));
    let (hour, minute, second, _) = calendar::clock(time);
    format!("{} {hour:02}:{minute:02}:{second:02}", date_text(days))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text as one type, assigned to a column of another.
    fn detour(from: Type, text: &str, to: Type) -> Result<String, Refused> {
        let value = from.read(text, 0)?;
        to.cast(from, value, 0).map(|value| to.write(&value, 0))
    }

    /// From issues of other drivers; each was seen on a server.
    #[test]
    fn a_detour_by_another_type_stores_what_the_server_would() {
        use Type::{Date, Float4, Float8, Int4, Int8, Numeric, Text, Timestamp, Timestamptz};
        for (from, text, to, stored) in [
            (Timestamp, "2020-01-01 12:00:00+05", Timestamptz, Ok("2020-01-01 12:00:00+00")),
            (Timestamptz, "2020-01-01 12:00:00+05", Timestamptz, Ok("2020-01-01 07:00:00+00")),
            (Int4, "007", Text, Ok("7")),
            (Float4, "0.12345678901234567", Numeric, Ok("0.123457")),
            (Float4, "0.1", Float8, Ok("0.10000000149011612")),
            (Date, "2020-01-01 12:30:00", Timestamp, Ok("2020-01-01 00:00:00")),
            (Int8, "9999999999", Int4, Err(code::OUT_OF_RANGE)),
            (Numeric, "2.5", Int4, Ok("3")),
            (Float8, "2.5", Int4, Ok("2")),
            (Text, "7", Int4, Err(code::DATATYPE)),
            (Float8, "1000001", Numeric, Ok("1000001")),
            (Float4, "0.00001", Numeric, Ok("0.00001")),
        ] {
            assert_eq!(detour(from, text, to).as_deref(), stored.as_deref(), "{from:?} {to:?}");
        }
    }

    #[test]
    fn a_value_survives_its_text_and_its_binary_form() {
        for (type_, text) in [
            (Type::Int4, "-5"),
            (Type::Int8, "9223372036854775807"),
            (Type::Float4, "0.1"),
            (Type::Float8, "0.25"),
            (Type::Numeric, "12345678901234567890.50"),
            (Type::Text, "a b "),
            (Type::Date, "2020-02-29"),
            (Type::Timestamp, "1999-12-31 23:59:59"),
            (Type::Timestamptz, "2020-01-01 15:00:00+03"),
            (Type::Inet, "10.0.0.1"),
            (Type::Enum(16_384), "green"),
        ] {
            let value = type_.read(text, 3).expect("it is one of its values");
            assert_eq!(type_.write(&value, 3), text);
            assert_eq!(type_.receive(&type_.send(&value)), Ok(value), "{type_:?}");
        }
    }
}
