//! What a program in Rust sends for a value of a case, and what it sees of the values it reads.

use std::error::Error as StdError;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

use onetrip::types::{FromSql, Interval, Kind, Numeric, ToSql, Type};
use onetrip::{Column, Error, Row, RowRef};
use serde_json::Value;

/// What is sent for a value.
#[derive(Debug)]
pub(super) enum Sent {
    Null(Option<String>),
    Text(String),
    Int(i32),
    Large(i64),
    Float(f64),
    Bool(bool),
    Bytes(Vec<u8>),
    Time(SystemTime),
    Interval(Interval),
    Numeric(Numeric),
    Ints(Vec<i32>),
    Larges(Vec<i64>),
    Floats(Vec<f64>),
    Times(Vec<SystemTime>),
    Texts(Vec<String>),
}

impl Sent {
    pub(super) fn of(given: &Value) -> Sent {
        let Some((kind, value)) = given.as_object().and_then(|it| it.iter().next()) else {
            return Sent::Null(None);
        };
        let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match kind.as_str() {
            "int" => {
                let number: i64 = text().parse().unwrap();
                i32::try_from(number).map_or(Sent::Large(number), Sent::Int)
            }
            "float" => Sent::Float(value.as_f64().unwrap()),
            "bool" => Sent::Bool(value == true),
            "bytes" => Sent::Bytes(bytes_of(&text())),
            "timestamptz" => Sent::Time(time_of(&text())),
            "interval" => {
                let micros = value.as_f64().unwrap() * 1e6;
                Sent::Interval(Interval::new(0, 0, micros as i64))
            }
            "decimal" => Sent::Numeric(text().parse().unwrap()),
            "array" => Sent::array(value.as_array().unwrap()),
            "composite" => Sent::Text(composite(value.as_array().unwrap())),
            _ => Sent::Text(text()),
        }
    }

    fn array(values: &[Value]) -> Sent {
        let all: Vec<Sent> = values.iter().map(Sent::of).collect();
        macro_rules! all_are {
            ($kind:ident, $list:ident) => {
                if all.iter().all(|it| matches!(it, Sent::$kind(_))) {
                    let taken = all.into_iter().filter_map(|it| match it {
                        Sent::$kind(it) => Some(it),
                        _ => None,
                    });
                    return Sent::$list(taken.collect());
                }
            };
        }
        all_are!(Int, Ints);
        all_are!(Large, Larges);
        all_are!(Float, Floats);
        all_are!(Time, Times);
        all_are!(Text, Texts);
        panic!("an array of several kinds: {values:?}");
    }

    pub(super) fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Sent::Null(it) => it,
            Sent::Text(it) => it,
            Sent::Int(it) => it,
            Sent::Large(it) => it,
            Sent::Float(it) => it,
            Sent::Bool(it) => it,
            Sent::Bytes(it) => it,
            Sent::Time(it) => it,
            Sent::Interval(it) => it,
            Sent::Numeric(it) => it,
            Sent::Ints(it) => it,
            Sent::Larges(it) => it,
            Sent::Floats(it) => it,
            Sent::Times(it) => it,
            Sent::Texts(it) => it,
        }
    }

    /// The same as a literal, as psql would send it; `None` where that depends on what is asked.
    pub(super) fn literal(&self) -> Option<String> {
        Some(match self {
            Sent::Null(_) => "null".to_owned(),
            Sent::Text(it) => format!("'{}'", it.replace('\'', "''")),
            Sent::Int(it) => format!("'{it}'::int4"),
            Sent::Large(it) => format!("'{it}'::int8"),
            Sent::Float(it) => format!("'{it}'::float8"),
            Sent::Bool(it) => format!("'{it}'::bool"),
            Sent::Interval(it) => format!("'{it}'::interval"),
            Sent::Numeric(it) => format!("'{it}'::numeric"),
            _ => return None,
        })
    }
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn composite(fields: &[Value]) -> String {
    let field = |given: &Value| match Sent::of(given) {
        Sent::Int(it) => it.to_string(),
        Sent::Large(it) => it.to_string(),
        Sent::Float(it) => it.to_string(),
        Sent::Null(_) => String::new(),
        _ => {
            format!("\"{}\"", given.as_object().unwrap().values().next().unwrap().as_str().unwrap())
        }
    };
    format!("({})", fields.iter().map(field).collect::<Vec<_>>().join(","))
}

/// Reads `2020-01-01T12:00:00+05:00`, or with Z.
fn time_of(text: &str) -> SystemTime {
    let part = |from: usize, to: usize| text[from..to].parse::<i64>().unwrap();
    let (year, month, day) = (part(0, 4), part(5, 7), part(8, 10));
    // Howard Hinnant's days_from_civil, for years since 0.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, month) = (year / 400, (month + 9) % 12);
    let (of_era, of_year) = (year - era * 400, (153 * month + 2) / 5 + day - 1);
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let offset = match &text[19..] {
        "Z" => 0,
        zone => zone[..3].parse::<i64>().unwrap() * 3600,
    };
    let seconds = days * 86_400 + part(11, 13) * 3600 + part(14, 16) * 60 + part(17, 19) - offset;
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds as u64)
}

/// A value that was read, with the type that its column is said to have. Numbers of types that a
/// database has given itself are left out.
struct Shown(String);

impl<'a> FromSql<'a> for Shown {
    fn from_sql(type_: &Type, raw: &'a [u8]) -> Result<Shown, Box<dyn StdError + Sync + Send>> {
        let mut out = String::new();
        show(type_, raw, &mut out).unwrap_or_else(|| write!(out, "unreadable {raw:x?}").unwrap());
        Ok(Shown(out))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn show(type_: &Type, raw: &[u8], out: &mut String) -> Option<()> {
    write!(out, "{} ", type_.name()).ok()?;
    let int = |at: usize| Some(i32::from_be_bytes(raw.get(at..at + 4)?.try_into().ok()?));
    let part = |out: &mut String, of: &Type, at: usize| {
        let len = int(at)?;
        let Ok(len) = usize::try_from(len) else {
            out.push_str("null ");
            return Some(at + 4);
        };
        show(of, raw.get(at + 4..at + 4 + len)?, out)?;
        Some(at + 4 + len)
    };
    match type_.kind() {
        Kind::Domain(of) => show(of, raw, out)?,
        Kind::Enum(_) => out.push_str(str::from_utf8(raw).ok()?),
        Kind::Array(of) => {
            write!(out, "{:x?}", raw.get(12..12 + 8 * usize::try_from(int(0)?).ok()?)?).ok()?;
            let mut at = 12 + 8 * usize::try_from(int(0)?).ok()?;
            while at < raw.len() {
                at = part(out, of, at)?;
            }
        }
        Kind::Composite(fields) => {
            write!(out, "{} attributes: ", int(0)?).ok()?;
            let mut at = 4;
            for field in fields {
                let said = int(at)? as u32;
                write!(
                    out,
                    "{}{} ",
                    field.name(),
                    if said == field.type_().oid() { "" } else { " of another type" }
                )
                .ok()?;
                at = part(out, field.type_(), at + 4)?;
            }
        }
        _ => match str::from_utf8(raw) {
            Ok(text) if is_text(type_) => out.push_str(text),
            _ => raw.iter().try_for_each(|byte| write!(out, "{byte:02x}").ok())?,
        },
    }
    Some(())
}

fn is_text(type_: &Type) -> bool {
    matches!(type_.name(), "text" | "varchar" | "bpchar" | "name" | "json" | "citext" | "unknown")
}

/// A row of a result or of a stream.
pub(super) trait Columns {
    fn all(&self) -> &[Column];
    fn value(&self, at: usize) -> Result<Option<String>, Error>;
}

macro_rules! columns {
    ($of:ty) => {
        impl Columns for $of {
            fn all(&self) -> &[Column] {
                self.columns()
            }

            fn value(&self, at: usize) -> Result<Option<String>, Error> {
                Ok(self.try_get::<Option<Shown>>(at)?.map(|Shown(value)| value))
            }
        }
    };
}

columns!(Row);
columns!(RowRef<'_>);

/// A row as text, with the types of its columns. The number of the use's own row is left out.
pub(super) fn shown(row: &impl Columns, id: i32) -> String {
    let own = [format!("int4 {id:08x}"), format!("int8 {id:016x}")];
    let column = |(at, column): (usize, &Column)| {
        let value = match row.value(at) {
            Ok(Some(value)) if own.contains(&value) => "own".to_owned(),
            Ok(Some(value)) => value,
            Ok(None) => format!("{} null", column.type_().name()),
            Err(error) => format!("unreadable: {error}"),
        };
        format!("{}: {value}", column.name())
    };
    row.all().iter().enumerate().map(column).collect::<Vec<_>>().join(", ")
}
