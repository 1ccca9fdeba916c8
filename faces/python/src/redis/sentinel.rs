//! The Sentinels of a client: the layer below says whom to ask, and where connections go; here it is
//! carried out.

use std::time::Duration;

use onetrip_client::Sentinel as Policy;
use onetrip_client::completion::{Record, kind, role};
use onetrip_engine::Time;
use onetrip_redis::client::sentinel::LEFT;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::core::clock;
use crate::local::Local;
use crate::settings::pairs;

/// The Sentinels of a client.
#[pyclass(frozen, module = "onetrip._native")]
pub(crate) struct Sentinel {
    now: Local<Now>,
}

impl std::fmt::Debug for Sentinel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sentinel")
    }
}

struct Now {
    policy: Policy,
    /// `onetrip.redis._sentinel.Sentinels`, until it is closed.
    host: Option<Py<PyAny>>,
    is_settling: bool,
}

impl Sentinel {
    /// Whether a command goes to the replica now.
    pub(super) fn is_for_replica(&self, only_reads: bool) -> bool {
        self.now.with(|it| it.policy.is_for_replica(only_reads)).unwrap_or(false)
    }

    /// Changes the policy, and carries out what it then says, until nothing is to be done.
    fn act(slf: &Bound<'_, Self>, change: impl FnOnce(&mut Policy, Time)) -> PyResult<()> {
        let (py, it) = (slf.py(), slf.get());
        let (host, is_settling) = it.now.with(|it| {
            change(&mut it.policy, clock());
            let host = it.host.as_ref().map(|host| host.clone_ref(py));
            (host, std::mem::replace(&mut it.is_settling, true))
        })?;
        if is_settling {
            return Ok(());
        }
        let host = host.map(|host| host.into_bound(py));
        loop {
            let records: Vec<Record> = it.now.with(|it| it.policy.drain().collect())?;
            if records.is_empty() {
                break;
            }
            for record in records {
                let told = host.as_ref().map(|host| tell(host, record));
                if let Some(Err(error)) = told {
                    error.write_unraisable(py, None);
                }
            }
        }
        let next = it.now.with(|it| {
            it.is_settling = false;
            it.policy.wait(clock())
        })?;
        if let (Some(after), Some(host)) = (next, host) {
            let after = after + Duration::from_millis(1);
            host.call_method1(intern!(py, "arm"), (after.as_secs_f64(),))?;
        }
        Ok(())
    }
}

fn tell(host: &Bound<'_, PyAny>, record: Record) -> PyResult<()> {
    let Record { kind, token, a, b, block } = record;
    let py = host.py();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match kind {
        kind::SENTINEL_OPEN => {
            let (at, send) = block.split_at(block.len().min(b as usize));
            let send = PyBytes::new(py, send);
            host.call_method1(intern!(py, "open_line"), (token, text(at), a, send))?
        }
        kind::SENTINEL_CLOSE => host.call_method1(intern!(py, "close_line"), (token,))?,
        kind::SENTINEL_DIAL => host.call_method1(intern!(py, "dial"), (token, text(&block), b))?,
        kind::SENTINEL_LEAVE => host.call_method1(intern!(py, "leave"), (token, LEFT))?,
        _ => host.call_method1(intern!(py, "not_found"), (token, text(&block)))?,
    };
    Ok(())
}

#[pymethods]
impl Sentinel {
    #[new]
    fn new(host: Py<PyAny>, settings: Vec<(String, String)>, seed: u64) -> PyResult<Sentinel> {
        let policy = Policy::new(&pairs(&settings)?, seed);
        let policy = policy.map_err(|why| PyValueError::new_err(format!("onetrip: {why}")))?;
        Ok(Sentinel { now: Local::new(Now { policy, host: Some(host), is_settling: false }) })
    }

    /// Whether there are to be connections to a replica.
    fn reads_replicas(&self) -> PyResult<bool> {
        Ok(self.now.with(|it| it.policy.reads_replicas())?)
    }

    /// A connection is wanted to the master, or to a replica.
    fn connect(slf: &Bound<'_, Self>, seat: u32, replica: bool) -> PyResult<()> {
        let role = if replica { role::REPLICA } else { role::MASTER };
        Sentinel::act(slf, |policy, now| policy.connect(now, seat, role))
    }

    /// It is open, and its server has its role.
    fn opened(slf: &Bound<'_, Self>, seat: u32) -> PyResult<()> {
        Sentinel::act(slf, |policy, now| policy.opened(now, seat))
    }

    /// It could not be opened, or was lost.
    fn lost(slf: &Bound<'_, Self>, seat: u32, why: &str) -> PyResult<()> {
        Sentinel::act(slf, |policy, now| policy.lost(now, seat, why))
    }

    /// Its server has lost its role.
    fn useless(slf: &Bound<'_, Self>, seat: u32, why: &str) -> PyResult<()> {
        Sentinel::act(slf, |policy, now| policy.useless(now, seat, why))
    }

    /// It ended as it should.
    fn left(slf: &Bound<'_, Self>, seat: u32) -> PyResult<()> {
        Sentinel::act(slf, |policy, _| policy.left(seat))
    }

    /// Bytes came from a Sentinel.
    fn input(slf: &Bound<'_, Self>, line: u32, bytes: &[u8]) -> PyResult<()> {
        Sentinel::act(slf, |policy, now| policy.input(now, line, bytes))
    }

    /// A Sentinel can't be reached, or its connection has ended.
    fn closed(slf: &Bound<'_, Self>, line: u32, why: &str) -> PyResult<()> {
        Sentinel::act(slf, |policy, now| policy.closed(now, line, why))
    }

    /// It is so late.
    fn tick(slf: &Bound<'_, Self>) -> PyResult<()> {
        Sentinel::act(slf, Policy::time)
    }

    /// Nobody is asked any more.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        Sentinel::act(slf, |policy, _| policy.close())?;
        let host = slf.get().now.with(|it| it.host.take())?;
        drop(host);
        Ok(())
    }
}
