//! The native part of onetrip for Python: the layer below the faces in the host's own event loop,
//! values, and what is awaited. `ARCHITECTURE.md` beside it says which file is what.

use pyo3::prelude::*;

mod arrow;
mod awaiting;
mod call;
mod core;
mod decode;
mod deed;
mod describe;
mod encode;
mod failure;
mod flowing;
mod limit;
mod link;
mod listening;
mod local;
mod messages;
mod plan;
mod python;
mod record;
mod redis;
mod replicas;
mod settings;
mod state;
mod statement;
mod types;
mod whole;
mod wire;

// Nothing was tested without the GIL.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Record", record::record_type(module.py())?)?;
    module.add_class::<call::Call>()?;
    module.add_class::<arrow::Arrow>()?;
    module.add_class::<core::Core>()?;
    module.add_class::<listening::Listening>()?;
    module.add_class::<core::RowWriter>()?;
    module.add_class::<core::Scope>()?;
    module.add_class::<plan::Lineage>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<replicas::Position>()?;
    module.add_class::<replicas::Reads>()?;
    module.add_class::<replicas::Replicas>()?;
    module.add_class::<wire::Wire>()?;
    module.add_class::<local::Turn>()?;
    module.add_class::<limit::Limit>()?;
    module.add_class::<redis::RedisCache>()?;
    module.add_class::<redis::RedisScope>()?;
    module.add_class::<redis::Router>()?;
    module.add_class::<redis::Sentinel>()?;
    module.add_class::<redis::Spec>()?;
    module.add_function(wrap_pyfunction!(failure::fields, module)?)?;
    module.add_function(wrap_pyfunction!(failure::one_line, module)?)?;
    module.add_function(wrap_pyfunction!(flowing::arrived, module)?)?;
    module.add_function(wrap_pyfunction!(flowing::feed, module)?)?;
    module.add_function(wrap_pyfunction!(flowing::leave, module)?)?;
    module.add_function(wrap_pyfunction!(flowing::may_go_again, module)?)?;
    module.add_function(wrap_pyfunction!(flowing::copy_may_be_outdated, module)?)?;
    module.add_function(wrap_pyfunction!(flowing::copy_types_changed, module)?)?;
    module.add_function(wrap_pyfunction!(flowing::is_type, module)?)?;
    module.add_function(wrap_pyfunction!(flowing::take, module)?)?;
    module.add_function(wrap_pyfunction!(listening::notification, module)?)?;
    module.add_function(wrap_pyfunction!(local::forked, module)?)?;
    module.add_function(wrap_pyfunction!(plan::is_mendable, module)?)?;
    module.add_function(wrap_pyfunction!(plan::keywords, module)?)?;
    module.add_function(wrap_pyfunction!(plan::retry_pause, module)?)?;
    module.add_function(wrap_pyfunction!(plan::outcome_left, module)?)?;
    module.add_function(wrap_pyfunction!(plan::lacking, module)?)?;
    module.add_function(wrap_pyfunction!(plan::password_of, module)?)?;
    module.add_function(wrap_pyfunction!(plan::service, module)?)?;
    module.add_function(wrap_pyfunction!(plan::setting, module)?)?;
    module.add_function(wrap_pyfunction!(record::record_of, module)?)?;
    module.add_function(wrap_pyfunction!(redis::push, module)?)?;
    module.add_function(wrap_pyfunction!(settings::broken, module)?)?;
    module.add_function(wrap_pyfunction!(statement::can_be_prepared_by_sql, module)?)?;
    Ok(())
}
