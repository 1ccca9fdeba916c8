//! A command as it is sent, or a list of commands that run as one.

use std::sync::{Arc, OnceLock};

use onetrip_client::redis::Packed;
use onetrip_client::routing::Flight;
use onetrip_engine::Time;
use onetrip_redis::client::cache::{FetchId, Writes};
use onetrip_redis::client::repeat::Repeat;
use onetrip_redis::client::shape::Shape;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::cache::RedisCache;
use super::cluster::Router;
use crate::call::Call;
use crate::local::Local;

/// A command by its name, and what becomes of its reply. Made once for each method.
#[pyclass(frozen, module = "onetrip._native")]
#[derive(Debug)]
pub(crate) struct Spec {
    pub(super) name: Arc<str>,
    pub(super) shape: Shape,
}

#[pymethods]
impl Spec {
    #[new]
    #[pyo3(signature = (name, shape=""))]
    fn new(name: &str, shape: &str) -> PyResult<Spec> {
        let words: Vec<_> = name.split_whitespace().map(str::to_uppercase).collect();
        if words.is_empty() {
            return Err(PyTypeError::new_err("a command has a name"));
        }
        let shape = Shape::of(shape)
            .ok_or_else(|| PyTypeError::new_err(format!("there is no shape {shape}")))?;
        Ok(Spec { name: words.join(" ").into(), shape })
    }
}

/// What a call of Redis sends.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) name: Arc<str>,
    pub(crate) packed: Packed,
    pub(super) shape: Shape,
    /// Replies have bytes in place of texts.
    pub(super) raw: bool,
    /// It has a connection to itself.
    pub(crate) is_own: bool,
    /// The server may answer it when it likes, or never, as BLPOP.
    pub(crate) blocks: bool,
    /// It goes by itself, and only reads.
    pub(super) only_reads: bool,
    pub(crate) deadline: Option<Time>,
    /// It may run twice.
    pub(super) repeat: Option<Local<Repeat>>,
    /// The commands of a list.
    pub(crate) parts: Vec<Py<Call>>,
    /// The cache that is told of its end, what it may change there, and what it fetches.
    pub(super) cache: Option<Py<RedisCache>>,
    pub(super) writes: Writes,
    pub(super) fetch: OnceLock<FetchId>,
    /// Nobody awaits it but the router of a cluster.
    pub(super) flight: Option<(Py<Router>, Flight)>,
}

impl Request {
    pub(crate) fn is_flight(&self) -> bool {
        self.flight.is_some()
    }
}
