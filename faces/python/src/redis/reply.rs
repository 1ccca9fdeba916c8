//! Replies as values of Python.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use onetrip_redis::Reply;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PySet, PyString};

use super::request::Request;
use super::shape::shaped;

/// Why a reply can't be read.
pub(super) enum Misread {
    /// It is not what this command is answered by.
    Malformed,
    NotText,
    Raised(PyErr),
}

impl From<PyErr> for Misread {
    fn from(error: PyErr) -> Misread {
        Misread::Raised(error)
    }
}

impl From<std::convert::Infallible> for Misread {
    fn from(never: std::convert::Infallible) -> Misread {
        match never {}
    }
}

/// The blocks of a reply as one.
pub(super) fn joined(blocks: &[Bytes]) -> Bytes {
    match blocks {
        [only] => only.clone(),
        _ => {
            let mut whole = BytesMut::new();
            blocks.iter().for_each(|block| whole.extend_from_slice(block));
            whole.freeze()
        }
    }
}

impl Request {
    /// What the caller gets of its reply.
    pub(crate) fn read(&self, py: Python<'_>, blocks: &[Bytes]) -> PyResult<Py<PyAny>> {
        if self.is_list() || self.replies > 0 {
            return Ok(py.None());
        }
        let whole = joined(blocks);
        let made = match Reply::read(&whole) {
            Ok((reply, _)) => shaped(py, self.shape, reply, self.raw),
            Err(_) => Err(Misread::Malformed),
        };
        made.map(Bound::unbind).map_err(|misread| {
            let (why, cause) = match misread {
                Misread::Malformed => ("it is not what this command is answered by", None),
                Misread::NotText => ("it is not text in UTF-8: ask for bytes (db.bytes)", None),
                Misread::Raised(error) => {
                    ("it has a value that Python can't hold so", Some(error.into_value(py).into()))
                }
            };
            let message = format!("the reply to {} can't be read: {why}", self.name);
            crate::python::error(py, ("conversion", "Applied", &message), None, cause)
        })
    }
}

/// The bytes of a string.
pub(super) fn as_bytes<'r>(reply: &'r Reply<'_>) -> Option<&'r [u8]> {
    match reply {
        Reply::Simple(text) | Reply::BigNumber(text) | Reply::Verbatim { text, .. } => Some(text),
        Reply::Bulk(Cow::Borrowed(text)) => Some(text),
        Reply::Bulk(Cow::Owned(text)) => Some(text),
        _ => None,
    }
}

pub(super) fn text<'py>(py: Python<'py>, bytes: &[u8]) -> Result<Bound<'py, PyAny>, Misread> {
    let text = std::str::from_utf8(bytes).map_err(|_| Misread::NotText)?;
    Ok(PyString::new(py, text).into_any())
}

pub(super) fn value<'py>(
    py: Python<'py>,
    reply: Reply<'_>,
    raw: bool,
) -> Result<Bound<'py, PyAny>, Misread> {
    let plain = |reply| value(py, reply, raw);
    Ok(match reply {
        Reply::Nil => py.None().into_bound(py),
        Reply::Int(number) => number.into_pyobject(py)?.into_any(),
        Reply::Bulk(bytes) if raw => PyBytes::new(py, &bytes).into_any(),
        Reply::Bulk(bytes) => text(py, &bytes)?,
        Reply::Verbatim { text: bytes, .. } if raw => PyBytes::new(py, bytes).into_any(),
        // Texts of the server's own, such as OK, which are no data.
        Reply::Simple(bytes) | Reply::Verbatim { text: bytes, .. } => text(py, bytes)?,
        Reply::Double(number) => PyFloat::new(py, number).into_any(),
        Reply::Bool(truth) => PyBool::new(py, truth).to_owned().into_any(),
        Reply::BigNumber(digits) => {
            py.get_type::<pyo3::types::PyInt>().call1((text(py, digits)?,))?
        }
        Reply::Error(error) => {
            let text = String::from_utf8_lossy(error.text()).into_owned();
            crate::python::answer(py, ("", "Unknown", &text))
                .into_value(py)
                .into_bound(py)
                .into_any()
        }
        Reply::Array(items) | Reply::Push(items) => {
            let items: Vec<_> = items.map(plain).collect::<Result<_, _>>()?;
            PyList::new(py, items)?.into_any()
        }
        Reply::Set(items) => {
            let items: Vec<_> = items.map(plain).collect::<Result<_, _>>()?;
            match PySet::new(py, &items) {
                Ok(set) => set.into_any(),
                // Lists have no hash.
                Err(_) => PyList::new(py, items)?.into_any(),
            }
        }
        Reply::Map(pairs) => {
            let made = PyDict::new(py);
            for (key, item) in pairs {
                made.set_item(plain(key)?, plain(item)?)?;
            }
            made.into_any()
        }
    })
}

/// A push, as bytes and numbers.
#[pyfunction]
pub(crate) fn push<'py>(py: Python<'py>, block: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Ok((reply, _)) = Reply::read(block) else { return Ok(None) };
    match value(py, reply, true) {
        Ok(made) => Ok(Some(made)),
        Err(Misread::Raised(error)) => Err(error),
        Err(_) => Ok(None),
    }
}
