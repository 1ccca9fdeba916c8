//! Values as they are read: from PostgreSQL's binary form, or its text where there is no other.

use std::sync::Arc;

use onetrip_postgres::binary::array::{self, Token};
use onetrip_postgres::binary::{Malformed, Parts, calendar, exactly, numeric, range, shortest};
use onetrip_postgres::binary::{calendar::Interval, vector};
use onetrip_postgres::client::types::fit;
use onetrip_postgres::message::{Format, RowDescription};
use pyo3::exceptions::{PyIndexError, PyOverflowError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyList, PyString, PyTime,
    PyTuple, PyType, PyTzInfo,
};

use crate::python;
use crate::record::{Filling, Names, record_type};
use crate::types::{self, Kind, Type, Types};

/// The columns of a result, and how their values are read.
#[derive(Debug)]
pub(crate) struct Columns {
    names: Py<Names>,
    columns: Vec<(Arc<Type>, Format)>,
    /// No value of a row can be part of a cycle.
    plain: bool,
    has_composites: bool,
}

/// Why a value could not be read.
#[derive(Debug)]
pub(crate) enum Misfit {
    /// It is not in the form of its type.
    Malformed,
    /// In a box, so that what is read is returned in registers.
    Python(Box<PyErr>),
}

impl From<PyErr> for Misfit {
    fn from(error: PyErr) -> Misfit {
        Misfit::Python(Box::new(error))
    }
}

impl From<Malformed> for Misfit {
    fn from(_: Malformed) -> Misfit {
        Misfit::Malformed
    }
}

pub(crate) type Read<'py> = Result<Bound<'py, PyAny>, Misfit>;

impl Columns {
    /// Of the body of a RowDescription, as they were asked for; none where it can't be read.
    pub(crate) fn read(
        py: Python<'_>,
        body: &[u8],
        types: Vec<Arc<Type>>,
        formats: &[Format],
    ) -> PyResult<Option<Columns>> {
        let Ok(RowDescription { fields }) = RowDescription::decode(body) else { return Ok(None) };
        let names = Py::new(py, Names::new(py, fields.map(|field| field.name))?)?;
        let format = |place| formats.get(place).copied().unwrap_or(Format::Binary);
        let types = types.into_iter().enumerate();
        let columns: Vec<_> = types.map(|(place, type_)| (type_, format(place))).collect();
        let plain = columns.iter().all(|(type_, _)| types::is_plain(type_));
        let has_composites = columns.iter().any(is_walked);
        Ok(Some(Columns { names, columns, plain, has_composites }))
    }

    /// Whether values may hold composites, which are looked at before they are read.
    pub(crate) fn has_composites(&self) -> bool {
        self.has_composites
    }

    /// The place of a column that holds a composite whose attributes are others than those that were
    /// learned.
    pub(crate) fn outdated<'a>(&self, mut rows: impl Iterator<Item = &'a [u8]>) -> Option<usize> {
        let of_row = |body: &'a [u8]| {
            let (_, mut values) = Parts::of_row(body).ok()?;
            let mut each =
                self.columns.iter().map_while(|column| Some((column, values.part().ok()?)));
            each.position(|(column, value)| {
                is_walked(column) && value.is_some_and(|it| fit::outdated(&column.0, it).is_some())
            })
        };
        if self.has_composites { rows.find_map(of_row) } else { None }
    }

    /// What a reader of many rows keeps.
    pub(crate) fn seen<'a, 'py>(&self) -> Vec<Option<Seen<'a, 'py>>> {
        let of = |(type_, format): &(Arc<Type>, Format)| {
            let is_text = matches!(type_.base().kind, Kind::Text | Kind::Enum);
            (is_text && *format == Format::Binary).then(Seen::default)
        };
        self.columns.iter().map(of).collect()
    }

    /// The values of a row of its message's body.
    #[inline]
    fn values<'a, 'py, 's>(
        &'s self,
        py: Python<'py>,
        body: &'a [u8],
        seen: &'s mut [Option<Seen<'a, 'py>>],
    ) -> Result<impl ExactSizeIterator<Item = Read<'py>> + use<'a, 'py, 's>, Misfit> {
        let (count, mut values) = Parts::of_row(body)?;
        if count != self.columns.len() {
            return Err(Misfit::Malformed);
        }
        let each = self.columns.iter().enumerate();
        Ok(each.map(move |(place, (type_, format))| match (values.part()?, seen.get_mut(place)) {
            (Some(value), Some(Some(seen))) => seen.text(py, value),
            (value, _) => read_or_null(py, type_, *format, value),
        }))
    }

    /// A row as a Record.
    pub(crate) fn row<'a, 'py>(
        &self,
        row_type: &Bound<'py, PyType>,
        body: &'a [u8],
        seen: &mut [Option<Seen<'a, 'py>>],
    ) -> Read<'py> {
        let py = row_type.py();
        let values = self.values(py, body, seen)?;
        let mut row = Filling::new(row_type, self.names.bind(py), values.len())?;
        for value in values {
            row.push(value?);
        }
        Ok(row.done(self.plain))
    }

    /// A row as a tuple, a dict, or what a class makes of its columns by name.
    pub(crate) fn row_as<'a, 'py>(
        &self,
        into: &Bound<'py, PyAny>,
        body: &'a [u8],
        seen: &mut [Option<Seen<'a, 'py>>],
    ) -> Read<'py> {
        let py = into.py();
        let values = self.values(py, body, seen)?.collect::<Result<Vec<_>, Misfit>>()?;
        if into.is(py.get_type::<PyTuple>()) {
            return Ok(PyTuple::new(py, values)?.into_any());
        }
        let named = PyDict::new(py);
        for (name, value) in self.names.get().names.bind(py).iter().zip(values) {
            named.set_item(name, value)?;
        }
        match into.is(py.get_type::<PyDict>()) {
            true => Ok(named.into_any()),
            false => Ok(into.call((), Some(&named))?),
        }
    }

    /// A value of a row. A negative place counts from the end, as in any sequence of Python.
    pub(crate) fn value<'py>(&self, py: Python<'py>, body: &[u8], place: isize) -> Read<'py> {
        let (_, mut values) = Parts::of_row(body)?;
        let count = self.columns.len();
        let at = if place < 0 { count } else { 0 }.checked_add_signed(place);
        let found = at.and_then(|at| Some((at, self.columns.get(at)?)));
        let Some((at, (type_, format))) = found else {
            let message = format!("there is no column {place} in rows of {count}");
            return Err(PyIndexError::new_err(message).into());
        };
        for _ in 0..at {
            values.part()?;
        }
        read_or_null(py, type_, *format, values.part()?)
    }
}

/// Whether the values of a column say on the wire what they consist of.
fn is_walked((type_, format): &(Arc<Type>, Format)) -> bool {
    *format == Format::Binary && fit::may_be_outdated(type_)
}

/// Texts of a column that were read, by a hash: one that comes again is the same object, which
/// takes less time, and no memory. It is given up where few come again.
#[derive(Default)]
pub(crate) struct Seen<'a, 'py> {
    texts: [Option<(&'a [u8], Bound<'py, PyAny>)>; 16],
    /// Texts that were new, less those that came again.
    misses: u32,
}

impl<'a, 'py> Seen<'a, 'py> {
    const MISSES_MAX: u32 = 64;
    const LEN_MAX: usize = 64;

    #[inline]
    fn text(&mut self, py: Python<'py>, value: &'a [u8]) -> Read<'py> {
        let (Some(first), Some(last)) = (value.first(), value.last()) else {
            return text(py, value);
        };
        if self.misses > Self::MISSES_MAX || value.len() > Self::LEN_MAX {
            return text(py, value);
        }
        let hash = value.len() + usize::from(*first) + 2 * usize::from(*last);
        let place = &mut self.texts[hash % 16];
        match place {
            Some((old, object)) if *old == value => {
                self.misses = self.misses.saturating_sub(1);
                Ok(object.clone())
            }
            _ => {
                let object = text(py, value)?;
                *place = Some((value, object.clone()));
                self.misses += 1;
                Ok(object)
            }
        }
    }
}

#[inline]
fn read_or_null<'py>(
    py: Python<'py>,
    type_: &Type,
    format: Format,
    value: Option<&[u8]>,
) -> Read<'py> {
    match (value, format) {
        (None, _) => Ok(py.None().into_bound(py)),
        (Some(value), Format::Binary) => read(py, type_, value),
        (Some(value), Format::Text) => read_text(py, type_, value),
    }
}

/// A value in its text form, for types that are read so.
fn read_text<'py>(py: Python<'py>, type_: &Type, value: &[u8]) -> Read<'py> {
    match &type_.base().kind {
        Kind::Own(codec) => types::decode_text(codec, text(py, value)?),
        Kind::Array(of) => array_text(py, of, text(py, value)?.cast().map_err(PyErr::from)?),
        _ => text(py, value),
    }
}

/// A value in its binary form.
#[inline]
pub(crate) fn read<'py>(py: Python<'py>, type_: &Type, value: &[u8]) -> Read<'py> {
    match &type_.kind {
        Kind::Int4 => int(py, i32::from_be_bytes(exactly(value)?).into()),
        Kind::Text | Kind::Json | Kind::Enum | Kind::Other => text(py, value),
        Kind::Int8 => int(py, i64::from_be_bytes(exactly(value)?)),
        kind => read_rest(py, kind, value),
    }
}

pub(crate) fn decimal<'py>(py: Python<'py>, text: &str) -> Read<'py> {
    Ok(python::decimal(py)?.call1((text,))?)
}

fn read_rest<'py>(py: Python<'py>, kind: &Kind, value: &[u8]) -> Read<'py> {
    match kind {
        Kind::Int4 | Kind::Text | Kind::Json | Kind::Enum | Kind::Other | Kind::Int8 => {
            Err(Misfit::Malformed)
        }
        Kind::Bool => Ok(PyBool::new(py, exactly::<1>(value)? != [0]).to_owned().into_any()),
        Kind::Int2 => int(py, i16::from_be_bytes(exactly(value)?).into()),
        Kind::Oid => int(py, u32::from_be_bytes(exactly(value)?).into()),
        Kind::Float8 => Ok(PyFloat::new(py, f64::from_be_bytes(exactly(value)?)).into_any()),
        Kind::Float4 => Ok(PyFloat::new(py, shortest(exactly(value)?)).into_any()),
        Kind::Bytea | Kind::Char => Ok(PyBytes::new(py, value).into_any()),
        Kind::Jsonb => text(py, value.strip_prefix(&[1]).ok_or(Misfit::Malformed)?),
        Kind::Numeric => decimal(py, &numeric::read(value)?.text()),
        Kind::Uuid => Ok(uuid(py, u128::from_be_bytes(exactly(value)?))?),
        Kind::Date => date(py, i32::from_be_bytes(exactly(value)?)),
        Kind::Time => time(py, i64::from_be_bytes(exactly(value)?), None),
        Kind::TimeTz => {
            let (micros, west) = value.split_first_chunk().ok_or(Misfit::Malformed)?;
            let west = i32::from_be_bytes(exactly(west)?);
            let zone = PyDelta::new(py, 0, west.checked_neg().ok_or(Misfit::Malformed)?, 0, true)?;
            let zone = PyTzInfo::fixed_offset(py, zone)?;
            time(py, i64::from_be_bytes(*micros), Some(&zone))
        }
        Kind::Timestamp => moment(py, i64::from_be_bytes(exactly(value)?), None),
        Kind::TimestampTz => {
            moment(py, i64::from_be_bytes(exactly(value)?), Some(&*PyTzInfo::utc(py)?))
        }
        Kind::Interval => interval(py, Interval::read(value)?),
        Kind::Void => Ok(py.None().into_bound(py)),
        Kind::Domain(base) => read(py, base, value),
        Kind::Array(of) => {
            let (lens, dimensions, mut elements) = array::read(value)?;
            match &lens[..dimensions] {
                [] => Ok(PyList::empty(py).into_any()),
                lens => level(py, of, lens, &mut elements),
            }
        }
        Kind::Range(of) => {
            let it = range::read(value)?;
            let bound = |bound| read_or_null(py, of, Format::Binary, bound);
            let bounds = (bound(it.lower.0)?, bound(it.upper.0)?);
            let arguments = (bounds.0, bounds.1, it.lower.1, it.upper.1, it.is_empty);
            Ok(python::range(py)?.call1(arguments)?)
        }
        Kind::Multirange(of) => {
            let (list, mut ranges, of) = (PyList::empty(py), Parts(value), Kind::Range(of.clone()));
            for _ in 0..ranges.count(4)? {
                list.append(read_rest(py, &of, ranges.some()?)?)?;
            }
            Ok(list.into_any())
        }
        Kind::Composite(fields) => composite(py, Some(fields), value),
        Kind::Record => composite(py, None, value),
        // hstore_send in contrib/hstore/hstore_io.c.
        Kind::Hstore => {
            let (named, mut parts) = (PyDict::new(py), Parts(value));
            for _ in 0..parts.count(4)? {
                let key = text(py, parts.some()?)?;
                let value = parts.part()?.map(|value| text(py, value)).transpose()?;
                named.set_item(key, value)?;
            }
            Ok(named.into_any())
        }
        Kind::Vector => {
            Ok(PyList::new(py, vector(value)?.iter().map(|it| shortest(*it)))?.into_any())
        }
        Kind::Own(codec) => types::decode(py, codec, value),
    }
}

#[allow(unsafe_code)]
#[inline]
fn int(py: Python<'_>, value: i64) -> Read<'_> {
    // SAFETY: it returns a new reference, or NULL without memory.
    Ok(unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyLong_FromLongLong(value))? })
}

#[allow(unsafe_code)]
#[inline]
fn text<'py>(py: Python<'py>, value: &[u8]) -> Read<'py> {
    if value.is_ascii() {
        // SAFETY: a new text of ASCII letters has a byte for each, which nobody else sees yet.
        unsafe {
            let text = ffi::PyUnicode_New(value.len() as ffi::Py_ssize_t, 127);
            let text = Bound::from_owned_ptr_or_err(py, text)?;
            let letters = ffi::PyUnicode_1BYTE_DATA(text.as_ptr());
            if !value.is_empty() {
                std::ptr::copy_nonoverlapping(value.as_ptr(), letters, value.len());
            }
            return Ok(text);
        }
    }
    // SAFETY: the bytes are there, and CPython checks that they are UTF-8.
    unsafe {
        let (start, len) = (value.as_ptr().cast(), value.len() as ffi::Py_ssize_t);
        let text = ffi::PyUnicode_DecodeUTF8(start, len, std::ptr::null());
        Ok(Bound::from_owned_ptr_or_err(py, text)?)
    }
}

/// Made without its `__init__`, which takes ten times as long.
fn uuid(py: Python<'_>, value: u128) -> PyResult<Bound<'_, PyAny>> {
    static MADE: PyOnceLock<[Py<PyAny>; 4]> = PyOnceLock::new();
    let [new, set_int, set_is_safe, unknown] = MADE.get_or_try_init(py, || {
        let set = |name| python::uuid(py)?.getattr(name)?.getattr("__set__");
        let new = py.import("builtins")?.getattr("object")?.getattr("__new__")?;
        let unknown = py.import("uuid")?.getattr("SafeUUID")?.getattr("unknown")?;
        PyResult::Ok([new, set("int")?, set("is_safe")?, unknown].map(Bound::unbind))
    })?;
    let uuid = new.bind(py).call1((python::uuid(py)?,))?;
    set_int.bind(py).call1((&uuid, value))?;
    set_is_safe.bind(py).call1((&uuid, unknown))?;
    Ok(uuid)
}

fn out_of_range(what: &str) -> Misfit {
    let message = format!("a {what} is out of the range of Python, years 1 to 9999");
    PyOverflowError::new_err(message).into()
}

/// Year, month and day, which Python has.
fn civil(days: i64, what: &str) -> Result<(i32, u8, u8), Misfit> {
    let (year, month, day) = calendar::civil(days);
    let year = i32::try_from(year).ok().filter(|year| (1..=9999).contains(year));
    Ok((year.ok_or_else(|| out_of_range(what))?, month, day))
}

/// What Python has nothing for, and no other value may stand for.
fn endless(what: &str) -> Misfit {
    let message = format!("infinity is no {what} of Python");
    PyOverflowError::new_err(message).into()
}

/// Infinity as asyncpg has it: the last or the first of its class, without a time zone.
pub(crate) fn end<'py>(
    py: Python<'py>,
    kind: &Kind,
    value: &[u8],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let of = match (kind, value) {
        (Kind::Date, [0x7f, 0xff, 0xff, 0xff] | [0x80, 0, 0, 0]) => py.get_type::<PyDate>(),
        (
            Kind::Timestamp | Kind::TimestampTz,
            [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff] | [0x80, 0, 0, 0, 0, 0, 0, 0],
        ) => py.get_type::<PyDateTime>(),
        _ => return Ok(None),
    };
    let is_last = value[0] == 0x7f;
    of.getattr(if is_last { intern!(py, "max") } else { intern!(py, "min") }).map(Some)
}

fn date(py: Python<'_>, days: i32) -> Read<'_> {
    if matches!(days, i32::MAX | i32::MIN) {
        return Err(endless("date"));
    }
    let (year, month, day) = civil(days.into(), "date")?;
    Ok(PyDate::new(py, year, month, day)?.into_any())
}

fn time<'py>(py: Python<'py>, micros: i64, zone: Option<&Bound<'py, PyTzInfo>>) -> Read<'py> {
    if !(0..calendar::DAY).contains(&micros) {
        return Err(PyOverflowError::new_err("24:00 is no time of day of Python").into());
    }
    let (h, m, s, us) = calendar::clock(micros);
    Ok(PyTime::new(py, h, m, s, us, zone)?.into_any())
}

fn moment<'py>(py: Python<'py>, micros: i64, zone: Option<&Bound<'py, PyTzInfo>>) -> Read<'py> {
    if matches!(micros, i64::MAX | i64::MIN) {
        return Err(endless("datetime"));
    }
    let (days, rest) = (micros.div_euclid(calendar::DAY), micros.rem_euclid(calendar::DAY));
    let (year, month, day) = civil(days, "timestamp")?;
    let (h, m, s, us) = calendar::clock(rest);
    Ok(PyDateTime::new(py, year, month, day, h, m, s, us, zone)?.into_any())
}

/// As asyncpg has it: a month is of 30 days, a year of 365.
fn interval(py: Python<'_>, Interval { micros, days, months }: Interval) -> Read<'_> {
    let (days, months) = (i64::from(days), i64::from(months));
    let days = days + months / 12 * 365 + months % 12 * 30 + micros.div_euclid(calendar::DAY);
    let rest = micros.rem_euclid(calendar::DAY);
    let days = i32::try_from(days).map_err(|_| out_of_range("interval"))?;
    let (seconds, micros) = ((rest / 1_000_000) as i32, (rest % 1_000_000) as i32);
    Ok(PyDelta::new(py, days, seconds, micros, false)?.into_any())
}

fn level<'py>(py: Python<'py>, of: &Type, lens: &[usize], elements: &mut Parts<'_>) -> Read<'py> {
    let Some((&len, inner)) = lens.split_first() else { return Err(Misfit::Malformed) };
    let mut value = || match inner {
        [] => read_or_null(py, of, Format::Binary, elements.part()?),
        inner => level(py, of, inner, elements),
    };
    let values = (0..len).map(|_| value()).collect::<Result<Vec<_>, Misfit>>()?;
    Ok(PyList::new(py, values)?.into_any())
}

fn array_text<'py>(py: Python<'py>, of: &Type, text: &Bound<'py, PyString>) -> Read<'py> {
    let mut open: Vec<Bound<'py, PyList>> = Vec::new();
    for token in array::tokens(text.to_str()?, of.delimiter) {
        let value = match token? {
            Token::Open => {
                open.push(PyList::empty(py));
                continue;
            }
            Token::Close => open.pop().ok_or(Misfit::Malformed)?.into_any(),
            Token::Element(Some(element)) => read_text(py, of, element.as_bytes())?,
            Token::Element(None) => py.None().into_bound(py),
        };
        match open.last() {
            Some(outer) => outer.append(value)?,
            None => return Ok(value),
        }
    }
    Err(Misfit::Malformed)
}

/// A row of no declared type as asyncpg has it: a tuple, and so the rows in it.
pub(crate) fn tuple<'py>(py: Python<'py>, value: &[u8]) -> Read<'py> {
    let mut parts = Parts(value);
    let mut values = Vec::new();
    for _ in 0..parts.count(8)? {
        let oid = parts.i32()?.cast_unsigned();
        values.push(anonymous(py, oid, parts.part()?, tuple)?);
    }
    Ok(PyTuple::new(py, values)?.into_any())
}

/// A value in a row of no declared type, which says of what type it is. `record` reads the rows in
/// it.
fn anonymous<'py>(
    py: Python<'py>,
    oid: u32,
    value: Option<&[u8]>,
    record: fn(Python<'py>, &[u8]) -> Read<'py>,
) -> Read<'py> {
    let type_ = Types::default().get(oid);
    match (value, type_.format()) {
        (Some(value), _) if matches!(type_.kind, Kind::Record) => record(py, value),
        (Some(value), Format::Text) => Ok(PyBytes::new(py, value).into_any()),
        (value, _) => read_or_null(py, &type_, Format::Binary, value),
    }
}

fn composite<'py>(
    py: Python<'py>,
    fields: Option<&[(String, Arc<Type>)]>,
    value: &[u8],
) -> Read<'py> {
    let mut parts = Parts(value);
    let count = parts.count(8)?;
    if fields.is_some_and(|fields| fields.len() != count) {
        return Err(Misfit::Malformed);
    }
    let names = match fields {
        Some(fields) => Names::new(py, fields.iter().map(|(name, _)| name.as_str()))?,
        None => {
            let names: Vec<_> = (1..=count).map(|place| format!("f{place}")).collect();
            Names::new(py, names.iter().map(String::as_str))?
        }
    };
    let mut row = Filling::new(record_type(py)?, &Bound::new(py, names)?, count)?;
    for place in 0..count {
        let oid = parts.i32()?.cast_unsigned();
        let value = parts.part()?;
        row.push(match fields {
            // Of a value that was altered in the middle of its result.
            Some(fields) if fields[place].1.oid != oid => return Err(Misfit::Malformed),
            Some(fields) => read_or_null(py, &fields[place].1, Format::Binary, value)?,
            None => anonymous(py, oid, value, |py, value| composite(py, None, value))?,
        });
    }
    Ok(row.done(false))
}

/// What is said where a value is malformed.
pub(crate) fn unreadable(py: Python<'_>, misfit: Misfit) -> (String, Option<Py<PyAny>>) {
    match misfit {
        Misfit::Malformed => ("it is not in the form of its type".to_owned(), None),
        Misfit::Python(error) => (error.to_string(), Some((*error).into_value(py).into_any())),
    }
}

/// The text of a command tag.
pub(crate) fn tag<'py>(py: Python<'py>, body: &[u8]) -> Bound<'py, PyString> {
    let text = body.strip_suffix(&[0]).unwrap_or(body);
    PyString::new(py, &String::from_utf8_lossy(text))
}
