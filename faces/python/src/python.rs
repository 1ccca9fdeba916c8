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

pub(crate) fn decimal(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Ok(DECIMAL.import(py, "decimal", "Decimal")?.as_any())
}

/// Makes an error: of the server (`fields` by their letters) or of this side.
pub(crate) fn error<'py>(
    py: Python<'py>,
    (code, outcome, message): (&str, &str, &str),
    fields: Option<Bound<'py, PyAny>>,
    cause: Option<Py<PyAny>>,
) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = made(py, &MAKE, "_make");
    raised(py, make.and_then(|make| make.call1(py, (code, outcome, message, fields, cause))))
}

/// Makes an error of Redis: of which command, its outcome, its text.
pub(crate) fn answer(py: Python<'_>, error: (&str, &str, &str)) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = made(py, &MAKE, "_answered");
    raised(py, make.and_then(|make| make.call1(py, error)))
}

fn made<'a>(
    py: Python<'_>,
    once: &'a PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<&'a Py<PyAny>> {
    once.get_or_try_init(py, || py.import("onetrip.errors")?.getattr(name).map(Bound::unbind))
}

fn raised(py: Python<'_>, made: PyResult<Py<PyAny>>) -> PyErr {
    made.map_or_else(|error| error, |error| PyErr::from_value(error.into_bound(py)))
}
