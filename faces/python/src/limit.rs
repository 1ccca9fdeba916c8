//! A block whose calls have a limit of time.
//!
//! A signal's handler may raise between any two instructions of Python. Were these Python's, a block
//! could end without its limit, which would bound all later calls of its thread.

use std::sync::Mutex;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

/// What `onetrip.blocking.Timeout` is made of.
#[pyclass(frozen, subclass, module = "onetrip._native")]
#[derive(Debug)]
pub(crate) struct Limit {
    token: Mutex<Option<Py<PyAny>>>,
}

/// The context variable that has the limit of the innermost block.
fn innermost(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    VARIABLE.import(py, "onetrip.blocking._loop", "_limit")
}

#[pymethods]
impl Limit {
    #[new]
    #[pyo3(signature = (*_args, **_named))]
    fn new(_args: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> Limit {
        Limit { token: Mutex::new(None) }
    }

    /// Its time begins.
    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let (py, variable) = (slf.py(), innermost(slf.py())?);
        let mut token = slf.get().token.lock().unwrap_or_else(|it| it.into_inner());
        if token.is_some() {
            const WHY: &str = "this Timeout was used already: make another";
            return Err(crate::python::error(py, ("misuse", "NotSent", WHY), None, None));
        }
        slf.setattr(intern!(py, "_outer"), variable.call_method0(intern!(py, "get"))?)?;
        let seconds: Option<f64> = slf.getattr(intern!(py, "_seconds"))?.extract()?;
        if let Some(seconds) = seconds {
            let now: f64 = py.import("time")?.call_method0(intern!(py, "monotonic"))?.extract()?;
            slf.setattr(intern!(py, "_deadline"), now + seconds)?;
        }
        *token = Some(variable.call_method1(intern!(py, "set"), (slf,))?.unbind());
        Ok(slf.clone())
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        let token = self.token.lock().unwrap_or_else(|it| it.into_inner());
        match &*token {
            Some(token) => innermost(py)?.call_method1(intern!(py, "reset"), (token,)).map(drop),
            None => Ok(()),
        }
    }
}
