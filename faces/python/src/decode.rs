//! Values as they are read: from PostgreSQL's binary form, or its text where there is no other.

use std::sync::Arc;

use onetrip_postgres::message::{Format, RowDescription};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyList, PyString, PyTime,
    PyTuple, PyType, PyTzInfo,
};

use crate::codec;
use crate::dates;
use crate::numeric;
use crate::record::{Filling, Names, record_type};
use crate::types::{Kind, Type, Types};

/// The columns of a result, and how their values are read.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) names: Py<Names>,
    pub(crate) columns: Vec<(Arc<Type>, Format)>,
    /// No value of a row can be part of a cycle.
    plain: bool,
}

/// Why a value could not be read.
#[derive(Debug)]
pub(crate) enum Misfit {
    /// It is not in the form of its type.
    Malformed,
    Python(PyErr),
}

impl From<PyErr> for Misfit {
    fn from(error: PyErr) -> Misfit {
        Misfit::Python(error)
    }
}

type Read<'py> = Result<Bound<'py, PyAny>, Misfit>;

impl Columns {
    /// Of the body of a RowDescription, as they were asked for; none where it can't be read.
    pub(crate) fn read(
        py: Python<'_>,
        body: &[u8],
        types: impl FnOnce(&[u32]) -> PyResult<Vec<Arc<Type>>>,
        formats: &[Format],
    ) -> PyResult<Option<Columns>> {
        let Ok(RowDescription { fields }) = RowDescription::decode(body) else { return Ok(None) };
        let names = Py::new(py, Names::new(py, fields.map(|field| field.name))?)?;
        let format = |place| formats.get(place).copied().unwrap_or(Format::Binary);
        let oids: Vec<u32> = fields.map(|field| field.type_oid).collect();
        let types = types(&oids)?.into_iter().enumerate();
        let columns: Vec<_> = types.map(|(place, type_)| (type_, format(place))).collect();
        let plain = columns.iter().all(|(type_, _)| is_plain(type_));
        Ok(Some(Columns { names, columns, plain }))
    }

    /// A row of its message's body, as a Record.
    pub(crate) fn row<'py>(&self, row_type: &Bound<'py, PyType>, body: &[u8]) -> Read<'py> {
        let py = row_type.py();
        let mut values = Fields::of(body)?;
        if values.left != self.columns.len() {
            return Err(Misfit::Malformed);
        }
        let mut row = Filling::new(row_type, self.names.bind(py), values.left)?;
        for (type_, format) in &self.columns {
            row.push(read_or_null(py, type_, *format, values.next()?)?);
        }
        Ok(row.done(self.plain))
    }

    /// A row as a tuple, a dict, or what a class makes of its columns by name.
    pub(crate) fn row_as<'py>(&self, into: &Bound<'py, PyAny>, body: &[u8]) -> Read<'py> {
        let py = into.py();
        let mut fields = Fields::of(body)?;
        if fields.left != self.columns.len() {
            return Err(Misfit::Malformed);
        }
        let values = self
            .columns
            .iter()
            .map(|(type_, format)| read_or_null(py, type_, *format, fields.next()?));
        let values = values.collect::<Result<Vec<_>, Misfit>>()?;
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

    /// The first value of a row.
    pub(crate) fn value<'py>(&self, py: Python<'py>, body: &[u8], place: usize) -> Read<'py> {
        let mut values = Fields::of(body)?;
        for _ in 0..place {
            values.next()?;
        }
        let (type_, format) = self.columns.get(place).ok_or(Misfit::Malformed)?;
        read_or_null(py, type_, *format, values.next()?)
    }
}

/// Fields with their lengths in front.
pub(crate) struct Fields<'a> {
    pub(crate) left: usize,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn of(body: &'a [u8]) -> Result<Fields<'a>, Misfit> {
        let (count, rest) = body.split_first_chunk().ok_or(Misfit::Malformed)?;
        Ok(Fields { left: u16::from_be_bytes(*count).into(), rest })
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<&'a [u8]>, Misfit> {
        field(&mut self.rest)
    }
}

#[inline]
fn field<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Misfit> {
    let (len, behind) = rest.split_first_chunk().ok_or(Misfit::Malformed)?;
    *rest = behind;
    let Ok(len) = usize::try_from(i32::from_be_bytes(*len)) else { return Ok(None) };
    let (value, behind) = rest.split_at_checked(len).ok_or(Misfit::Malformed)?;
    *rest = behind;
    Ok(Some(value))
}

fn is_plain(type_: &Type) -> bool {
    match &type_.kind {
        Kind::Domain(of) => is_plain(of),
        Kind::Array(_) | Kind::Range(_) | Kind::Multirange(_) | Kind::Composite(_) => false,
        Kind::Record | Kind::User(_) => false,
        _ => true,
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
    let text = text(py, value)?;
    match &type_.base().kind {
        Kind::User(codec) => Ok(codec.decode.bind(py).call1((text,))?),
        Kind::Array(of) => crate::arrays::read(&text, |text| read_text(py, of, text.as_bytes())),
        _ => Ok(text),
    }
}

/// A value in its binary form.
pub(crate) fn read<'py>(py: Python<'py>, type_: &Type, value: &[u8]) -> Read<'py> {
    match &type_.kind {
        Kind::Int4 => Ok(int(py, i32::from_be_bytes(exactly(value)?).into())),
        Kind::Text | Kind::Json | Kind::Enum => text(py, value),
        Kind::Int8 => Ok(int(py, i64::from_be_bytes(exactly(value)?))),
        Kind::Bool => Ok(PyBool::new(py, exactly::<1>(value)? != [0]).to_owned().into_any()),
        Kind::Int2 => Ok(int(py, i16::from_be_bytes(exactly(value)?).into())),
        Kind::Oid => Ok(int(py, u32::from_be_bytes(exactly(value)?).into())),
        Kind::Float8 => Ok(PyFloat::new(py, f64::from_be_bytes(exactly(value)?)).into_any()),
        Kind::Float4 => Ok(PyFloat::new(py, shortest(exactly(value)?)).into_any()),
        Kind::WideFloat4 => {
            Ok(PyFloat::new(py, f32::from_be_bytes(exactly(value)?).into()).into_any())
        }
        Kind::Bytea | Kind::Char => Ok(PyBytes::new(py, value).into_any()),
        Kind::Jsonb => text(py, value.strip_prefix(&[1]).ok_or(Misfit::Malformed)?),
        Kind::Numeric => numeric::read(py, value),
        Kind::Uuid => Ok(uuid(py, u128::from_be_bytes(exactly(value)?))?),
        Kind::Date => date(py, i32::from_be_bytes(exactly(value)?)),
        Kind::Time => Ok(time(py, i64::from_be_bytes(exactly(value)?), None)?),
        Kind::TimeTz => time_with_zone(py, value),
        Kind::Timestamp => moment(py, i64::from_be_bytes(exactly(value)?), None),
        Kind::TimestampTz | Kind::LocalTimestampTz => {
            moment(py, i64::from_be_bytes(exactly(value)?), Some(&*PyTzInfo::utc(py)?))
        }
        Kind::Interval => interval(py, value),
        Kind::Void => Ok(py.None().into_bound(py)),
        Kind::Domain(base) => read(py, base, value),
        Kind::Array(of) => array(py, of, value),
        Kind::Range(of) => range(py, of, value),
        Kind::Multirange(of) => multirange(py, of, value),
        Kind::Composite(fields) => composite(py, Some(fields), value),
        Kind::Record => composite(py, None, value),
        Kind::Hstore => hstore(py, value),
        Kind::Vector => vector(py, value),
        Kind::User(codec) => codec::decode(py, codec, value),
        Kind::Other => text(py, value),
    }
}

#[inline]
pub(crate) fn exactly<const LEN: usize>(value: &[u8]) -> Result<[u8; LEN], Misfit> {
    value.try_into().map_err(|_| Misfit::Malformed)
}

#[inline]
fn int(py: Python<'_>, value: i64) -> Bound<'_, PyAny> {
    let Ok(int) = value.into_pyobject(py);
    int.into_any()
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

/// A float of 4 bytes as the number with the fewest digits that is it, and not one with digits that
/// nobody wrote.
fn shortest(value: [u8; 4]) -> f64 {
    let value = f32::from_be_bytes(value);
    value.to_string().parse().unwrap_or(value.into())
}

/// Made without its `__init__`, which takes ten times as long.
fn uuid(py: Python<'_>, value: u128) -> PyResult<Bound<'_, PyAny>> {
    struct Made {
        type_: Py<PyAny>,
        int: Py<PyAny>,
        is_safe: Py<PyAny>,
        unknown: Py<PyAny>,
        new: Py<PyAny>,
    }
    static MADE: PyOnceLock<Made> = PyOnceLock::new();
    let made = MADE.get_or_try_init(py, || {
        let module = py.import("uuid")?;
        let type_ = module.getattr("UUID")?;
        let set = |name| type_.getattr(name)?.getattr("__set__");
        let object = py.import("builtins")?.getattr("object")?;
        PyResult::Ok(Made {
            int: set("int")?.unbind(),
            is_safe: set("is_safe")?.unbind(),
            unknown: module.getattr("SafeUUID")?.getattr("unknown")?.unbind(),
            new: object.getattr("__new__")?.unbind(),
            type_: type_.unbind(),
        })
    })?;
    let uuid = made.new.bind(py).call1((&made.type_,))?;
    made.int.bind(py).call1((&uuid, value))?;
    made.is_safe.bind(py).call1((&uuid, &made.unknown))?;
    Ok(uuid)
}

fn date(py: Python<'_>, days: i32) -> Read<'_> {
    let date = match days {
        i32::MAX => return Ok(py.get_type::<PyDate>().getattr(intern!(py, "max"))?),
        i32::MIN => return Ok(py.get_type::<PyDate>().getattr(intern!(py, "min"))?),
        days => dates::civil(days.into()).ok_or_else(|| out_of_range("date"))?,
    };
    let (year, month, day) = date;
    Ok(PyDate::new(py, year, month, day)?.into_any())
}

fn out_of_range(what: &str) -> Misfit {
    let message = format!("a {what} is out of the range of Python, years 1 to 9999");
    Misfit::Python(pyo3::exceptions::PyOverflowError::new_err(message))
}

fn time<'py>(
    py: Python<'py>,
    micros: i64,
    zone: Option<&Bound<'py, PyTzInfo>>,
) -> PyResult<Bound<'py, PyAny>> {
    // 24:00, which Python has not, is read as the last moment of the day.
    let (h, m, s, us) = dates::clock(micros.clamp(0, dates::DAY - 1));
    Ok(PyTime::new(py, h, m, s, us, zone)?.into_any())
}

fn time_with_zone<'py>(py: Python<'py>, value: &[u8]) -> Read<'py> {
    let (micros, west) = value.split_first_chunk().ok_or(Misfit::Malformed)?;
    let west = i32::from_be_bytes(exactly(west)?);
    let zone = PyTzInfo::fixed_offset(py, PyDelta::new(py, 0, -west, 0, true)?)?;
    Ok(time(py, i64::from_be_bytes(*micros), Some(&zone))?)
}

fn moment<'py>(py: Python<'py>, micros: i64, zone: Option<&Bound<'py, PyTzInfo>>) -> Read<'py> {
    if matches!(micros, i64::MAX | i64::MIN) {
        let name = if micros > 0 { intern!(py, "max") } else { intern!(py, "min") };
        let end = py.get_type::<PyDateTime>().getattr(name)?;
        let kwargs = pyo3::types::PyDict::new(py);
        kwargs.set_item(intern!(py, "tzinfo"), zone)?;
        return Ok(end.call_method(intern!(py, "replace"), (), Some(&kwargs))?);
    }
    let (days, rest) = (micros.div_euclid(dates::DAY), micros.rem_euclid(dates::DAY));
    let (year, month, day) = dates::civil(days).ok_or_else(|| out_of_range("timestamp"))?;
    let (h, m, s, us) = dates::clock(rest);
    Ok(PyDateTime::new(py, year, month, day, h, m, s, us, zone)?.into_any())
}

/// As asyncpg has it: a month is of 30 days, a year of 365.
fn interval<'py>(py: Python<'py>, value: &[u8]) -> Read<'py> {
    let value: [u8; 16] = exactly(value)?;
    let [micros, days, months] = [
        i64::from_be_bytes(exactly(&value[..8])?),
        i32::from_be_bytes(exactly(&value[8..12])?).into(),
        i32::from_be_bytes(exactly(&value[12..])?).into(),
    ];
    let days: i64 = days + months / 12 * 365 + months % 12 * 30;
    let days = days + micros.div_euclid(dates::DAY);
    let rest = micros.rem_euclid(dates::DAY);
    let days = i32::try_from(days).map_err(|_| out_of_range("interval"))?;
    let (seconds, micros) = ((rest / 1_000_000) as i32, (rest % 1_000_000) as i32);
    Ok(PyDelta::new(py, days, seconds, micros, false)?.into_any())
}

fn take(rest: &mut &[u8]) -> Result<i32, Misfit> {
    let (number, behind) = rest.split_first_chunk::<4>().ok_or(Misfit::Malformed)?;
    *rest = behind;
    Ok(i32::from_be_bytes(*number))
}

fn array<'py>(py: Python<'py>, of: &Type, value: &[u8]) -> Read<'py> {
    let mut rest = value;
    let [dimensions, _has_nulls, _of] = [take(&mut rest)?, take(&mut rest)?, take(&mut rest)?];
    if !(0..=DIMENSIONS_MAX).contains(&dimensions) {
        return Err(Misfit::Malformed);
    }
    let mut lens = [0_usize; DIMENSIONS_MAX as usize];
    for len in &mut lens[..dimensions as usize] {
        *len = usize::try_from(take(&mut rest)?).map_err(|_| Misfit::Malformed)?;
        take(&mut rest)?;
    }
    match &lens[..dimensions as usize] {
        [] => Ok(PyList::empty(py).into_any()),
        lens => level(py, of, lens, &mut rest),
    }
}

/// MAXDIM of the server.
const DIMENSIONS_MAX: i32 = 6;

fn level<'py>(py: Python<'py>, of: &Type, lens: &[usize], rest: &mut &[u8]) -> Read<'py> {
    let Some((&len, inner)) = lens.split_first() else { return Err(Misfit::Malformed) };
    // Each element has four bytes at least, so this is no more than came.
    if len > rest.len() {
        return Err(Misfit::Malformed);
    }
    let mut values = Vec::with_capacity(len);
    for _ in 0..len {
        values.push(match inner {
            [] => read_or_null(py, of, Format::Binary, field(rest)?)?,
            inner => level(py, of, inner, rest)?,
        });
    }
    Ok(PyList::new(py, values)?.into_any())
}

fn range<'py>(py: Python<'py>, of: &Type, value: &[u8]) -> Read<'py> {
    let (flags, mut rest) = value.split_first().ok_or(Misfit::Malformed)?;
    let mut bound = |infinite: u8| match flags & (infinite | EMPTY) {
        0 => read_or_null(py, of, Format::Binary, field(&mut rest)?),
        _ => Ok(py.None().into_bound(py)),
    };
    let (lower, upper) = (bound(LOWER_INFINITE)?, bound(UPPER_INFINITE)?);
    let has = |flag: u8| flags & flag != 0;
    let arguments = (lower, upper, has(LOWER_INCLUSIVE), has(UPPER_INCLUSIVE), has(EMPTY));
    Ok(crate::python::range(py)?.call1(arguments)?)
}

// src/include/utils/rangetypes.h
pub(crate) const EMPTY: u8 = 1;
pub(crate) const LOWER_INCLUSIVE: u8 = 2;
pub(crate) const UPPER_INCLUSIVE: u8 = 4;
pub(crate) const LOWER_INFINITE: u8 = 8;
pub(crate) const UPPER_INFINITE: u8 = 16;

fn multirange<'py>(py: Python<'py>, of: &Type, value: &[u8]) -> Read<'py> {
    let mut rest = value;
    let count = take(&mut rest)?;
    let list = PyList::empty(py);
    for _ in 0..count {
        list.append(range(py, of, field(&mut rest)?.ok_or(Misfit::Malformed)?)?)?;
    }
    Ok(list.into_any())
}

/// hstore_send in contrib/hstore/hstore_io.c.
fn hstore<'py>(py: Python<'py>, value: &[u8]) -> Read<'py> {
    let mut rest = value;
    let pairs = PyDict::new(py);
    for _ in 0..take(&mut rest)? {
        let key = text(py, field(&mut rest)?.ok_or(Misfit::Malformed)?)?;
        pairs.set_item(key, read_or_null(py, &Type::text(), Format::Binary, field(&mut rest)?)?)?;
    }
    Ok(pairs.into_any())
}

/// vector_send of pgvector: how many there are, two bytes that are not used, floats.
fn vector<'py>(py: Python<'py>, value: &[u8]) -> Read<'py> {
    let (head, numbers) = value.split_first_chunk::<4>().ok_or(Misfit::Malformed)?;
    let (numbers, rest) = numbers.as_chunks::<4>();
    if numbers.len() != usize::from(u16::from_be_bytes([head[0], head[1]])) || !rest.is_empty() {
        return Err(Misfit::Malformed);
    }
    Ok(PyList::new(py, numbers.iter().map(|it| shortest(*it)))?.into_any())
}

fn composite<'py>(
    py: Python<'py>,
    fields: Option<&[(String, Arc<Type>)]>,
    value: &[u8],
) -> Read<'py> {
    let mut rest = value;
    let count = usize::try_from(take(&mut rest)?).map_err(|_| Misfit::Malformed)?;
    if count > rest.len() || fields.is_some_and(|fields| fields.len() != count) {
        return Err(Misfit::Malformed);
    }
    let places: Vec<String> = match fields {
        Some(fields) => fields.iter().map(|(name, _)| name.clone()).collect(),
        None => (1..=count).map(|place| format!("f{place}")).collect(),
    };
    let names = Bound::new(py, Names::new(py, places.iter().map(String::as_str))?)?;
    let mut row = Filling::new(record_type(py)?, &names, count)?;
    let built_in = Types::default();
    for place in 0..count {
        let oid = take(&mut rest)?.cast_unsigned();
        let value = field(&mut rest)?;
        let type_ = match fields {
            Some(fields) => fields[place].1.clone(),
            None => built_in.get(oid),
        };
        let is_read = fields.is_some() || type_.format() == Format::Binary;
        row.push(match (value, is_read) {
            (Some(value), false) => PyBytes::new(py, value).into_any(),
            (value, _) => read_or_null(py, &type_, Format::Binary, value)?,
        });
    }
    Ok(row.done(false))
}

/// What is said where a value is malformed.
pub(crate) fn unreadable(py: Python<'_>, misfit: Misfit) -> (String, Option<Py<PyAny>>) {
    match misfit {
        Misfit::Malformed => ("it is not in the form of its type".to_owned(), None),
        Misfit::Python(error) => (error.to_string(), Some(error.into_value(py).into_any())),
    }
}

/// The text of a command tag.
pub(crate) fn tag<'py>(py: Python<'py>, body: &[u8]) -> Bound<'py, PyString> {
    let text = body.strip_suffix(&[0]).unwrap_or(body);
    PyString::new(py, &String::from_utf8_lossy(text))
}
