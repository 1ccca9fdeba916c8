//! Replies as values of Python.

use bytes::{Bytes, BytesMut};
use onetrip_redis::Reply;
use onetrip_redis::client::shape::{Make, Several, Shape, Unfit, made};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PySet, PyString, PyTuple};

use super::request::Request;

/// Why a reply can't be read.
enum Misread {
    Unfit(&'static str),
    Raised(PyErr),
}

const MALFORMED: Misread = Misread::Unfit("it is not what this command is answered by");
const NOT_TEXT: Misread = Misread::Unfit("it is not text in UTF-8: ask for bytes (db.bytes)");

impl From<PyErr> for Misread {
    fn from(error: PyErr) -> Misread {
        Misread::Raised(error)
    }
}

impl From<Unfit> for Misread {
    fn from(_: Unfit) -> Misread {
        MALFORMED
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
        if self.packed.is_silent() {
            return Ok(py.None());
        }
        let whole = joined(blocks);
        let made = match Reply::read(&whole) {
            Ok((reply, _)) => made(&Values(py), self.shape, reply, self.raw),
            Err(_) => Err(MALFORMED),
        };
        made.map(Bound::unbind).map_err(|misread| {
            let (why, cause) = match misread {
                Misread::Unfit(why) => (why, None),
                Misread::Raised(error) => {
                    ("it has a value that Python can't hold so", Some(error.into_value(py).into()))
                }
            };
            let message = format!("the reply to {} can't be read: {why}", self.name);
            crate::python::error(py, ("conversion", "Applied", &message), None, cause)
        })
    }
}

/// Makes values of Python.
struct Values<'py>(Python<'py>);

impl<'py> Make for Values<'py> {
    type Made = Bound<'py, PyAny>;
    type Fault = Misread;

    fn scalar(&self, reply: Reply<'_>, raw: bool) -> Result<Bound<'py, PyAny>, Misread> {
        let py = self.0;
        let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => Ok(PyString::new(py, text).into_any()),
            Err(_) => Err(NOT_TEXT),
        };
        Ok(match reply {
            Reply::Int(number) => PyInt::new(py, number).into_any(),
            Reply::Bulk(bytes) if raw => PyBytes::new(py, &bytes).into_any(),
            Reply::Bulk(bytes) => text(&bytes)?,
            Reply::Verbatim { text: bytes, .. } if raw => PyBytes::new(py, bytes).into_any(),
            // Texts of the server's own, such as OK, which are no data.
            Reply::Simple(bytes) | Reply::Verbatim { text: bytes, .. } => text(bytes)?,
            Reply::Double(number) => PyFloat::new(py, number).into_any(),
            Reply::Bool(truth) => PyBool::new(py, truth).to_owned().into_any(),
            Reply::BigNumber(digits) => py.get_type::<PyInt>().call1((text(digits)?,))?,
            Reply::Error(error) => {
                let text = String::from_utf8_lossy(error.text()).into_owned();
                let error = crate::python::answer(py, ("", "Unknown", &text));
                error.into_value(py).into_bound(py).into_any()
            }
            _ => py.None().into_bound(py),
        })
    }

    fn several(
        &self,
        kind: Several,
        items: Vec<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>, Misread> {
        Ok(match kind {
            Several::Tuple => PyTuple::new(self.0, items)?.into_any(),
            Several::Set => match PySet::new(self.0, &items) {
                Ok(set) => set.into_any(),
                // Lists have no hash.
                Err(_) => PyList::new(self.0, items)?.into_any(),
            },
            Several::List => PyList::new(self.0, items)?.into_any(),
        })
    }

    fn map(
        &self,
        pairs: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    ) -> Result<Bound<'py, PyAny>, Misread> {
        let made = PyDict::new(self.0);
        pairs.into_iter().try_for_each(|(key, item)| made.set_item(key, item))?;
        Ok(made.into_any())
    }
}

/// A push, as bytes and numbers; none where it can't be read.
#[pyfunction]
pub(crate) fn push<'py>(py: Python<'py>, block: &[u8]) -> Option<Bound<'py, PyAny>> {
    let (reply, _) = Reply::read(block).ok()?;
    made(&Values(py), Shape::Plain, reply, true).ok()
}
