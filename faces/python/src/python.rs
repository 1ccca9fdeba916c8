//! What is made in Python and used here.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

pub(crate) fn range(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static RANGE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Ok(RANGE.import(py, "onetrip._range", "Range")?.as_any())
}

pub(crate) fn uuid(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static UUID: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Ok(UUID.import(py, "uuid", "UUID")?.as_any())
}

/// Makes an error: of the server (`fields` by their letters) or of this side.
pub(crate) fn error<'py>(
    py: Python<'py>,
    (code, outcome, message): (&str, &str, &str),
    fields: Option<Bound<'py, PyAny>>,
    cause: Option<Py<PyAny>>,
) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made = MAKE
        .get_or_try_init(py, || py.import("onetrip.errors")?.getattr("_make").map(Bound::unbind))
        .and_then(|make| make.call1(py, (code, outcome, message, fields, cause)));
    match made {
        Ok(error) => PyErr::from_value(error.into_bound(py)),
        Err(error) => error,
    }
}
