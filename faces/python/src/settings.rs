//! Settings as the layer below reads them, and their rules.

use std::collections::HashMap;

use onetrip_engine::rules::{self, TLS_OPTIONS};
use onetrip_postgres::client::connect::rules as of_postgres;
use onetrip_redis::client::settings as of_redis;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Names and values, each ended by a zero byte.
///
/// # Errors
/// One is in a text, whose rest would be dropped.
pub(crate) fn pairs(settings: &[(String, String)]) -> PyResult<Vec<u8>> {
    let mut bytes = Vec::new();
    for (name, value) in settings {
        if value.contains('\0') {
            let why = format!("onetrip: {name} has a zero byte in it");
            return Err(PyValueError::new_err(why));
        }
        for text in [name, value] {
            bytes.extend(text.bytes());
            bytes.push(0);
        }
    }
    Ok(bytes)
}

/// Which rule settings break: its words. `which`: the rules of `postgres` or `redis`; otherwise
/// those of what is said beside options of TLS.
#[pyfunction]
pub(crate) fn broken(which: &str, said: HashMap<String, String>) -> Option<&'static str> {
    let said = |name: &str| said.get(name);
    match which {
        "postgres" => of_postgres::broken(said),
        "redis" => of_redis::broken(said),
        _ => rules::broken(TLS_OPTIONS, said),
    }
}
