//! Rows as columns of Arrow, which `onetrip_arrow` makes.

use onetrip_arrow::{Builder, Fault, Table};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::decode::Misfit;

impl From<Fault> for Misfit {
    fn from(fault: Fault) -> Misfit {
        const WHY: &str = "a numeric is NaN or infinite, which decimal128 has not: cast it to text";
        match fault {
            Fault::Malformed => Misfit::Malformed,
            Fault::NotFinite => PyOverflowError::new_err(WHY).into(),
        }
    }
}

/// The rows of a result as columns: an object with `__arrow_c_stream__`.
#[pyclass(frozen, module = "onetrip")]
#[derive(Debug)]
pub(crate) struct Arrow(Table);

impl Arrow {
    pub(crate) fn new(table: Option<Builder>) -> Arrow {
        Arrow(table.unwrap_or_default().done())
    }
}

#[pymethods]
impl Arrow {
    /// A stream of the Arrow C data interface. The schema that is asked for is not looked at, which
    /// the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        PyCapsule::new_with_value(py, self.0.stream(), c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, self.0.schema(), c"arrow_schema")
    }

    fn __len__(&self) -> usize {
        self.0.rows()
    }

    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.0.column_names().collect()
    }
}
