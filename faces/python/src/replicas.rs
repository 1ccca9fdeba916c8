//! Reads that replicas may serve. The layer below decides where each goes; here it is carried out.
//! Each replica has a client of its own beside that of the primary, which its host makes.

use std::time::Duration;

use onetrip_client::Replicas as Known;
use onetrip_engine::Time;
use onetrip_postgres::client::moving::{NO_REPLICA, Step};
use onetrip_postgres::client::position::{self, Position as Place};
use onetrip_postgres::client::replicas::{PROBE, Reads as Where};
use onetrip_postgres::sql::{self, Place as At, Traits};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::call::{Call, Reading, Want, closed, refused, unsent};
use crate::core::{Core, flags_of, refused_into};
use crate::failure::Failure;
use crate::local::Local;
use crate::state::key_of;

/// A place in the log of a cluster: a server that has replayed up to it shows all writes that were
/// acknowledged before it was taken.
#[pyclass(frozen, eq, hash, from_py_object, module = "onetrip")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Position(Place);

#[pymethods]
impl Position {
    /// The position of this text.
    #[new]
    fn new(text: &str) -> PyResult<Position> {
        let read = text.parse().map(Position);
        read.map_err(|error: position::PositionError| {
            PyValueError::new_err(format!("onetrip: {error}"))
        })
    }

    /// The one that covers both: that of the later timeline, else the larger one. Of two clusters
    /// it is `other`.
    fn max(&self, other: &Position) -> Position {
        Position(self.0.max(other.0))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("onetrip.Position('{}')", self.0)
    }

    fn __getnewargs__(&self) -> (String,) {
        (self.0.to_string(),)
    }

    /// The question for the position of everything that was acknowledged before it is asked.
    #[classattr]
    #[pyo3(name = "_QUESTION")]
    fn question() -> &'static str {
        position::QUESTION
    }

    /// Reads the texts of its answer.
    #[staticmethod]
    fn _read(py: Python<'_>, row: [Option<String>; 3]) -> PyResult<Position> {
        let read = position::read(row.each_ref().map(Option::as_deref)).map(Position);
        read.ok_or_else(|| unsent("no_position", position::NO_POSITION).raised(py))
    }
}

/// The replicas of a client, which the client of each replica knows as well.
#[pyclass(frozen, module = "onetrip._native")]
pub(crate) struct Replicas {
    known: Local<Known>,
    /// The client of the primary, and those of the replicas, until they are let go.
    clients: Local<Option<Clients>>,
}

struct Clients {
    primary: Py<Core>,
    replicas: Vec<Py<Core>>,
}

impl Replicas {
    fn clients(&self, py: Python<'_>) -> PyResult<Option<Clients>> {
        Ok(self.clients.with(|it| {
            it.as_ref().map(|it| Clients {
                primary: it.primary.clone_ref(py),
                replicas: it.replicas.iter().map(|core| core.clone_ref(py)).collect(),
            })
        })?)
    }

    /// Does what a read does next.
    pub(crate) fn step(&self, call: &Bound<'_, Call>) -> PyResult<()> {
        let py = call.py();
        let Some(reading) = call.get().now.with(|it| it.reading)? else { return Ok(()) };
        let Some(clients) = self.clients(py)? else {
            return Core::fail_read(&call.get().client(py)?, call, closed());
        };
        let (primary, key) = (clients.primary.bind(py), key_of(call.get()));
        let outlook = |core: &Py<Core>| core.get().state.with(|state| state.pool.outlook(key));
        let of_primary = outlook(&clients.primary)?;
        let of_replicas = clients.replicas.iter().map(outlook).collect::<Result<Vec<_>, _>>()?;
        let now = primary.get().time();
        let Reading { number, .. } = reading;
        let (step, position, probe, pause) = self.known.with(|known| {
            known.see(None, of_primary);
            for (at, outlook) in of_replicas.into_iter().enumerate() {
                known.see(Some(at), outlook);
            }
            let step = known.step(now, number);
            (step, known.position_of(number), known.poll_probe(now), known.pause())
        })?;
        // Right behind a write it is known only now.
        call.get().now.with(|it| it.reading = Some(Reading { number, position }))?;
        if let Some(at) = probe {
            Core::run(primary, |state, _, _| state.tell("probe", at as u32, None))?;
        }
        let failure = match step {
            Step::Primary => {
                call.get().now.with(|it| (it.reading, it.holder) = (None, None))?;
                return Core::run(primary, |state, py, now| state.place(py, now, call));
            }
            Step::Replica { at, waits } => {
                let replica = clients.replicas[at].bind(py);
                let holder = Some(replica.clone().into_any().unbind());
                call.get().now.with(|it| it.holder = holder)?;
                let is_placed = Core::run(replica, |state, py, now| {
                    if waits {
                        state.place(py, now, call);
                        return true;
                    }
                    state.place_now(py, now, call)
                })?;
                if is_placed {
                    return Ok(());
                }
                return self.pause(primary, call, pause);
            }
            Step::Pause => return self.pause(primary, call, pause),
            Step::Late => unsent("timeout", "the deadline passed before a replica was there"),
            Step::NoReplica => unsent("no_replica", NO_REPLICA),
        };
        Core::fail_read(primary, call, failure)
    }

    fn pause(
        &self,
        primary: &Bound<'_, Core>,
        call: &Bound<'_, Call>,
        pause: Duration,
    ) -> PyResult<()> {
        call.get().now.with(|it| it.holder = None)?;
        Core::run(primary, |state, py, now| state.pause(py, (now, pause), call.as_unbound()))
    }

    /// A read has failed on a replica. If it is sent elsewhere nobody hears of that.
    pub(crate) fn failed(
        &self,
        core: &Bound<'_, Core>,
        call: &Bound<'_, Call>,
        failure: Failure,
    ) -> PyResult<()> {
        let (py, now) = (call.py(), core.get().time());
        let Some(reading) = call.get().now.with(|it| it.reading)? else { return Ok(()) };
        let is_closing = match self.clients(py)? {
            None => true,
            Some(it) => it.primary.get().state.with(|state| state.is_closing)?,
        };
        let outcome = Some(failure.known());
        let how = (failure.is_aborted(), is_closing || failure.is_callers());
        if self.known.with(|known| known.ended(now, reading.number, outcome, how))? {
            drop(call.get().restart());
            return self.step(call);
        }
        Core::fail_read(core, call, failure)
    }

    /// Nobody waits for a read any more, or it was answered.
    pub(crate) fn forget(&self, reading: Reading) {
        let _ = self.known.with(|known| known.forget(reading.number));
    }

    /// A guard has ended on a replica, as this record says.
    pub(crate) fn guard_ended(
        &self,
        now: Time,
        at: usize,
        reading: Reading,
        (kind, a, b): (u32, u32, u32),
    ) {
        let read = (at, reading.number);
        let _ = self.known.with(|known| known.guard_ended(now, read, kind, a, b));
    }

    /// Whether it is known where the writes of the primary's connections are has changed. Returns
    /// what these are marked with from now on, if that has changed as well.
    pub(crate) fn uncertain(&self, a: u32) -> Option<u32> {
        let changed = |known: &mut Known| known.uncertain(a).then(|| known.losses());
        self.known.with(changed).ok().flatten()
    }

    pub(crate) fn positioned(&self, mark: u32, token: &[u8]) {
        let _ = self.known.with(|known| known.positioned(mark, token));
    }

    pub(crate) fn losses(&self) -> u32 {
        self.known.with(|known| known.losses()).unwrap_or(0)
    }
}

#[pymethods]
impl Replicas {
    /// `reads`: the word of the setting. Times are in milliseconds; 0 is no limit.
    #[new]
    fn new(
        primary: Bound<'_, Core>,
        replicas: Vec<Bound<'_, Core>>,
        reads: &str,
        max_lag_ms: u64,
        wait_timeout_ms: u64,
    ) -> PyResult<Py<Replicas>> {
        let py = primary.py();
        let reads = match reads {
            "prefer_replica" => Where::PreferReplica,
            "replica" => Where::Replica,
            _ => Where::Primary,
        };
        let place = Where::ALL.iter().position(|it| *it == reads).unwrap_or(0);
        let wait = match wait_timeout_ms {
            0 => Duration::MAX,
            ms => Duration::from_millis(ms),
        };
        let max_lag = Duration::from_millis(max_lag_ms);
        let known = Known::new(replicas.len(), place, max_lag, wait);
        let clients = Clients {
            primary: primary.clone().unbind(),
            replicas: replicas.iter().map(|core| core.clone().unbind()).collect(),
        };
        let it = Replicas { known: Local::new(known), clients: Local::new(Some(clients)) };
        let it = Py::new(py, it)?;
        for (at, core) in replicas.iter().enumerate() {
            let known = it.clone_ref(py);
            core.get().state.with(|state| state.replicas = Some((known, Some(at))))?;
        }
        let known = it.clone_ref(py);
        primary.get().state.with(|state| state.replicas = Some((known, None)))?;
        Ok(it)
    }

    /// What a probe asks; its row has five texts.
    #[classattr]
    #[pyo3(name = "PROBE")]
    fn probe() -> &'static str {
        PROBE
    }

    /// A replica to probe now, if there is one.
    fn poll_probe(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        let Some(clients) = self.clients(py)? else { return Ok(None) };
        let now = clients.primary.get().time();
        Ok(self.known.with(|known| known.poll_probe(now))?)
    }

    /// A probe was answered with this row, or has failed.
    fn probed(
        &self,
        py: Python<'_>,
        at: usize,
        row: Option<[Option<String>; 5]>,
        random: u64,
    ) -> PyResult<()> {
        let Some(clients) = self.clients(py)? else { return Ok(()) };
        let now = clients.primary.get().time();
        let row = row.as_ref().map(|row| row.each_ref().map(Option::as_deref));
        Ok(self.known.with(|known| known.probed(now, at, row, random))?)
    }

    /// How many reads went to the primary and to replicas, and how many of these were behind.
    fn counts(&self) -> PyResult<(u64, u64, u64)> {
        let counts = self.known.with(|known| known.counts())?;
        Ok((counts.on_primary, counts.on_replicas, counts.behind))
    }

    /// How a replica stands: whether reads go there, how many seconds it was behind when it was last
    /// asked, how many reads went there, and how many of these were behind.
    fn status(&self, py: Python<'_>, at: usize) -> PyResult<(bool, Option<f64>, u64, u64)> {
        let clients = self.clients(py)?;
        let now = clients.as_ref().map_or(Time::ZERO, |it| it.primary.get().time());
        let status = self.known.with(|known| known.status(now, at))?;
        let serves = status.serves && clients.is_some();
        Ok((serves, status.lag.map(|lag| lag.as_secs_f64()), status.reads, status.behind))
    }

    /// The position behind all writes that were acknowledged, if it is known.
    fn newest(&self) -> PyResult<Option<Position>> {
        Ok(self.known.with(|known| known.newest().map(Position))?)
    }

    /// The clients are of no use any more, and know each other.
    fn let_go(&self, py: Python<'_>) -> PyResult<()> {
        let Some(clients) = self.clients.with(Option::take)? else { return Ok(()) };
        for core in clients.replicas.iter().chain([&clients.primary]) {
            let known = core.get().state.with(|state| state.replicas.take())?;
            drop(known.map(|(known, _)| known.into_bound(py)));
        }
        Ok(())
    }
}

/// Reads that replicas may serve, and that show what this client wrote.
#[pyclass(frozen, module = "onetrip")]
#[derive(Debug)]
pub(crate) struct Reads {
    core: Py<Core>,
    shows: Shows,
    bound: Option<Duration>,
}

/// What reads must show.
#[derive(Clone, Copy, Debug)]
enum Shows {
    /// What this client wrote.
    Own,
    /// What is acknowledged up to here.
    After(Place),
    Anything,
}

impl Reads {
    fn with(&self, py: Python<'_>, shows: Shows) -> Reads {
        Reads { core: self.core.clone_ref(py), shows, bound: self.bound }
    }

    fn submit<'py>(
        &self,
        want: Want,
        text: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
        into: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Call>> {
        let py = text.py();
        let core = self.core.bind(py);
        let _turn = core.get().enter(py)?;
        refused_into(into.as_ref())?;
        core.get().check(py)?;
        let statement = core.get().statement(text)?;
        let refused = not_a_read(statement.get().traits);
        let (of, statement) = (core.clone().into_any().unbind(), Some(statement.unbind()));
        let args = Some(args.clone().unbind());
        let mut call = Call::new(of, want, statement, flags_of(false), args);
        call.into = into.map(Bound::unbind);
        let call = Bound::new(py, call)?;
        if let Some(failure) = refused {
            Core::run(core, |state, py, _| state.fail(py, &call, failure))?;
            return Ok(call);
        }
        let replicas = core.get().state.with(|state| state.replicas_of(py))?;
        if let Some(replicas) = replicas {
            let (now, bound) = (core.get().time(), self.bound);
            let reading = replicas.get().known.with(|known| {
                let number = match self.shows {
                    Shows::Own => known.begin_own(now, bound, Time::NEVER),
                    Shows::After(place) => known.begin_after(now, place, bound, Time::NEVER),
                    Shows::Anything => known.begin_stale(now, bound, Time::NEVER),
                };
                Reading { number, position: None }
            })?;
            call.get().now.with(|it| it.reading = Some(reading))?;
        }
        Core::begin(core, &call)?;
        Ok(call)
    }
}

/// Why a text that shows this is no read that replicas may serve.
fn not_a_read(traits: Traits) -> Option<Failure> {
    let refusal = sql::refusal_of_read(traits).or_else(|| sql::refusal(traits, At::Shared))?;
    Some(refused(refusal))
}

#[pymethods]
impl Reads {
    #[new]
    fn new(core: Py<Core>) -> Reads {
        Reads { core, shows: Shows::Own, bound: None }
    }

    /// The same, but they show all writes up to this position, instead of those of this client.
    fn after(&self, py: Python<'_>, position: &Position) -> Reads {
        self.with(py, Shows::After(position.0))
    }

    /// The same, but they show whatever the replica has.
    fn stale(&self, py: Python<'_>) -> Reads {
        self.with(py, Shows::Anything)
    }

    /// The same, but a read that no replica can serve yet waits for that for up to so many seconds.
    fn or_wait(&self, py: Python<'_>, seconds: f64) -> PyResult<Reads> {
        let bound = Duration::try_from_secs_f64(seconds);
        let bound = bound
            .map_err(|_| PyTypeError::new_err("or_wait takes seconds, which are not negative"))?;
        Ok(Reads { bound: Some(bound), ..self.with(py, self.shows) })
    }

    /// The rows of a read, as a list of records.
    #[pyo3(signature = (query, /, *args, into=None))]
    fn fetch<'py>(
        &self,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
        into: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Call>> {
        self.submit(Want::Rows, query, args, into)
    }

    /// The first row, or None.
    #[pyo3(signature = (query, /, *args, into=None))]
    fn fetchrow<'py>(
        &self,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
        into: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Call>> {
        self.submit(Want::Row, query, args, into)
    }

    /// A value of the first row, or None.
    #[pyo3(signature = (query, /, *args, column=0))]
    fn fetchval<'py>(
        &self,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
        column: isize,
    ) -> PyResult<Bound<'py, Call>> {
        self.submit(Want::Value(column), query, args, None)
    }

    /// The rows of a read as columns of Arrow.
    #[pyo3(signature = (query, /, *args))]
    fn fetch_arrow<'py>(
        &self,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, Call>> {
        self.submit(Want::Arrow, query, args, None)
    }
}
