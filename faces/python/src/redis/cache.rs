//! The cache of a client of Redis: what it decides is below; here calls end by it.

use bytes::Bytes;
use onetrip_engine::Time;
use onetrip_redis::client::cache::{Cache, Counts, FetchId, Found, Writes};
use onetrip_redis::{Command, Spec};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::reply::joined;
use super::request::Request;
use crate::call::{Call, Stage};
use crate::deed::Deed;
use crate::local::Local;
use crate::state::State;

/// The replies that a client keeps.
#[pyclass(frozen, module = "onetrip._native")]
#[derive(Debug)]
pub(crate) struct RedisCache(Local<Kept>);

#[derive(Debug)]
struct Kept {
    cache: Cache<Py<Call>>,
    /// How many connections have tracked keys, and the place of the last.
    last: u64,
    place: u32,
}

#[pymethods]
impl RedisCache {
    #[new]
    fn new(bytes_max: usize) -> RedisCache {
        RedisCache(Local::new(Kept { cache: Cache::new(bytes_max), last: 0, place: 0 }))
    }

    /// What was counted, by name.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.0.with(|it| it.cache.counts())?;
        let Counts { hits, misses, joined, invalidations, evicted, .. } = counts;
        let dict = PyDict::new(py);
        for (name, value) in [
            ("hits", hits),
            ("misses", misses),
            ("joined", joined),
            ("invalidations", invalidations),
            ("evicted", evicted),
            ("bytes", counts.bytes as u64),
            ("entries", counts.entries as u64),
        ] {
            dict.set_item(name, value)?;
        }
        dict.set_item("is_on", counts.is_on)?;
        Ok(dict)
    }
}

impl RedisCache {
    /// Whether replies are kept now.
    pub(super) fn is_on(&self) -> bool {
        self.0.with(|it| it.cache.counts().is_on).unwrap_or(false)
    }

    /// The connection at this place tracks keys.
    pub(crate) fn opened(&self, place: u32) {
        let _ = self.0.with(|it| {
            (it.last, it.place) = (it.last + 1, place);
            it.cache.opened(it.last);
        });
    }

    /// The connection at this place is lost.
    pub(crate) fn closed(&self, place: u32) {
        let _ = self.0.with(|it| {
            if it.place == place {
                it.cache.closed(it.last);
            }
        });
    }

    /// The client takes nothing new.
    pub(crate) fn close(&self) {
        let _ = self.0.with(|it| it.cache.closed(it.last));
    }

    /// Whether a push was for the cache.
    pub(crate) fn pushed(&self, push: &[u8]) -> bool {
        self.0.with(|it| it.cache.pushed(push)).unwrap_or(false)
    }

    pub(super) fn wrote(&self, writes: &Writes) {
        if *writes != Writes::Nothing {
            let _ = self.0.with(|it| it.cache.wrote(writes));
        }
    }

    /// What there is of a command; `join` is the call that waits, if another has asked.
    pub(super) fn look_up(
        &self,
        command: &Command,
        spec: Option<&'static Spec>,
        join: impl FnOnce() -> Py<Call>,
    ) -> Found {
        self.0.with(|it| it.cache.look_up(command, spec, join)).unwrap_or(Found::Nothing)
    }

    /// The reply to a fetch came from the connection at this place; `None` if none came. Returns
    /// those that wait for it.
    fn ended(&self, fetch: FetchId, place: u32, reply: Option<&Bytes>) -> Vec<Py<Call>> {
        let ended = self.0.with(|it| match reply {
            Some(reply) => {
                let connection = if it.place == place { it.last } else { 0 };
                it.cache.answered(fetch, connection, reply)
            }
            None => it.cache.failed(fetch),
        });
        ended.unwrap_or_default()
    }
}

/// A call ends: the cache hears of it, and those that wait for the same reply get it, or are sent.
pub(crate) fn tell(
    state: &mut State,
    py: Python<'_>,
    (call, request): (&Py<Call>, &Request),
    is_answered: bool,
) {
    let Some(cache) = request.cache.as_ref().map(|it| it.get()) else { return };
    cache.wrote(&request.writes);
    let Some(&fetch) = request.fetch.get() else { return };
    let (reply, place) = call
        .get()
        .now
        .with(|it| {
            let reply = (is_answered && !it.blocks.is_empty()).then(|| joined(&it.blocks));
            match it.stage {
                Stage::Sent(place, ..) => (reply, place),
                _ => (None, 0),
            }
        })
        .unwrap_or((None, 0));
    for waiting in cache.ended(fetch, place, reply.as_ref()) {
        match &reply {
            _ if waiting.get().is_over() => {}
            Some(reply) => {
                let _ = waiting.get().now.with(|it| it.blocks = vec![reply.clone()]);
                state.finish(py, &waiting, None);
            }
            None => state.pause(py, (Time::ZERO, std::time::Duration::ZERO), &waiting),
        }
        state.deeds.push(Deed::Drop(waiting.into_any()));
    }
}
