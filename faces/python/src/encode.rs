//! Values as they are sent: in the binary form of the parameter's type. A str goes to any type, as
//! the text that it is.

use onetrip_postgres::message::Format;
use pyo3::exceptions::PyOverflowError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess,
    PyFloat, PyInt, PyIterator, PyList, PyMapping, PyMemoryView, PyString, PyTime, PyTimeAccess,
    PyTuple, PyTzInfoAccess,
};
use std::sync::Arc;

use crate::decode::{EMPTY, LOWER_INCLUSIVE, LOWER_INFINITE, UPPER_INCLUSIVE, UPPER_INFINITE};
use crate::types::{Kind, Type};
use crate::{arrays, codec, dates, numeric};

/// Rows for a binary COPY, until there are this many bytes or there are no more. The error names
/// the place in a row.
pub(crate) fn rows(
    columns: &[Arc<Type>],
    rows: &Bound<'_, PyIterator>,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> PyResult<Result<(), String>> {
    while out.len() < bytes_max
        && let Some(row) = rows.clone().next()
    {
        let row = row?;
        let written = match (row.cast::<PyTuple>(), row.cast::<PyList>()) {
            (Ok(tuple), _) => one_row(columns, tuple.iter(), out),
            (_, Ok(list)) => one_row(columns, list.iter(), out),
            _ => match elements(&row) {
                Some(values) => one_row(columns, values.into_iter(), out),
                None => {
                    let name = row.get_type().name()?;
                    Err(format!("a row is a tuple or another sequence, and not a {name}"))
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
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let (wanted, given) = (columns.len(), values.len());
    if wanted != given {
        return Err(format!("a row has {given} values, and there are {wanted} columns"));
    }
    out.extend_from_slice(&(wanted as u16).to_be_bytes());
    for (number, (type_, value)) in columns.iter().zip(values).enumerate() {
        let written = put(out, |out| match type_.format() {
            Format::Binary => element(type_, &value, out, 0),
            Format::Text => Err(Unfit::But("it has no binary form here".to_owned())),
        });
        written.map_err(|unfit| {
            let what = value.get_type().name().map_or_else(|_| "value".into(), |it| it.to_string());
            let said = said(value.py(), number + 1, &type_.name, &what, unfit);
            said.replacen("parameter $", "column ", 1)
        })?;
    }
    Ok(())
}

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

/// Values are nested so deeply at most: lists can contain themselves.
const DEPTH_MAX: usize = 64;

/// Writes formats and parameters as they stand in a Bind. The error names the parameter. `strict`:
/// a str goes to types of texts alone.
pub(crate) fn parameters(
    types: &[Arc<Type>],
    values: &Bound<'_, PyTuple>,
    strict: bool,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let (wanted, given) = (types.len(), values.len());
    if wanted != given {
        return Err(format!(
            "the statement has {wanted} parameter{}, and {given} {} given",
            if wanted == 1 { "" } else { "s" },
            if given == 1 { "was" } else { "were" }
        ));
    }
    out.extend_from_slice(&(wanted as u16).to_be_bytes());
    for (type_, value) in types.iter().zip(values.iter_borrowed()) {
        out.extend_from_slice(&form(type_, &value, strict).code().to_be_bytes());
    }
    out.extend_from_slice(&(wanted as u16).to_be_bytes());
    for (number, (type_, value)) in types.iter().zip(values.iter_borrowed()).enumerate() {
        put(out, |out| parameter(type_, &value, strict, out)).map_err(|unfit| {
            let what = value.get_type().name().map_or_else(|_| "value".into(), |it| it.to_string());
            said(value.py(), number + 1, &type_.name, &what, unfit)
        })?;
    }
    Ok(())
}

/// Whether the server can infer the type of each.
pub(crate) fn are_texts(values: &Bound<'_, PyTuple>) -> bool {
    let mut each = values.iter_borrowed();
    each.all(|value| value.is_none() || value.is_instance_of::<PyString>())
}

/// The same where the server infers the types: all are texts.
pub(crate) fn texts(values: &Bound<'_, PyTuple>, out: &mut Vec<u8>) -> Result<(), String> {
    let Ok(count) = u16::try_from(values.len()) else {
        return Err("a statement has at most 65535 parameters".to_owned());
    };
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&count.to_be_bytes());
    let write = |(number, value): (usize, Borrowed<'_, '_, PyAny>)| {
        let text = value.cast::<PyString>();
        let written = put(out, |out| match text {
            Ok(text) => write_text(&text, out).map(|()| true),
            Err(_) => Ok(false),
        });
        written.map_err(|unfit| said(values.py(), number + 1, "unknown", "str", unfit))
    };
    values.iter_borrowed().enumerate().try_for_each(write)
}

fn said(py: Python<'_>, number: usize, type_: &str, what: &str, unfit: Unfit) -> String {
    let why = match unfit {
        Unfit::Expected(expected) => format!("it takes {expected}"),
        Unfit::But(why) => why,
        Unfit::Python(error) => error.value(py).to_string(),
    };
    format!("parameter ${number} of type {type_} can't be a value of type {what}: {why}")
}

/// A str is sent as it is, and the server reads it.
fn form(type_: &Type, value: &Bound<'_, PyAny>, strict: bool) -> Format {
    match strict || type_.is_text() || !value.is_instance_of::<PyString>() {
        true => type_.format(),
        false => Format::Text,
    }
}

/// A value behind its length; -1 for NULL.
fn put(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<bool, Unfit>,
) -> Result<(), Unfit> {
    let at = out.len();
    out.extend_from_slice(&(-1_i32).to_be_bytes());
    if write(out)? {
        let len = i32::try_from(out.len() - at - 4);
        let len = len.map_err(|_| Unfit::But("it has more than 1 GiB".to_owned()))?;
        out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }
    Ok(())
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
    let is_as_text = type_.format() == Format::Text;
    match value.cast::<PyString>() {
        Ok(text) if !strict && (is_as_text || !type_.is_text()) => write_text(text, out)?,
        _ if is_as_text => as_text(type_, value, out, 0)?,
        _ => write(type_, value, out, 0)?,
    }
    Ok(true)
}

/// A value of a type that is sent as its text.
fn as_text(
    type_: &Type,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Unfit> {
    if depth > DEPTH_MAX {
        return Err(Unfit::But(format!("it is nested more than {DEPTH_MAX} deep")));
    }
    match (&type_.base().kind, value.cast::<PyString>()) {
        (Kind::User(codec), _) => codec::encode(codec, value, out, depth),
        (_, Ok(text)) => write_text(text, out),
        (Kind::Array(of), _) => {
            let all = elements(value).ok_or(Unfit::Expected("a list"))?;
            arrays::write(&all, out, |element, out| match elements(element) {
                Some(_) => as_text(type_, element, out, depth + 1).map(|()| true),
                None => as_text(of, element, out, depth + 1).map(|()| false),
            })
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

pub(crate) fn write(
    type_: &Type,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Unfit> {
    if depth > DEPTH_MAX {
        return Err(Unfit::But(format!("it is nested more than {DEPTH_MAX} deep")));
    }
    match &type_.kind {
        Kind::Int4 => {
            int(value, i32::MIN.into(), i32::MAX.into(), |it| it as i32, out, i32::to_be_bytes)
        }
        Kind::Text | Kind::Enum | Kind::Json | Kind::Other => text_of(value, out),
        Kind::Jsonb => {
            out.push(1);
            text_of(value, out)
        }
        Kind::Int8 => int(value, i64::MIN, i64::MAX, |it| it, out, i64::to_be_bytes),
        Kind::Int2 => {
            int(value, i16::MIN.into(), i16::MAX.into(), |it| it as i16, out, i16::to_be_bytes)
        }
        Kind::Oid => int(value, 0, u32::MAX.into(), |it| it as u32, out, u32::to_be_bytes),
        Kind::Bool => match value.cast::<PyBool>() {
            Ok(value) => {
                out.push(value.is_true().into());
                Ok(())
            }
            Err(_) => Err(Unfit::Expected("a bool")),
        },
        Kind::Float8 => {
            out.extend_from_slice(&float(value)?.to_be_bytes());
            Ok(())
        }
        Kind::Float4 | Kind::WideFloat4 => float4(value, out),
        Kind::Bytea | Kind::Char => write_bytes(value, out),
        Kind::Numeric => number(value, out),
        Kind::Uuid => {
            let number = value.getattr_opt(intern!(value.py(), "int"))?;
            let number = number.and_then(|number| number.extract::<u128>().ok());
            let is_uuid = value.is_instance(crate::python::uuid(value.py())?)?;
            if value.is_instance_of::<PyString>() {
                let uuid = crate::python::uuid(value.py())?.call1((value,))?;
                return write(type_, &uuid, out, depth + 1);
            }
            let number = number.filter(|_| is_uuid).ok_or(Unfit::Expected("a uuid.UUID"))?;
            out.extend_from_slice(&number.to_be_bytes());
            Ok(())
        }
        Kind::Date => date(value, out),
        Kind::Time | Kind::TimeTz => time(value, matches!(type_.kind, Kind::TimeTz), out),
        Kind::Timestamp => moment(value, false, out),
        Kind::TimestampTz => moment(value, true, out),
        Kind::LocalTimestampTz => {
            let is_naive = value.cast::<PyDateTime>().is_ok_and(|it| it.get_tzinfo().is_none());
            match is_naive {
                true => moment(&value.call_method0(intern!(value.py(), "astimezone"))?, true, out),
                false => moment(value, true, out),
            }
        }
        Kind::User(codec) => codec::encode(codec, value, out, depth),
        Kind::Interval => interval(value, out),
        Kind::Void => Ok(()),
        Kind::Domain(base) => write(base, value, out, depth),
        Kind::Array(of) => array(of, value, out, depth),
        Kind::Range(of) => range(of, value, out, depth),
        Kind::Multirange(of) => multirange(of, value, out, depth),
        Kind::Composite(fields) => composite(fields, value, out, depth),
        Kind::Hstore => hstore(value, out),
        Kind::Vector => vector(value, out),
        Kind::Record => {
            Err(Unfit::But("record is a type of results: name a composite type".to_owned()))
        }
    }
}

fn text_of(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    write_text(value.cast::<PyString>().map_err(|_| Unfit::Expected("a str"))?, out)
}

fn int<T, const LEN: usize>(
    value: &Bound<'_, PyAny>,
    min: i64,
    max: i64,
    narrow: impl FnOnce(i64) -> T,
    out: &mut Vec<u8>,
    bytes: impl FnOnce(T) -> [u8; LEN],
) -> Result<(), Unfit> {
    if value.is_instance_of::<PyFloat>() {
        return Err(Unfit::Expected("an int"));
    }
    let number = match value.extract::<i64>() {
        Ok(number) => Some(number),
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => None,
        Err(_) => return Err(Unfit::Expected("an int")),
    };
    let number = number.filter(|number| (min..=max).contains(number));
    let number = number.ok_or_else(|| Unfit::But(format!("it is not from {min} to {max}")))?;
    out.extend_from_slice(&bytes(narrow(number)));
    Ok(())
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
    let py = value.py();
    let is_one = value.is_instance(numeric::decimal(py)?)?
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyFloat>()
        || (value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>());
    if !is_one {
        return Err(Unfit::Expected("a Decimal, an int or a float"));
    }
    // An int of millions of digits would take minutes; Python refuses to write it.
    let text = match value.is_instance_of::<PyInt>() {
        true => numeric::decimal(py)?.call1((value,))?.str()?,
        false => value.str()?,
    };
    let text = text.to_str()?;
    let text = match text {
        "inf" => "Infinity",
        "-inf" => "-Infinity",
        "nan" => "NaN",
        text => text,
    };
    numeric::write(text, out).map_err(|why| Unfit::But(why.to_owned()))
}

fn date(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    let date = value.cast::<PyDate>().map_err(|_| Unfit::Expected("a datetime.date"))?;
    let days = dates::days(date.get_year(), date.get_month(), date.get_day());
    out.extend_from_slice(&(days as i32).to_be_bytes());
    Ok(())
}

fn micros_of(time: &impl PyTimeAccess) -> i64 {
    let seconds = i64::from(time.get_hour()) * 3600
        + i64::from(time.get_minute()) * 60
        + i64::from(time.get_second());
    seconds * 1_000_000 + i64::from(time.get_microsecond())
}

/// Microseconds in front of UTC.
fn offset<'py>(value: &Bound<'py, PyAny>) -> Result<Option<i64>, Unfit> {
    let offset = value.call_method0(intern!(value.py(), "utcoffset"))?;
    match offset.cast::<PyDelta>() {
        Ok(offset) => Ok(Some(micros_of_delta(offset))),
        Err(_) => Ok(None),
    }
}

fn micros_of_delta(delta: &Bound<'_, PyDelta>) -> i64 {
    let seconds = i64::from(delta.get_days()) * 86_400 + i64::from(delta.get_seconds());
    seconds * 1_000_000 + i64::from(delta.get_microseconds())
}

fn time(value: &Bound<'_, PyAny>, has_zone: bool, out: &mut Vec<u8>) -> Result<(), Unfit> {
    let time = value.cast::<PyTime>().map_err(|_| Unfit::Expected("a datetime.time"))?;
    out.extend_from_slice(&micros_of(time).to_be_bytes());
    match (has_zone, offset(value)?) {
        (true, Some(east)) => {
            out.extend_from_slice(&((-east / 1_000_000) as i32).to_be_bytes());
            Ok(())
        }
        (true, None) => Err(Unfit::Expected("a datetime.time with a tzinfo")),
        (false, None) => Ok(()),
        (false, Some(_)) => Err(Unfit::Expected("a datetime.time without a tzinfo")),
    }
}

fn moment(value: &Bound<'_, PyAny>, has_zone: bool, out: &mut Vec<u8>) -> Result<(), Unfit> {
    const AWARE: Unfit =
        Unfit::Expected("a datetime.datetime with a tzinfo: one without names no moment");
    const NAIVE: Unfit =
        Unfit::Expected("a datetime.datetime without a tzinfo: the type has no time zone");
    let moment = value.cast::<PyDateTime>();
    let moment = moment.map_err(|_| if has_zone { AWARE } else { NAIVE })?;
    let days = dates::days(moment.get_year(), moment.get_month(), moment.get_day());
    let local = days * dates::DAY + micros_of(moment);
    let east = match moment.get_tzinfo() {
        None => None,
        Some(_) => offset(value)?,
    };
    let micros = match (has_zone, east) {
        (true, Some(east)) => local - east,
        (false, None) => local,
        (true, None) => return Err(AWARE),
        (false, Some(_)) => return Err(NAIVE),
    };
    out.extend_from_slice(&micros.to_be_bytes());
    Ok(())
}

fn interval(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    let delta = value.cast::<PyDelta>().map_err(|_| Unfit::Expected("a datetime.timedelta"))?;
    let seconds = i64::from(delta.get_seconds()) * 1_000_000;
    let micros = seconds + i64::from(delta.get_microseconds());
    out.extend_from_slice(&micros.to_be_bytes());
    out.extend_from_slice(&delta.get_days().to_be_bytes());
    out.extend_from_slice(&0_i32.to_be_bytes());
    Ok(())
}

/// Whether it is a sequence of values: a list, a tuple and the like, and no text.
fn elements<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
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

fn array(
    of: &Type,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Unfit> {
    let Some(first) = elements(value) else {
        return Err(Unfit::Expected("a list, or another sequence that is no text"));
    };
    // The elements of a composite or an array-like type are no dimensions.
    let nests =
        !matches!(of.base().kind, Kind::Composite(_) | Kind::Range(_) | Kind::Multirange(_));
    let (mut lens, mut level) = (vec![first.len()], first);
    while nests && let Some(inner) = level.first().and_then(elements) {
        if lens.len() == 6 {
            return Err(Unfit::But("an array has at most 6 dimensions".to_owned()));
        }
        let len = inner.len();
        let mut all = Vec::new();
        for row in &level {
            match elements(row) {
                Some(row) if row.len() == len => all.extend(row),
                _ => {
                    return Err(Unfit::But("its inner lists are not all of one length".to_owned()));
                }
            }
        }
        lens.push(len);
        level = all;
    }
    if level.is_empty() {
        lens.clear();
    }
    let has_nulls = level.iter().any(|value| value.is_none());
    let mut word = |number: usize| -> Result<(), Unfit> {
        let word = i32::try_from(number).map_err(|_| Unfit::But("it is too long".to_owned()))?;
        out.extend_from_slice(&word.to_be_bytes());
        Ok(())
    };
    word(lens.len())?;
    word(has_nulls.into())?;
    word(of.oid as usize)?;
    for len in lens {
        word(len)?;
        word(1)?;
    }
    level.iter().try_for_each(|value| put(out, |out| element(of, value, out, depth + 1)))
}

fn element(
    of: &Type,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<bool, Unfit> {
    if !value.is_none() {
        write(of, value, out, depth)?;
    }
    Ok(!value.is_none())
}

fn range(
    of: &Type,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Unfit> {
    let py = value.py();
    let part = |name| value.getattr_opt(name);
    let is = |name: &Bound<'_, PyString>| -> PyResult<bool> { value.getattr(name)?.is_truthy() };
    let (Some(lower), Some(upper)) = (part(intern!(py, "lower"))?, part(intern!(py, "upper"))?)
    else {
        return Err(Unfit::Expected("an onetrip.Range"));
    };
    if is(intern!(py, "isempty"))? {
        out.push(EMPTY);
        return Ok(());
    }
    let mut flags = 0;
    let bounds = [
        (&lower, intern!(py, "lower_inc"), LOWER_INFINITE, LOWER_INCLUSIVE),
        (&upper, intern!(py, "upper_inc"), UPPER_INFINITE, UPPER_INCLUSIVE),
    ];
    for (bound, inclusive, infinite, included) in bounds {
        if bound.is_none() {
            flags |= infinite;
        } else if is(inclusive)? {
            flags |= included;
        }
    }
    out.push(flags);
    for bound in [&lower, &upper].into_iter().filter(|bound| !bound.is_none()) {
        put(out, |out| element(of, bound, out, depth + 1))?;
    }
    Ok(())
}

fn multirange(
    of: &Type,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Unfit> {
    let ranges = elements(value).ok_or(Unfit::Expected("a list of onetrip.Range"))?;
    out.extend_from_slice(&(ranges.len() as i32).to_be_bytes());
    let mut each = ranges.iter();
    each.try_for_each(|it| put(out, |out| range(of, it, out, depth + 1).map(|()| true)))
}

fn hstore(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    const TEXTS: Unfit = Unfit::Expected("a dict of str, or None, by str");
    let pairs = value.cast::<PyMapping>().map_err(|_| TEXTS)?.items()?;
    out.extend_from_slice(&(pairs.len() as i32).to_be_bytes());
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

fn vector(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    let numbers = elements(value).ok_or(Unfit::Expected("a list of floats"))?;
    let len = u16::try_from(numbers.len());
    let len = len.map_err(|_| Unfit::But("it has more than 65535 numbers".to_owned()))?;
    out.extend_from_slice(&[len.to_be_bytes(), [0, 0]].concat());
    numbers.iter().try_for_each(|number| float4(number, out))
}

fn composite(
    fields: &[(String, Arc<Type>)],
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Unfit> {
    let values = match value.cast::<PyMapping>() {
        Ok(map) => {
            let of = |(name, _): &(String, Arc<Type>)| map.get_item(name);
            let values = fields.iter().map(of).collect::<PyResult<Vec<_>>>();
            values.map_err(|_| Unfit::But("it has not all fields of the type".to_owned()))?
        }
        Err(_) => elements(value).ok_or(Unfit::Expected("a tuple or a dict of its fields"))?,
    };
    if values.len() != fields.len() {
        let (wanted, given) = (fields.len(), values.len());
        return Err(Unfit::But(format!("it has {given} fields, and the type {wanted}")));
    }
    out.extend_from_slice(&(fields.len() as i32).to_be_bytes());
    for ((_, type_), value) in fields.iter().zip(&values) {
        out.extend_from_slice(&type_.oid.to_be_bytes());
        put(out, |out| element(type_, value, out, depth + 1))?;
    }
    Ok(())
}
