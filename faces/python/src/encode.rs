//! Values as they are sent: in the binary form of the parameter's type. A str goes to any type, as
//! the text that it is.

use std::ops::RangeInclusive;
use std::sync::Arc;

use onetrip_client::completion::outcome;
use onetrip_postgres::binary::calendar::{self, Interval};
use onetrip_postgres::binary::{TooLong, array, numeric, put, put_count, range, vector_head};
use onetrip_postgres::message::Format;
use pyo3::exceptions::{PyException, PyKeyError, PyOverflowError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess,
    PyFloat, PyInt, PyIterator, PyList, PyMapping, PyMemoryView, PyString, PyTime, PyTimeAccess,
    PyTuple, PyTzInfo, PyTzInfoAccess,
};

use crate::call::unsent;
use crate::failure::{Cause, Failure};
use crate::python;
use crate::types::{self, Kind, Type};
use crate::whole;

/// Why a value can't be sent.
pub(crate) enum Unfit {
    /// It is of another type than this.
    Expected(&'static str),
    /// It is of the right type, but: …
    But(String),
    Python(PyErr),
}

impl From<PyErr> for Unfit {
    fn from(error: PyErr) -> Unfit {
        Unfit::Python(error)
    }
}

impl From<TooLong> for Unfit {
    fn from(_: TooLong) -> Unfit {
        Unfit::But("it is longer than the protocol has room for".to_owned())
    }
}

/// Values are nested so deeply at most: lists can contain themselves.
const DEPTH_MAX: usize = 64;

/// How deep in a parameter a value stands, and whether it is taken as by asyncpg.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    depth: usize,
    like_asyncpg: bool,
}

impl Place {
    fn outermost(like_asyncpg: bool) -> Place {
        Place { depth: 0, like_asyncpg }
    }

    fn inner(self) -> Place {
        Place { depth: self.depth + 1, ..self }
    }

    fn check(self) -> Result<(), Unfit> {
        match self.depth {
            0..=DEPTH_MAX => Ok(()),
            _ => Err(Unfit::But(format!("it is nested more than {DEPTH_MAX} deep"))),
        }
    }
}

/// Rows for a binary COPY, until there are this many bytes or there are no more. The inner error
/// names the place in a row. `strict`: values are taken as by asyncpg.
pub(crate) fn rows(
    (columns, strict): (&[Arc<Type>], bool),
    rows: &Bound<'_, PyIterator>,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> PyResult<Result<(), Failure>> {
    let of = Place::outermost(strict);
    while out.len() < bytes_max
        && let Some(row) = rows.clone().next()
    {
        let row = row?;
        let written = match (row.cast::<PyTuple>(), row.cast::<PyList>()) {
            (Ok(tuple), _) => one_row(columns, tuple.iter(), of, out),
            (_, Ok(list)) => one_row(columns, list.iter(), of, out),
            _ => match elements(&row) {
                Some(values) => one_row(columns, values.into_iter(), of, out),
                None => {
                    let name = row.get_type().name()?;
                    let why = format!("a row is a tuple or another sequence, and not a {name}");
                    Err(unsent("parameter", why))
                }
            },
        };
        if written.is_err() {
            return Ok(written);
        }
    }
    Ok(Ok(()))
}

fn one_row<'py>(
    columns: &[Arc<Type>],
    values: impl ExactSizeIterator<Item = Bound<'py, PyAny>>,
    of: Place,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let (wanted, given) = (columns.len(), values.len());
    if wanted != given {
        let why = format!("a row has {given} values, and there are {wanted} columns");
        return Err(unsent("parameter", why));
    }
    out.extend_from_slice(&(wanted as u16).to_be_bytes());
    for (number, (type_, value)) in columns.iter().zip(values).enumerate() {
        let written = put(out, |out| match type_.format() {
            Format::Binary => element(type_, &value, out, of),
            Format::Text => Err(Unfit::But("it has no binary form here".to_owned())),
        });
        let place = || format!("column {}", number + 1);
        written.map_err(|unfit| said(&place(), &type_.name, &value, unfit))?;
    }
    Ok(())
}

/// Writes formats and parameters as they stand in a Bind. The error names the parameter. `strict`:
/// a str goes to types of texts alone.
pub(crate) fn parameters(
    types: &[Arc<Type>],
    values: &Bound<'_, PyTuple>,
    strict: bool,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let (wanted, given) = (types.len(), values.len());
    if wanted != given {
        let why = format!(
            "the statement has {wanted} parameter{}, and {given} {} given",
            if wanted == 1 { "" } else { "s" },
            if given == 1 { "was" } else { "were" }
        );
        return Err(unsent("parameter", why));
    }
    out.extend_from_slice(&(wanted as u16).to_be_bytes());
    for (type_, value) in types.iter().zip(values.iter_borrowed()) {
        // A str is sent as it is, and the server reads it.
        let is_binary = strict || type_.is_text() || !value.is_instance_of::<PyString>();
        let is_binary = is_binary && !loses(type_, &value);
        let format = if is_binary { type_.format() } else { Format::Text };
        out.extend_from_slice(&format.code().to_be_bytes());
    }
    out.extend_from_slice(&(wanted as u16).to_be_bytes());
    for (number, (type_, value)) in types.iter().zip(values.iter_borrowed()).enumerate() {
        let place = || format!("parameter ${}", number + 1);
        put(out, |out| parameter(type_, &value, strict, out))
            .map_err(|unfit| said(&place(), &type_.name, &value, unfit))?;
    }
    Ok(())
}

/// Whether a value may be written by names of a composite's attributes: it is a dict, or has one in
/// it.
pub(crate) fn has_names(values: &Bound<'_, PyTuple>) -> bool {
    values.iter().any(|value| is_by_names(&value, 0))
}

fn is_by_names(value: &Bound<'_, PyAny>, depth: usize) -> bool {
    let is_one = |value: Bound<'_, PyAny>| is_by_names(&value, depth + 1);
    if depth > DEPTH_MAX || value.cast::<PyMapping>().is_ok() {
        return true;
    }
    match (value.cast::<PyTuple>(), value.cast::<PyList>()) {
        (Ok(tuple), _) => tuple.iter().any(is_one),
        (_, Ok(list)) => list.iter().any(is_one),
        _ => elements(value).is_some_and(|all| all.into_iter().any(is_one)),
    }
}

/// Whether the server can infer the type of each.
pub(crate) fn are_texts(values: &Bound<'_, PyTuple>) -> bool {
    let mut each = values.iter_borrowed();
    each.all(|value| value.is_none() || value.is_instance_of::<PyString>())
}

/// The same where the server infers the types: all are texts.
pub(crate) fn texts(values: &Bound<'_, PyTuple>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let Ok(count) = u16::try_from(values.len()) else {
        return Err(unsent("parameter", "a statement has at most 65535 parameters"));
    };
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&count.to_be_bytes());
    let write = |(number, value): (usize, Borrowed<'_, '_, PyAny>)| {
        let written = put(out, |out| match value.cast::<PyString>() {
            Ok(text) => write_text(&text, out).map(|()| true),
            Err(_) => Ok(false),
        });
        let place = || format!("parameter ${}", number + 1);
        written.map_err(|unfit| said(&place(), "unknown", &value, unfit))
    };
    values.iter_borrowed().enumerate().try_for_each(write)
}

/// The error of a value: its place, the type there, its own type, and why it can't be sent.
fn said(place: &str, type_: &str, value: &Bound<'_, PyAny>, unfit: Unfit) -> Failure {
    let py = value.py();
    let (why, cause) = match unfit {
        Unfit::Expected(expected) => (format!("it takes {expected}"), Cause::Nothing),
        Unfit::But(why) => (why, Cause::Nothing),
        // What is no Exception, as KeyboardInterrupt, is not about the value.
        Unfit::Python(error) if !error.is_instance_of::<PyException>(py) => {
            return Failure::Raised(error);
        }
        Unfit::Python(error) => (error.to_string(), Cause::Raised(error.into_value(py).into_any())),
    };
    let what = value.get_type().name().map_or_else(|_| "value".into(), |it| it.to_string());
    let message = format!("{place} of type {type_} can't be a value of type {what}: {why}");
    Failure::Said { code: "parameter", outcome: outcome::NOT_SENT, message, cause }
}

/// Whether it is one, and not NULL.
fn parameter(
    type_: &Type,
    value: &Bound<'_, PyAny>,
    strict: bool,
    out: &mut Vec<u8>,
) -> Result<bool, Unfit> {
    if value.is_none() {
        return Ok(false);
    }
    if loses(type_, value) {
        match whole::text(type_, value) {
            Some(text) => out.extend_from_slice(&text),
            None => write_text(&whole_text(type_, value)?, out)?,
        }
        return Ok(true);
    }
    let is_as_text = type_.format() == Format::Text;
    match value.cast::<PyString>() {
        Ok(text) if !strict && (is_as_text || !type_.is_text()) => write_text(text, out)?,
        _ if is_as_text => as_text(type_, value, out, Place::outermost(strict))?,
        _ => write(type_, value, out, Place::outermost(strict))?,
    }
    Ok(true)
}

/// Whether the binary form of the type that was learned has no room for all of the value: a date for
/// a time of day, a float for the digits of a Decimal, a numeric or an inet for how a str has them.
/// The type may be another one by now, so such a value leaves as its text, from which the server takes
/// what its type has room for.
pub(crate) fn loses(type_: &Type, value: &Bound<'_, PyAny>) -> bool {
    let base = type_.base();
    match &types::without_ends(base).kind {
        // In the drop-in its first and its last day are infinity, whatever the time.
        Kind::Date => value.cast::<PyDateTime>().is_ok_and(|it| {
            matches!(base.kind, Kind::Date) || !matches!(days_of(it), FIRST_DAY | LAST_DAY)
        }),
        Kind::TimestampTz => of_another_day(type_, value).is_some(),
        Kind::Float4 | Kind::Float8 => digits_are_lost(type_, value),
        // It has no sign of 0.
        Kind::Numeric if value.is_instance_of::<PyFloat>() => {
            value.extract().is_ok_and(|it: f64| it == 0.0 && it.is_sign_negative())
        }
        Kind::Numeric => is_text_where(value, |text| numeric::parse(text).is_ok()),
        Kind::Uuid => is_text_where(value, is_uuid),
        Kind::Array(_) => whole::text(base, value).is_some(),
        Kind::Own(codec) => {
            types::leaves_as_text(codec, value)
                || types::written_as(codec).is_some_and(|of| loses(of, value))
        }
        _ => false,
    }
}

fn is_text_where(value: &Bound<'_, PyAny>, is_one: impl Fn(&str) -> bool) -> bool {
    value.cast::<PyString>().is_ok_and(|text| text.to_str().is_ok_and(is_one))
}

/// Whether a float has fewer digits than the value. What is out of its range is refused.
fn digits_are_lost(type_: &Type, value: &Bound<'_, PyAny>) -> bool {
    let is_narrow = matches!(type_.base().kind, Kind::Float4);
    let is_float = value.is_instance_of::<PyFloat>();
    if is_float && !is_narrow || value.is_instance_of::<PyBool>() {
        return false;
    }
    let Ok(wide) = value.extract::<f64>() else { return false };
    let narrow = wide as f32;
    let is_inside = if is_narrow { narrow.is_finite() } else { wide.is_finite() };
    let is_lost = || match value.is_instance_of::<PyInt>() {
        _ if is_float => f64::from(narrow) != wide,
        true => wide.abs() >= if is_narrow { 1e6 } else { 1e15 },
        // A Decimal has zeros at its end.
        false => {
            let is_decimal = |of| value.is_instance(of).unwrap_or(false);
            wide != 0.0 && python::decimal(value.py()).is_ok_and(is_decimal)
        }
    };
    is_inside && is_lost()
}

/// Whether the server reads a text as a uuid (`string_to_uuid` in src/backend/utils/adt/uuid.c).
fn is_uuid(text: &str) -> bool {
    let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
    let groups = inner.split('-');
    let are_hex = groups.clone().all(|it| {
        !it.is_empty() && it.len() % 4 == 0 && it.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    are_hex && groups.map(str::len).sum::<usize>() == 32
}

/// A moment whose day in its own time zone is another one than in UTC: a column that is a date by now
/// takes the former. In the drop-in for asyncpg a moment without a zone is of this machine's, and so
/// is the midnight of a date.
fn of_another_day<'py>(type_: &Type, value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDateTime>> {
    let is_endless = matches!(type_.base().kind, Kind::Own(_));
    let moment = match value.cast::<PyDateTime>() {
        Ok(moment) => moment.clone(),
        Err(_) if is_endless => midnight(value.cast::<PyDate>().ok()?).ok()?,
        Err(_) => return None,
    };
    let moment = match moment.get_tzinfo() {
        Some(zone) if zone.is(&*PyTzInfo::utc(value.py()).ok()?) => return None,
        Some(_) => moment,
        None if is_endless && !matches!(days_of(&moment), FIRST_DAY | LAST_DAY) => {
            moment.call_method0(intern!(value.py(), "astimezone")).ok()?.cast_into().ok()?
        }
        None => return None,
    };
    let east = offset(&moment).ok()??;
    let is_another = !(0..calendar::DAY).contains(&(micros_of(&moment) - east));
    // The server takes no parts of a second.
    (is_another && east % 1_000_000 == 0).then_some(moment)
}

/// The text of such a value. What a subclass says of itself is no matter.
pub(crate) fn whole_text<'py>(
    type_: &Type,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyString>> {
    let py = value.py();
    if matches!(types::without_ends(type_.base()).kind, Kind::TimestampTz)
        && let Some(moment) = of_another_day(type_, value)
    {
        return Ok(moment.call_method1(intern!(py, "isoformat"), (" ",))?.cast_into()?);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.clone());
    }
    if value.is_instance_of::<PyDateTime>() {
        return Ok(value.call_method1(intern!(py, "isoformat"), (" ",))?.cast_into()?);
    }
    match value.cast::<PyFloat>() {
        Ok(float) => PyFloat::new(py, float.value()).repr(),
        Err(_) if value.is_instance_of::<PyInt>() => py.get_type::<PyInt>().call1((value,))?.str(),
        Err(_) => python::decimal(py)?.call1((value,))?.str(),
    }
}

/// A value of a type that is sent as its text.
fn as_text(
    type_: &Type,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    place: Place,
) -> Result<(), Unfit> {
    place.check()?;
    match (&type_.base().kind, value.cast::<PyString>()) {
        (Kind::Own(codec), _) => types::encode(codec, value, out, place),
        (_, Ok(text)) => write_text(text, out),
        (Kind::Array(of), _) => {
            out.push(b'{');
            let all = elements(value).ok_or(Unfit::Expected("a list"))?;
            for (number, value) in all.iter().enumerate() {
                if number > 0 {
                    out.push(of.delimiter);
                }
                if value.is_none() {
                    out.extend_from_slice(b"NULL");
                } else if elements(value).is_some() {
                    as_text(type_, value, out, place.inner())?;
                } else {
                    let mut written = Vec::new();
                    as_text(of, value, &mut written, place.inner())?;
                    array::put_quoted(out, &written);
                }
            }
            out.push(b'}');
            Ok(())
        }
        _ => Err(Unfit::Expected("a str")),
    }
}

pub(crate) fn write_text(value: &Bound<'_, PyString>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    let text = value.to_str()?;
    if text.contains('\0') {
        return Err(Unfit::But("it has a zero byte, which no text of PostgreSQL has".to_owned()));
    }
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Writes a value in its binary form.
pub(crate) fn write(
    type_: &Type,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    place: Place,
) -> Result<(), Unfit> {
    place.check()?;
    match &type_.kind {
        Kind::Int2 => int::<2>(value, i16::MIN.into()..=i16::MAX.into(), place, out)?,
        Kind::Int4 => int::<4>(value, i32::MIN.into()..=i32::MAX.into(), place, out)?,
        Kind::Int8 => int::<8>(value, i64::MIN..=i64::MAX, place, out)?,
        Kind::Oid => int::<4>(value, 0..=u32::MAX.into(), place, out)?,
        Kind::Text | Kind::Enum | Kind::Json | Kind::Other => text_of(value, out)?,
        Kind::Jsonb => {
            out.push(1);
            text_of(value, out)?;
        }
        Kind::Bool => {
            let value = value.cast::<PyBool>().map_err(|_| Unfit::Expected("a bool"))?;
            out.push(value.is_true().into());
        }
        Kind::Float8 => out.extend_from_slice(&float(value)?.to_be_bytes()),
        Kind::Float4 => float4(value, out)?,
        Kind::Bytea | Kind::Char => write_bytes(value, out)?,
        Kind::Numeric => number(value, out)?,
        Kind::Uuid => uuid(value, out)?,
        Kind::Date => {
            let date = value.cast::<PyDate>().map_err(|_| Unfit::Expected("a datetime.date"))?;
            out.extend_from_slice(&(days_of(date) as i32).to_be_bytes());
        }
        Kind::Time => time(value, false, out)?,
        Kind::TimeTz => time(value, true, out)?,
        Kind::Timestamp => moment(value, false, out)?,
        Kind::TimestampTz => moment(value, true, out)?,
        Kind::Interval => {
            let delta = value.cast::<PyDelta>();
            let delta = delta.map_err(|_| Unfit::Expected("a datetime.timedelta"))?;
            let micros = micros_of_delta(0, delta);
            Interval { micros, days: delta.get_days(), months: 0 }.put(out);
        }
        Kind::Own(codec) => types::encode(codec, value, out, place)?,
        Kind::Void => {}
        Kind::Domain(base) => write(base, value, out, place)?,
        Kind::Array(of) => write_array(of, value, out, place)?,
        Kind::Range(of) => write_range(of, value, out, place)?,
        Kind::Multirange(of) => {
            let ranges = elements(value).ok_or(Unfit::Expected("a list of onetrip.Range"))?;
            put_count(out, ranges.len())?;
            for it in &ranges {
                put(out, |out| write_range(of, it, out, place.inner()).map(|()| true))?;
            }
        }
        Kind::Composite(fields) => composite(fields, value, out, place)?,
        Kind::Hstore => hstore(value, out)?,
        Kind::Vector => {
            let numbers = elements(value).ok_or(Unfit::Expected("a list of floats"))?;
            out.extend_from_slice(&vector_head(numbers.len())?);
            numbers.iter().try_for_each(|number| float4(number, out))?;
        }
        Kind::Record => {
            const WHY: &str = "record is a type of results: name a composite type";
            return Err(Unfit::But(WHY.to_owned()));
        }
    }
    Ok(())
}

/// A part of a value. Whether it is one, and not NULL.
fn element(
    of: &Type,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    place: Place,
) -> Result<bool, Unfit> {
    if !value.is_none() {
        write(of, value, out, place)?;
    }
    Ok(!value.is_none())
}

fn text_of(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    write_text(value.cast::<PyString>().map_err(|_| Unfit::Expected("a str"))?, out)
}

/// A whole number of so many bytes.
#[inline]
fn int<const LEN: usize>(
    value: &Bound<'_, PyAny>,
    all: RangeInclusive<i64>,
    place: Place,
    out: &mut Vec<u8>,
) -> Result<(), Unfit> {
    let is_asked = place.like_asyncpg && !value.is_instance_of::<PyInt>();
    let asked = is_asked.then(|| as_int(value)).flatten();
    let value = asked.as_ref().unwrap_or(value);
    if value.is_instance_of::<PyFloat>() {
        return Err(Unfit::Expected("an int"));
    }
    match value.extract::<i64>() {
        Ok(number) if all.contains(&number) => {
            out.extend_from_slice(&number.to_be_bytes()[8 - LEN..]);
            Ok(())
        }
        Err(error) if !error.is_instance_of::<PyOverflowError>(value.py()) => {
            Err(Unfit::Expected("an int"))
        }
        _ => Err(Unfit::But(format!("it is not from {} to {}", all.start(), all.end()))),
    }
}

/// The int that a value of another type is, as a Decimal may be. One with a fraction is none:
/// asyncpg cuts it off, and stores another number.
fn as_int<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let py = value.py();
    if !value.get_type().hasattr(intern!(py, "__int__")).ok()? {
        return None;
    }
    let int = py.get_type::<PyInt>().call1((value,)).ok()?;
    int.eq(value).ok()?.then_some(int)
}

fn float(value: &Bound<'_, PyAny>) -> Result<f64, Unfit> {
    value.extract::<f64>().map_err(|error| {
        match error.is_instance_of::<PyOverflowError>(value.py()) {
            true => Unfit::But("it is out of range".to_owned()),
            false => Unfit::Expected("a float"),
        }
    })
}

fn float4(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    let wide = float(value)?;
    let narrow = wide as f32;
    if wide.is_finite() && narrow.is_infinite() {
        return Err(Unfit::But("it is out of range".to_owned()));
    }
    out.extend_from_slice(&narrow.to_be_bytes());
    Ok(())
}

pub(crate) fn write_bytes(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        out.extend_from_slice(bytes.as_bytes());
    } else if value.is_instance_of::<PyByteArray>() || value.is_instance_of::<PyMemoryView>() {
        let bytes = value.py().get_type::<PyBytes>().call1((value,))?;
        out.extend_from_slice(bytes.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes());
    } else {
        return Err(Unfit::Expected("bytes, a bytearray or a memoryview"));
    }
    Ok(())
}

fn number(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    let decimal = python::decimal(value.py())?;
    let is_int = value.is_instance_of::<PyInt>();
    let is_one = value.is_instance(decimal)?
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyFloat>()
        || (is_int && !value.is_instance_of::<PyBool>());
    if !is_one {
        return Err(Unfit::Expected("a Decimal, an int or a float"));
    }
    let parsed = match value.extract::<i64>() {
        Ok(small) if is_int => numeric::parse(&small.to_string()),
        _ if is_int => {
            let bits: u64 = value.call_method0(intern!(value.py(), "bit_length"))?.extract()?;
            // The digits of an int are counted by writing them, which takes seconds from here on.
            match bits {
                ..=NUMERIC_BITS_MAX => numeric::parse(decimal.call1((value,))?.str()?.to_str()?),
                _ => Err(numeric::Fault::TooLong),
            }
        }
        _ => match value.str()?.to_str()? {
            // Whatever else a Decimal says of a NaN, its sign and its payload, numeric has not.
            text if text.contains("NaN") => numeric::parse("NaN"),
            text => numeric::parse(text),
        },
    };
    let number = parsed.map_err(|fault| {
        let why = match fault {
            numeric::Fault::NoNumber => "it is no number that PostgreSQL has",
            numeric::Fault::TooLong => {
                "it has more digits than numeric, 131072 in front of the point and 16383 behind it"
            }
        };
        Unfit::But(why.to_owned())
    })?;
    numeric::put(out, &number);
    Ok(())
}

/// Bits of the largest int with 131,072 digits.
const NUMERIC_BITS_MAX: u64 = 435_412;

fn uuid(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    let py = value.py();
    let value = match value.is_instance_of::<PyString>() {
        true => &python::uuid(py)?.call1((value,))?,
        false => value,
    };
    let number = value.getattr_opt(intern!(py, "int"))?;
    let number = number.and_then(|number| number.extract::<u128>().ok());
    let number = if value.is_instance(python::uuid(py)?)? { number } else { None };
    out.extend_from_slice(&number.ok_or(Unfit::Expected("a uuid.UUID"))?.to_be_bytes());
    Ok(())
}

pub(crate) fn days_of(date: &impl PyDateAccess) -> i64 {
    calendar::days(date.get_year(), date.get_month(), date.get_day())
}

fn micros_of(it: &impl PyTimeAccess) -> i64 {
    calendar::micros(it.get_hour(), it.get_minute(), it.get_second(), it.get_microsecond())
}

/// Without its own days.
fn micros_of_delta(days: i32, delta: &Bound<'_, PyDelta>) -> i64 {
    let seconds = i64::from(days) * 86_400 + i64::from(delta.get_seconds());
    seconds * 1_000_000 + i64::from(delta.get_microseconds())
}

/// Microseconds in front of UTC.
fn offset(value: &Bound<'_, PyAny>) -> Result<Option<i64>, Unfit> {
    let offset = value.call_method0(intern!(value.py(), "utcoffset"))?;
    Ok(offset.cast::<PyDelta>().ok().map(|offset| micros_of_delta(offset.get_days(), offset)))
}

fn time(value: &Bound<'_, PyAny>, has_zone: bool, out: &mut Vec<u8>) -> Result<(), Unfit> {
    let time = value.cast::<PyTime>().map_err(|_| Unfit::Expected("a datetime.time"))?;
    out.extend_from_slice(&micros_of(time).to_be_bytes());
    match (has_zone, offset(value)?) {
        (true, Some(east)) => out.extend_from_slice(&((-east / 1_000_000) as i32).to_be_bytes()),
        (false, None) => {}
        (true, None) => return Err(Unfit::Expected("a datetime.time with a tzinfo")),
        (false, Some(_)) => return Err(Unfit::Expected("a datetime.time without a tzinfo")),
    }
    Ok(())
}

fn midnight<'py>(date: &Bound<'py, PyDate>) -> PyResult<Bound<'py, PyDateTime>> {
    let (year, month, day) = (date.get_year(), date.get_month(), date.get_day());
    PyDateTime::new(date.py(), year, month, day, 0, 0, 0, 0, None)
}

/// A date or a moment of which the first and the last are infinity, as in asyncpg, which also takes
/// a date for its midnight, and a moment without a time zone for one of this machine's.
pub(crate) fn write_endless(
    type_: &Type,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Result<(), Unfit> {
    let date = value.cast::<PyDate>().map_err(|_| Unfit::Expected("a datetime.date"))?;
    if matches!(type_.kind, Kind::Date) {
        let days = match days_of(date) {
            LAST_DAY => i32::MAX,
            FIRST_DAY => i32::MIN,
            days => days as i32,
        };
        out.extend_from_slice(&days.to_be_bytes());
        return Ok(());
    }
    let has_zone = matches!(type_.kind, Kind::TimestampTz);
    let moment = match value.cast::<PyDateTime>() {
        Ok(moment) => moment,
        Err(_) => &midnight(date)?,
    };
    let local = days_of(moment) * calendar::DAY + micros_of(moment);
    let is_naive = moment.get_tzinfo().is_none();
    let micros = match is_naive && matches!(local, FIRST_MOMENT | LAST_MOMENT) {
        true => local,
        false if is_naive && has_zone => {
            micros_of_moment(&moment.call_method0("astimezone")?, true)?
        }
        false => micros_of_moment(moment, has_zone)?,
    };
    let micros = match micros {
        LAST_MOMENT => i64::MAX,
        FIRST_MOMENT => i64::MIN,
        micros => micros,
    };
    out.extend_from_slice(&micros.to_be_bytes());
    Ok(())
}

/// The first and the last day of Python, in days since 2000.
pub(crate) const FIRST_DAY: i64 = -730_119;
pub(crate) const LAST_DAY: i64 = 2_921_939;

/// The first and the last moment of Python, in microseconds since 2000.
const FIRST_MOMENT: i64 = FIRST_DAY * calendar::DAY;
const LAST_MOMENT: i64 = (LAST_DAY + 1) * calendar::DAY - 1;

fn moment(value: &Bound<'_, PyAny>, has_zone: bool, out: &mut Vec<u8>) -> Result<(), Unfit> {
    out.extend_from_slice(&micros_of_moment(value, has_zone)?.to_be_bytes());
    Ok(())
}

/// Microseconds since 2000.
fn micros_of_moment(value: &Bound<'_, PyAny>, has_zone: bool) -> Result<i64, Unfit> {
    const AWARE: Unfit =
        Unfit::Expected("a datetime.datetime with a tzinfo: one without names no moment");
    const NAIVE: Unfit =
        Unfit::Expected("a datetime.datetime without a tzinfo: the type has no time zone");
    let moment = value.cast::<PyDateTime>();
    let moment = moment.map_err(|_| if has_zone { AWARE } else { NAIVE })?;
    let local = days_of(moment) * calendar::DAY + micros_of(moment);
    let east = if moment.get_tzinfo().is_some() { offset(value)? } else { None };
    match (has_zone, east) {
        (true, Some(east)) => Ok(local - east),
        (false, None) => Ok(local),
        (true, None) => Err(AWARE),
        (false, Some(_)) => Err(NAIVE),
    }
}

/// Whether it is a sequence of values: a list, a tuple and the like, and no text.
pub(crate) fn elements<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    let is_one = value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
        || value.is_instance_of::<PyMemoryView>()
        || value.cast::<PyMapping>().is_ok();
    if is_one || value.len().is_err() {
        return None;
    }
    value.try_iter().ok()?.collect::<PyResult<_>>().ok()
}

/// An array, of lists in lists.
fn write_array(
    of: &Type,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    place: Place,
) -> Result<(), Unfit> {
    let Some(first) = elements(value) else {
        return Err(Unfit::Expected("a list, or another sequence that is no text"));
    };
    // What an element consists of is no dimension.
    let nests = of.base().kind.is_single() && !matches!(of.base().kind, Kind::Vector)
        || matches!(of.base().kind, Kind::Own(_));
    let (mut lens, mut level) = (vec![first.len()], first);
    while nests && let Some(inner) = level.first().and_then(elements) {
        if lens.len() == array::DIMENSIONS_MAX {
            return Err(Unfit::But("an array has at most 6 dimensions".to_owned()));
        }
        let mut all = Vec::new();
        for row in &level {
            match elements(row) {
                Some(row) if row.len() == inner.len() => all.extend(row),
                _ => {
                    return Err(Unfit::But("its inner lists are not all of one length".to_owned()));
                }
            }
        }
        lens.push(inner.len());
        level = all;
    }
    if level.is_empty() {
        lens.clear();
    }
    array::put_head(out, &lens, level.iter().any(|value| value.is_none()), of.oid)?;
    level.iter().try_for_each(|value| put(out, |out| element(of, value, out, place.inner())))
}

fn write_range(
    of: &Type,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    place: Place,
) -> Result<(), Unfit> {
    let py = value.py();
    if value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyList>() {
        // Its bounds, both included, as far as they are given; without any it is empty.
        let range_type = crate::python::range(py)?;
        let made = match value.len()? {
            0 => range_type.call1((py.None(), py.None(), true, false, true))?,
            1 => range_type.call1((value.get_item(0)?,))?,
            2 => range_type.call1((value.get_item(0)?, value.get_item(1)?, true, true))?,
            _ => return Err(Unfit::Expected("a Range, or its bounds in a tuple")),
        };
        return write_range(of, &made, out, place);
    }
    let is = |name: &Bound<'_, PyString>| -> PyResult<bool> { value.getattr(name)?.is_truthy() };
    let is_empty = value.getattr_opt(intern!(py, "isempty"))?;
    let is_empty = is_empty.ok_or(Unfit::Expected("an onetrip.Range"))?.is_truthy()?;
    let bound = |name, inclusive| -> Result<_, Unfit> {
        let bound = value.getattr_opt(name)?.ok_or(Unfit::Expected("an onetrip.Range"))?;
        let included = if bound.is_none() { None } else { Some(is(inclusive)?) };
        Ok((bound, included))
    };
    let lower = bound(intern!(py, "lower"), intern!(py, "lower_inc"))?;
    let upper = bound(intern!(py, "upper"), intern!(py, "upper_inc"))?;
    if is_empty {
        out.push(range::EMPTY);
        return Ok(());
    }
    out.push(range::flags(lower.1, upper.1));
    for (bound, _) in [lower, upper].iter().filter(|(_, included)| included.is_some()) {
        put(out, |out| element(of, bound, out, place.inner()))?;
    }
    Ok(())
}

fn hstore(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    const TEXTS: Unfit = Unfit::Expected("a dict of str, or None, by str");
    let pairs = value.cast::<PyMapping>().map_err(|_| TEXTS)?.items()?;
    put_count(out, pairs.len())?;
    for pair in pairs {
        let (name, text) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        put(out, |out| text_of(&name, out).map(|()| true).map_err(|_| TEXTS))?;
        put(out, |out| match text.is_none() {
            true => Ok(false),
            false => text_of(&text, out).map(|()| true).map_err(|_| TEXTS),
        })?;
    }
    Ok(())
}

fn composite(
    fields: &[(String, Arc<Type>)],
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    place: Place,
) -> Result<(), Unfit> {
    let values = match value.cast::<PyMapping>() {
        Ok(map) => {
            let of = |(name, _): &(String, Arc<Type>)| match map.get_item(name) {
                // What asyncpg's caller leaves out is NULL.
                Err(error)
                    if place.like_asyncpg && error.is_instance_of::<PyKeyError>(map.py()) =>
                {
                    Ok(map.py().None().into_bound(map.py()))
                }
                value => value,
            };
            let is_field = |name: &Bound<'_, PyAny>| {
                let name = name.extract::<String>();
                name.is_ok_and(|name| fields.iter().any(|(field, _)| *field == name))
            };
            if place.like_asyncpg
                && let Some(name) = map.keys()?.iter().find(|name| !is_field(name))
            {
                return Err(Unfit::But(format!("the type has no field {name}")));
            }
            let values = fields.iter().map(of).collect::<PyResult<Vec<_>>>();
            values.map_err(|_| Unfit::But("it has not all fields of the type".to_owned()))?
        }
        Err(_) => elements(value).ok_or(Unfit::Expected("a tuple or a dict of its fields"))?,
    };
    if values.len() != fields.len() {
        let (wanted, given) = (fields.len(), values.len());
        return Err(Unfit::But(format!("it has {given} fields, and the type {wanted}")));
    }
    put_count(out, fields.len())?;
    for ((_, type_), value) in fields.iter().zip(&values) {
        out.extend_from_slice(&type_.oid.to_be_bytes());
        put(out, |out| element(type_, value, out, place.inner()))?;
    }
    Ok(())
}
