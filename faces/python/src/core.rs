//! One client: its pool, its connections, and the calls on them. It decides nothing: what goes
//! where, when, and what becomes of it is said below.
//!
//! No code of Python's runs while the state is borrowed. What is to be done there is written down
//! as a `Deed`, and done behind it (`Core::act`).

use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use onetrip_client::flag;
use onetrip_client::postgres::Act;
use onetrip_engine::Time;
use onetrip_postgres::client::copy::{self, Direction, Guard};
use onetrip_postgres::client::transaction::modes::{Isolation, Modes};
use onetrip_postgres::sql::{Place, Refusal, refusal};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PySystemExit, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyIterator, PySet, PyString, PyTuple, PyType};

use crate::call::{Call, Encoded, Portal, Want, closed, refused, unsent};
use crate::deed::{Deed, Said};
use crate::failure::Failure;
use crate::local::{Acting, Elsewhere, Local, Turn};
use crate::redis::{RedisCache, Router};
use crate::settings::pairs;
use crate::state::State;
use crate::statement::{Described, Generation, Statement, column_names, column_types};
use crate::types::{self, Form};
use crate::{describe, encode};

/// Uses of a statement in one request, and their bytes.
const RUN_MAX: usize = 255;
const RUN_BYTES: usize = 32 << 10;

/// From so many requests on they are of any length, so that a segment takes millions of sets.
const SHORT_RUNS_MAX: usize = 4096;

const NOT_REPEATABLE: &str = "repeatable is not for a session, a transaction or a pipeline: what a \
    statement does there depends on its connection";

/// Bytes that parameters have room for before they grow.
const PARAMETERS_ROOM: usize = 64;

/// Texts that are remembered; the oldest goes.
const STATEMENTS_MAX: usize = 1024;

/// What time it is: by one clock for all, since a call of a cluster has to do with several clients.
pub(crate) fn clock() -> Time {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Time::from_nanos(START.elapsed().as_nanos() as u64)
}

/// A client, on the event loop that it was made on.
#[pyclass(frozen, module = "onetrip._native")]
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) state: Local<State>,
    event_loop: Py<PyAny>,
    /// Who has sockets and tasks: `onetrip._host.Host`.
    host: Local<Option<Py<PyAny>>>,
    create_future: Py<PyAny>,
    call_soon: Py<PyAny>,
    running_loop: Py<PyAny>,
    statements: Py<PyDict>,
    /// That of the next call of `_tick`.
    timer: Local<Option<Py<PyAny>>>,
    generation: Generation,
    /// A str goes to types of texts alone.
    strict: bool,
    /// Threads take turns with it: whose turn it is.
    turn: Option<Py<Turn>>,
}

impl Core {
    pub(crate) fn time(&self) -> Time {
        clock()
    }

    /// This thread may use it until what is returned is dropped.
    pub(crate) fn enter(&self, py: Python<'_>) -> PyResult<Option<Acting>> {
        self.turn.as_ref().map(|turn| turn.get().act(py)).transpose()
    }

    pub(crate) fn future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.create_future.bind(py).call0()
    }

    /// Refuses who is on another event loop, on another thread, or behind a fork, and everybody once
    /// the loop is closed: nothing is sent any more.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        // One whose threads take turns is no loop's.
        if self.turn.is_some() {
            return Ok(());
        }
        self.state.with(|_| ())?;
        let running = self.running_loop.bind(py).call0()?;
        if running.is(&self.event_loop) {
            return Ok(());
        }
        if !running.is_none() {
            return Err(Elsewhere.into());
        }
        match self.event_loop.bind(py).call_method0(intern!(py, "is_closed"))?.is_truthy()? {
            true => {
                Err(PyRuntimeError::new_err("onetrip: the event loop of this client is closed"))
            }
            false => Ok(()),
        }
    }

    /// Does something with the state, and then what is to be done for it.
    pub(crate) fn run<R>(
        core: &Bound<'_, Self>,
        change: impl FnOnce(&mut State, Python<'_>, Time) -> R,
    ) -> PyResult<R> {
        let (py, it) = (core.py(), core.get());
        let now = it.time();
        let result = it.state.with(|state| change(state, py, now))?;
        Core::act(core)?;
        Ok(result)
    }

    /// Does what is to be done, until nothing is. Code of Python's that runs meanwhile may come here
    /// again, and leaves what it wants done to the outermost: bytes go out in their order alone.
    fn act(core: &Bound<'_, Self>) -> PyResult<()> {
        let (py, it) = (core.py(), core.get());
        let (mut is_outermost, mut interrupt) = (false, Ok(()));
        // What was made for some is used for the next.
        let mut room = Vec::new();
        loop {
            let goes_on = it.state.with(|state| {
                if state.is_acting && !is_outermost {
                    return false;
                }
                if !state.deeds.is_empty() || room.capacity() > state.deeds.capacity() {
                    std::mem::swap(&mut state.deeds, &mut room);
                }
                state.is_acting = !room.is_empty();
                state.is_acting
            })?;
            if !goes_on {
                return interrupt;
            }
            is_outermost = true;
            for deed in room.drain(..) {
                match Core::do_one(core, deed) {
                    Err(error) if it.turn.is_some() || is_interrupt(&error, py) => {
                        interrupt = Err(error);
                    }
                    // Nobody is left whom a closed loop could tell.
                    Err(_) if it.is_loop_closed(py) => {}
                    // Whose fault it is isn't known; the others go on.
                    Err(error) => error.write_unraisable(py, None),
                    Ok(()) => {}
                }
            }
        }
    }

    fn is_loop_closed(&self, py: Python<'_>) -> bool {
        let of =
            |it: &Bound<'_, PyAny>| it.getattr("__self__")?.call_method0("is_closed")?.extract();
        of(self.call_soon.bind(py)).unwrap_or(false)
    }

    fn do_one(core: &Bound<'_, Self>, deed: Deed) -> PyResult<()> {
        let (py, it) = (core.py(), core.get());
        let host = it.host.with(|host| host.as_ref().map(|host| host.clone_ref(py)))?;
        match deed {
            Deed::Wake(future) => {
                // One that was cancelled meanwhile has its end, and says so.
                if let Err(error) = future.call_method1(py, intern!(py, "set_result"), (py.None(),))
                    && error.get_type(py).name()? != "InvalidStateError"
                {
                    return Err(error);
                }
            }
            Deed::Write(number, write, bytes) => {
                // Nothing follows bytes that could not be written.
                let is_over =
                    |state: &mut State| state.links.get(&number).is_none_or(|link| link.is_over);
                if it.state.with(is_over)? {
                    return Ok(());
                }
                if let Err(error) = write.call1(py, (bytes,)) {
                    // How much of it is on its way is not known: nothing may follow it.
                    let why = "its bytes could not be written";
                    Core::run(core, |state, py, now| state.destroy(py, now, number, why))?;
                    return Err(error);
                }
            }
            Deed::Tell(name, number, said) => {
                // Once it has let go, nobody is left to hear of anything.
                let Some(host) = host.map(|host| host.into_bound(py)) else { return Ok(()) };
                match said {
                    None => host.call_method1(name, (number,))?,
                    Some(Said::Bytes(bytes)) => {
                        host.call_method1(name, (number, PyBytes::new(py, &bytes)))?
                    }
                    Some(Said::Flag(flag)) => host.call_method1(name, (number, flag))?,
                    Some(Said::Refusal(text, message, is_final)) => {
                        let message = message.map(|message| PyBytes::new(py, &message));
                        host.call_method1(name, (number, text, message, is_final))?
                    }
                };
            }
            Deed::Read(call) => call.get().read_early(py)?,
            Deed::Drop(it) => drop(it),
            Deed::Begin(call) => {
                let core = call.get().client(py)?;
                Core::begin(&core, call.bind(py))?;
            }
            Deed::Check(call, number) => describe::check(core, call.bind(py), number)?,
            Deed::Step(call) if matches!(call.get().want, Want::Redis(_)) => {
                Router::landed(call.bind(py))?;
            }
            Deed::Step(call) => describe::step(core, &call.into_bound(py))?,
            Deed::Move(call, failure) => {
                let replicas = it.state.with(|state| state.replicas_of(py))?;
                let call = call.bind(py);
                match (replicas, failure) {
                    (Some(replicas), Some(failure)) => {
                        replicas.get().failed(core, call, failure)?
                    }
                    (Some(replicas), None) => replicas.get().step(call)?,
                    (None, failure) => Core::fail_read(core, call, failure.unwrap_or_else(closed))?,
                }
            }
            Deed::Advance(number) => Core::advance(core, number)?,
            Deed::Schedule => {
                if let Err(error) = it.schedule(core) {
                    // What a signal's handler has raised may be why.
                    Core::run(core, State::turn_ends)?;
                    return Err(error);
                }
            }
            Deed::Arm(after) => {
                if let Err(error) = it.arm(core, after) {
                    it.state.with(State::disarm)?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn schedule(&self, core: &Bound<'_, Self>) -> PyResult<()> {
        let flush = core.getattr(intern!(core.py(), "_flush"))?;
        self.call_soon.call1(core.py(), (flush,)).map(drop)
    }

    /// One timer runs at a time: each would go on by itself for ever.
    fn arm(&self, core: &Bound<'_, Self>, after: Duration) -> PyResult<()> {
        let py = core.py();
        let tick = core.getattr(intern!(py, "_tick"))?;
        let later = self.event_loop.bind(py).getattr(intern!(py, "call_later"))?;
        let timer = later.call1((after.as_secs_f64(), tick))?.unbind();
        self.set_timer(py, Some(timer))
    }

    fn set_timer(&self, py: Python<'_>, timer: Option<Py<PyAny>>) -> PyResult<()> {
        match self.timer.with(|it| std::mem::replace(it, timer))? {
            Some(old) => old.call_method0(py, intern!(py, "cancel")).map(drop),
            None => Ok(()),
        }
    }

    /// What is known of a text.
    pub(crate) fn statement<'py>(
        &self,
        text: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, Statement>> {
        let py = text.py();
        let statements = self.statements.bind(py);
        if let Some(known) = statements.get_item(text)? {
            return Ok(known.cast_into::<Statement>()?);
        }
        let made = Bound::new(py, Statement::new(text, &self.generation)?)?;
        if statements.len() >= STATEMENTS_MAX
            && let Some(oldest) = statements.keys().try_iter()?.next()
        {
            statements.del_item(oldest?)?;
        }
        statements.set_item(text, &made)?;
        Ok(made)
    }

    /// Goes on with a call that others need not wait behind: it is encoded and placed, or the
    /// server is asked what it takes.
    pub(crate) fn begin(core: &Bound<'_, Self>, call: &Bound<'_, Call>) -> PyResult<()> {
        if call.get().is_over() {
            return Ok(());
        }
        match Core::prepare(call)? {
            Ok(None) => {}
            Ok(Some(unknown)) => {
                call.get().now.with(|it| it.is_fresh = true)?;
                describe::ask(core, &unknown, Some(call), 0)?;
                // All that a pipeline has to ask is asked in one trip.
                let others = Core::unknown(call)?;
                return others.iter().try_for_each(|it| describe::ask(core, it, None, 0));
            }
            Err(failure) => return Core::run(core, |state, py, _| state.fail(py, call, failure)),
        }
        let is_read = call.get().now.with(|it| it.reading.is_some())?;
        let replicas = core.get().state.with(|state| state.replicas_of(call.py()))?;
        match replicas.filter(|_| is_read) {
            Some(replicas) => replicas.get().step(call),
            None => Core::run(core, |state, py, now| state.place(py, now, call)),
        }
    }

    /// A read ends so, and goes nowhere else.
    pub(crate) fn fail_read(
        core: &Bound<'_, Self>,
        call: &Bound<'_, Call>,
        failure: Failure,
    ) -> PyResult<()> {
        call.get().now.with(|it| (it.reading, it.holder) = (None, None))?;
        Core::run(core, |state, py, _| state.fail(py, call, failure))
    }

    /// The statements of the call that have to be described first.
    pub(crate) fn unknown<'py>(call: &Bound<'py, Call>) -> PyResult<Vec<Bound<'py, Statement>>> {
        let py = call.py();
        let unknown = |it: &Call| {
            let own = it.statement.as_ref().filter(|own| own.get().described().is_none());
            own.map(|own| own.bind(py).clone())
        };
        let Want::Calls(calls) = &call.get().want else {
            return Ok(unknown(call.get()).into_iter().collect());
        };
        let mut found = Vec::new();
        for part in calls {
            if let Some(statement) = unknown(part.get())
                && Core::texts_of(part.get(), py)?.is_none()
            {
                found.push(statement);
            }
        }
        Ok(found)
    }

    /// The arguments of a call whose text was not described, where nothing has to be known of it:
    /// its rows are of no interest or of texts, and so are its arguments, whose types the server
    /// infers. None where it has to be described.
    fn texts_of<'py>(it: &Call, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        if !matches!(it.want, Want::Tag | Want::Texts) {
            return Ok(None);
        }
        let args = it.arguments(py)?;
        let is_strict = it.client(py)?.get().strict && !args.is_empty();
        Ok((!is_strict && encode::are_texts(&args)).then_some(args))
    }

    /// What is sent of such a call.
    fn encode_unknown(
        args: &Bound<'_, PyTuple>,
        part: Option<Py<Call>>,
    ) -> Result<Encoded, Failure> {
        let mut bytes = Vec::new();
        encode::texts(args, &mut bytes)?;
        Ok((part, Described::nothing(), bytes, Vec::new()))
    }

    /// What is sent of a call is written, or the server has to be asked about this text first. The
    /// inner error is the caller's.
    fn prepare<'py>(
        call: &Bound<'py, Call>,
    ) -> PyResult<Result<Option<Bound<'py, Statement>>, Failure>> {
        if matches!(call.get().want, Want::Script) {
            return Ok(Ok(None));
        }
        let Some(unknown) = Core::unknown(call)?.into_iter().next() else {
            return match Core::still_fails(call)? {
                Some(failure) => Ok(Err(failure)),
                None => Core::encode_or_doubt(call),
            };
        };
        if call.get().is_script() {
            let script = vec![(None, Described::nothing(), Vec::new(), Vec::new())];
            call.get().now.with(|it| it.requests = script)?;
            return Ok(Ok(None));
        }
        let Some(args) = Core::texts_of(call.get(), call.py())? else {
            return Ok(Ok(Some(unknown)));
        };
        match Core::encode_unknown(&args, None) {
            Ok(written) => call.get().now.with(|it| it.requests = vec![written])?,
            Err(failure) => return Ok(Err(failure)),
        }
        Ok(Ok(None))
    }

    /// Why a call has failed that is sent again if the server says something else of its text by now,
    /// and the server does not.
    fn still_fails(call: &Bound<'_, Call>) -> PyResult<Option<Failure>> {
        let it = call.get();
        let (held, used) = it.now.with(|it| match it.held.take() {
            Some(failure) => (Some(failure), it.described.clone()),
            None => (None, None),
        })?;
        let known = it.statement.as_ref().and_then(|it| it.get().described());
        let is_same = used.zip(known).is_some_and(|(used, known)| used.is_same(&known));
        Ok(held.filter(|_| is_same).map(|it| *it))
    }

    /// Writes what is sent of a call. Where a value does not fit what was learned of its text before,
    /// that may have changed: the server is asked once more first.
    fn encode_or_doubt<'py>(
        call: &Bound<'py, Call>,
    ) -> PyResult<Result<Option<Bound<'py, Statement>>, Failure>> {
        let (py, it) = (call.py(), call.get());
        let (failure, statement) = match Core::encode(call)? {
            Ok(()) => return Ok(Ok(None)),
            Err(failed) => failed,
        };
        let is_doubtful = !it.now.with(|it| it.is_fresh)? && failure.is_about_value();
        let Some(statement) = statement.filter(|_| is_doubtful) else { return Ok(Err(failure)) };
        let client = it.client(py)?;
        if let Some(described) = statement.get().described() {
            client.get().state.with(|state| {
                described.oids.iter().for_each(|oid| state.types.forget(*oid));
            })?;
        }
        statement.get().forget();
        it.now.with(|it| it.held = Some(Box::new(failure)))?;
        Ok(Ok(Some(statement.into_bound(py))))
    }

    /// Writes what is sent of a call. The inner error is the caller's; of a value that does not fit,
    /// with its text.
    fn encode(call: &Bound<'_, Call>) -> PyResult<Result<(), Unwritten>> {
        let py = call.py();
        let mut at = None;
        let it = call.get();
        let strict = it.client(py)?.get().strict;
        let mut requests: Vec<Encoded> = Vec::with_capacity(1);
        let parts = if let Want::Calls(parts) = &it.want { &parts[..] } else { &[] };
        for of in parts.iter().map(Py::get).chain([it]) {
            of.now.with(|it| it.by_names = (false, false))?;
        }
        let runs = matches!(it.want, Want::Parts(..));
        let mut in_run = 0;
        let mut add = |of: &Call, args: &Bound<'_, PyTuple>, part: Option<Py<Call>>| {
            let statement = of.statement.as_ref();
            let Some(described) = statement.and_then(|it| it.get().described()) else {
                if part.is_some() {
                    requests.push(Core::encode_unknown(args, part)?);
                }
                return Ok(());
            };
            let mut bytes = Vec::with_capacity(PARAMETERS_ROOM);
            let written = encode::parameters(&described.types, args, strict, &mut bytes);
            if written.is_err() && described.types.len() == args.len() {
                at = statement.map(|it| it.clone_ref(py));
            }
            written?;
            if described.guard.is_some() {
                let (rows, values) = (described.guard_of_rows.is_some(), encode::has_names(args));
                let _ = of.now.with(|it| it.by_names = (rows, it.by_names.1 || values));
            }
            in_run += bytes.len();
            let has_room = in_run < RUN_BYTES || requests.len() >= SHORT_RUNS_MAX;
            match requests.last_mut() {
                Some(run) if runs && run.3.len() < RUN_MAX && has_room => {
                    run.3.push(bytes);
                }
                _ => {
                    in_run = bytes.len();
                    requests.push((part, described, bytes, Vec::new()));
                }
            }
            Ok(())
        };
        let result = match &it.want {
            Want::Attributes => Ok(()),
            Want::Portal(Portal { opens: false, .. }) => {
                requests.extend(
                    it.statement
                        .as_ref()
                        .and_then(|it| it.get().described())
                        .map(|described| (None, described, Vec::new(), Vec::new())),
                );
                Ok(())
            }
            Want::Parts(sets, _) => sets.iter().enumerate().try_for_each(|(number, set)| {
                add(it, set.bind(py), None).map_err(|failure| match failure {
                    Failure::Said { code, outcome, message, cause } => {
                        let _ = it.now.with(|it| it.number = number as u32 + 1);
                        let message = format!("set {} of arguments: {message}", number + 1);
                        Failure::Said { code, outcome, message, cause }
                    }
                    failure => failure,
                })
            }),
            Want::Calls(calls) => calls.iter().try_for_each(|part| {
                let args = part.get().kept(py).map_err(Failure::Raised)?;
                add(part.get(), &args, Some(part.clone_ref(py)))
            }),
            _ => {
                let args = it.kept(py)?;
                add(it, &args, None)
            }
        };
        it.now.with(|it| it.requests = requests)?;
        Ok(result.map_err(|failure| (failure, at)))
    }

    /// Sends what waits on a connection that one caller has, in its order.
    fn advance(core: &Bound<'_, Self>, number: u32) -> PyResult<()> {
        let py = core.py();
        loop {
            let front = core.get().state.with(|state| state.front(py, number))?;
            let Some(call) = front.map(|call| call.into_bound(py)) else {
                let now = core.get().time();
                return Ok(core.get().state.with(|state| state.left(py, now, number))?);
            };
            if !call.get().is_over() && !matches!(call.get().want, Want::Act(_) | Want::Redis(_)) {
                match Core::prepare(&call)? {
                    Ok(None) => {}
                    Ok(Some(unknown)) => {
                        call.get().now.with(|it| it.is_fresh = true)?;
                        return describe::ask(core, &unknown, None, number);
                    }
                    Err(failure) => {
                        core.get().state.with(|state| state.fail(py, &call, failure))?;
                    }
                }
            }
            let now = core.get().time();
            core.get().state.with(|state| state.send_front(py, now, number))?;
        }
    }

    /// Nobody waits for a call any more.
    pub(crate) fn give_up(core: &Bound<'_, Self>, call: &Bound<'_, Call>) -> PyResult<()> {
        Core::run(core, |state, py, now| state.give_up(py, now, call))?;
        if call.get().is_own() { Ok(()) } else { describe::left(core, call) }
    }
}

/// Why nothing was written of a call; and its text, where a value does not fit that.
type Unwritten = (Failure, Option<Py<Statement>>);

/// Writes the rows of one COPY. It keeps what it knows of their columns, which the client may forget
/// while the COPY lasts. That may be wrong by then, of which a binary COPY shows nothing: the guard
/// behind it does, and what failed is written anew by what the server says then.
#[pyclass(frozen, module = "onetrip._native")]
#[derive(Debug)]
pub(crate) struct RowWriter {
    described: Arc<Described>,
    /// Values are taken as by asyncpg.
    strict: bool,
}

impl RowWriter {
    fn named(&self) -> Vec<(String, u32)> {
        let row = &self.described.row;
        column_names(row).into_iter().zip(column_types(row)).collect()
    }
}

#[pymethods]
impl RowWriter {
    /// What runs behind the COPY, and fails if the table's columns have other types. `table`: as it
    /// stands in the text. `by_row`: its name is known to mean its rows' type, too.
    fn guard(&self, table: &str, by_row: bool) -> String {
        let named = self.named();
        let columns: Vec<_> = named.iter().map(|(name, oid)| (name.as_str(), *oid)).collect();
        match (by_row, &columns[..]) {
            (_, []) => String::new(),
            (true, columns) => copy::guard(Guard::ByRow, table, columns),
            (false, columns) => copy::guard(Guard::ByCatalog, table, columns),
        }
    }

    /// Whether another one writes the same.
    fn is_same(&self, other: &Bound<'_, RowWriter>) -> bool {
        self.described.is_same(&other.get().described)
    }

    /// About `bytes_max` bytes of these rows; none at their end.
    fn write<'py>(
        &self,
        rows: &Bound<'py, PyIterator>,
        bytes_max: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (py, mut out) = (rows.py(), Vec::new());
        let columns = (&self.described.columns[..], self.strict);
        match encode::rows(columns, rows, bytes_max, &mut out)? {
            Ok(()) => Ok(PyBytes::new(py, &out)),
            Err(failure) => Err(failure.raised(py)),
        }
    }
}

#[pymethods]
impl Core {
    /// `settings`: names and values, of the policy of the pool.
    /// `strict`: values are taken and given as by asyncpg.
    #[new]
    #[pyo3(signature = (event_loop, host, settings, seed, result_bytes_max, strict=false))]
    fn new(
        event_loop: &Bound<'_, PyAny>,
        host: Py<PyAny>,
        settings: Vec<(String, String)>,
        seed: u64,
        result_bytes_max: usize,
        strict: bool,
    ) -> PyResult<Core> {
        let py = event_loop.py();
        let settings = pairs(&settings)?;
        let mut state = State::new(clock(), &settings, seed, result_bytes_max);
        if strict {
            types::like_asyncpg(&mut state.types);
        }
        // That of `onetrip.blocking` has turns, and flushes before it waits.
        let turn = event_loop.getattr_opt(intern!(py, "turn"))?;
        let turn = turn.map(|turn| turn.cast_into::<Turn>()).transpose()?;
        let soon = if turn.is_some() { "flush_soon" } else { "call_soon" };
        Ok(Core {
            generation: state.generation.clone(),
            state: Local::new(state),
            strict,
            host: Local::new(Some(host)),
            create_future: event_loop.getattr(intern!(py, "create_future"))?.unbind(),
            call_soon: event_loop.getattr(soon)?.unbind(),
            turn: turn.map(Bound::unbind),
            running_loop: py.import("asyncio")?.getattr("_get_running_loop")?.unbind(),
            event_loop: event_loop.clone().unbind(),
            statements: PyDict::new(py).unbind(),
            timer: Local::new(None),
        })
    }

    /// Raises where its caller is elsewhere than who opened it.
    #[pyo3(name = "check")]
    fn check_caller(&self, py: Python<'_>) -> PyResult<()> {
        self.check(py)
    }

    /// Keeps replies of its connection in this cache.
    fn begin_cache(&self, cache: Py<RedisCache>) -> PyResult<()> {
        Ok(self.state.with(|state| state.cache = Some(cache))?)
    }

    /// Carries out what the pool wants first.
    fn begin_pool(slf: &Bound<'_, Self>) -> PyResult<()> {
        Core::run(slf, State::walk_pool)
    }

    fn _flush(slf: &Bound<'_, Self>) -> PyResult<()> {
        Core::run(slf, State::turn_ends)
    }

    fn _tick(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().set_timer(slf.py(), None)?;
        Core::run(slf, State::tick)
    }

    // --- connections of one's own ---

    /// A call that ends with the number of a connection.
    fn checkout(slf: &Bound<'_, Self>) -> PyResult<Py<Call>> {
        let py = slf.py();
        slf.get().check(py)?;
        let call = Call::new(slf.clone().into_any().unbind(), Want::Checkout, None, 0, None);
        let call = Bound::new(py, call)?;
        Core::run(slf, |state, py, now| state.checkout(py, now, &call))?;
        Ok(call.unbind())
    }

    /// Gives it back, once it has answered what was sent on it.
    fn release(slf: &Bound<'_, Self>, number: u32) -> PyResult<()> {
        Core::run(slf, |state, py, now| state.release(py, now, number))
    }

    /// Has the server stop what runs on it. Its callers hear that it was cancelled.
    fn stop(slf: &Bound<'_, Self>, number: u32) -> PyResult<()> {
        Core::run(slf, |state, py, now| {
            if let Some(link) = state.links.get_mut(&number) {
                link.stop(now);
            }
            state.walk(py, now, number);
        })
    }

    /// Who has it alone has reset its session as it is to be, so that nothing is owed for that.
    fn vouch(slf: &Bound<'_, Self>, number: u32) -> PyResult<()> {
        Core::run(slf, |state, _, _| {
            if let Some(link) = state.links.get_mut(&number) {
                link.vouch();
            }
        })
    }

    /// Ends a connection, with what is on it.
    fn destroy(slf: &Bound<'_, Self>, number: u32, message: &str) -> PyResult<()> {
        Core::run(slf, |state, py, now| state.destroy(py, now, number, message))
    }

    /// Begins a transaction on it; nothing is sent yet.
    #[pyo3(signature = (number, isolation=None, read_only=None, deferrable=None))]
    fn open_block(
        slf: &Bound<'_, Self>,
        number: u32,
        isolation: Option<&str>,
        read_only: Option<bool>,
        deferrable: Option<bool>,
    ) -> PyResult<()> {
        let isolation = match isolation {
            None => None,
            Some("read_uncommitted") => Some(Isolation::ReadUncommitted),
            Some("read_committed") => Some(Isolation::ReadCommitted),
            Some("repeatable_read") => Some(Isolation::RepeatableRead),
            Some("serializable") => Some(Isolation::Serializable),
            Some(other) => {
                return Err(PyTypeError::new_err(format!(
                    "isolation is read_uncommitted, read_committed, repeatable_read or \
                     serializable, not {other}"
                )));
            }
        };
        let modes = Modes { isolation, read_only, deferrable };
        Core::run(slf, |state, _, _| state.open_block(number, modes))
    }

    /// Does something with the transaction, behind what was submitted: `commit`, `rollback`,
    /// `savepoint`, `release`, `undo`, `forget`, `leave_out`.
    fn act_on(slf: &Bound<'_, Self>, number: u32, act: &str) -> PyResult<Py<Call>> {
        let act = match act {
            "commit" => Act::Commit,
            "rollback" => Act::Rollback,
            "savepoint" => Act::Savepoint,
            "release" => Act::Release,
            "undo" => Act::Undo,
            "forget" => Act::Forget,
            "leave_out" => Act::LeaveOut,
            _ => return Err(PyTypeError::new_err("there is no such act")),
        };
        let call = Call::new(slf.clone().into_any().unbind(), Want::Act(act), None, 0, None);
        let call = Bound::new(slf.py(), call)?;
        Core::run(slf, |state, py, now| state.enqueue(py, now, number, &call))?;
        Ok(call.unbind())
    }

    /// Whether the transaction on it is run again, as things stand.
    fn runs_again(slf: &Bound<'_, Self>, number: u32) -> PyResult<bool> {
        Core::run(slf, |state, _, now| state.asks(now, number, Act::RunsAgain))
    }

    /// Whether something of the transaction on it may have reached the server.
    fn has_left(slf: &Bound<'_, Self>, number: u32) -> PyResult<bool> {
        Core::run(slf, |state, _, now| state.asks(now, number, Act::HasLeft))
    }

    // --- its end ---

    /// Takes nothing new. `Host.closed` tells when no connection is left. `why`: the reason, where
    /// that is not its caller's wish.
    #[pyo3(signature = (why=None))]
    fn close_pool(slf: &Bound<'_, Self>, why: Option<&str>) -> PyResult<()> {
        Core::run(slf, |state, py, now| match why {
            Some(why) => state.close_for(py, now, why),
            None => state.close(py, now),
        })
    }

    /// Its time to close is over: callers in line fail.
    fn cut_pool(slf: &Bound<'_, Self>) -> PyResult<()> {
        Core::run(slf, |state, py, now| {
            state.pool.cut(now);
            state.walk_pool(py, now);
        })
    }

    /// Nothing is left: its host is let go, which has the client in turn.
    fn let_go(&self, py: Python<'_>) -> PyResult<()> {
        self.set_timer(py, None)?;
        let host = self.host.with(Option::take)?;
        drop(host);
        Ok(())
    }

    /// Connections, those that are idle, callers that wait.
    fn counts(&self) -> PyResult<[usize; 3]> {
        Ok(self.state.with(|state| state.pool.counts())?)
    }

    /// The transaction status of a connection, as the letter of ReadyForQuery.
    fn status(&self, number: u32) -> PyResult<String> {
        Ok(self.state.with(|state| state.status(number))?)
    }

    /// Whether BEGIN was answered on it, so that a COPY may follow.
    fn is_begun(slf: &Bound<'_, Self>, number: u32) -> PyResult<bool> {
        Core::run(slf, |state, _, now| state.asks(now, number, Act::IsKnown))
    }

    /// Says goodbye on a connection that is none of the pool's.
    fn dismiss(slf: &Bound<'_, Self>, number: u32) -> PyResult<()> {
        Core::run(slf, |state, py, now| state.leave(py, now, number))
    }

    /// What was counted, by name.
    fn metrics<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let (counts, [connections, idle, waiting], pending) = slf.get().state.with(|state| {
            let of_links = state.links.values().map(|link| link.connection.borrow().pending());
            let pending = of_links.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
            (state.counts, state.pool.counts(), pending)
        })?;
        let (in_flight, queued) = pending;
        let gauges = [connections, idle, waiting, in_flight, queued];
        let names = ["connections", "idle", "waiting", "in_flight", "queued"];
        let dict = PyDict::new(slf.py());
        names.iter().zip(gauges).try_for_each(|(name, value)| dict.set_item(name, value))?;
        for (name, value) in [
            ("opened", counts.opened),
            ("open_failed", counts.open_failed),
            ("lost", counts.lost),
            ("statements", counts.statements),
            ("failed", counts.failed),
            ("sent_again", counts.sent_again),
            ("bytes_sent", counts.sent),
            ("bytes_received", counts.received),
        ] {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// Writes rows for a binary COPY into the columns that this text returns; None where the text is
    /// not described.
    fn row_writer(&self, text: &Bound<'_, PyString>) -> PyResult<Option<RowWriter>> {
        let described = self.statement(text)?.get().described();
        Ok(described.map(|described| RowWriter { described, strict: self.strict }))
    }

    /// What was learned of this text may be wrong, and so may be what its types are. `is_wrong`: it
    /// is for certain, and so may be what was learned of others.
    fn doubt(&self, text: &Bound<'_, PyString>, is_wrong: bool) -> PyResult<()> {
        let statement = self.statement(text)?;
        if is_wrong {
            self.generation.has_changed();
        }
        if let Some(described) = statement.get().former() {
            self.state.with(|state| {
                described.columns.iter().for_each(|type_| state.types.forget(type_.oid));
            })?;
        }
        statement.get().forget();
        Ok(())
    }

    /// Forgets what was learned of texts and types.
    fn forget_types(&self, py: Python<'_>) -> PyResult<()> {
        self.statements.bind(py).clear();
        Ok(self.state.with(|state| state.types.clear())?)
    }

    /// Has values of a type written and read by these functions, which take and return what `form`
    /// says: a `text`, `binary` or a `tuple`. `is_text` says of a str whether it leaves as it is.
    #[pyo3(signature = (oid, form, encode, decode, is_text = None))]
    fn set_codec(
        &self,
        py: Python<'_>,
        oid: u32,
        form: &str,
        encode: Py<PyAny>,
        decode: Py<PyAny>,
        is_text: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let form = match form {
            "text" => Form::Text,
            "binary" => Form::Binary,
            _ => Form::Numbers,
        };
        self.statements.bind(py).clear();
        let by = (encode, decode);
        Ok(self.state.with(|state| types::set_codec(&mut state.types, oid, form, by, is_text))?)
    }

    /// Has values of a type written and read as those of another.
    fn alias_codec(&self, py: Python<'_>, oid: u32, of: u32) -> PyResult<()> {
        self.statements.bind(py).clear();
        Ok(self.state.with(|state| state.types.alias(oid, of))?)
    }

    /// Takes that back.
    fn reset_codec(&self, py: Python<'_>, oid: u32) -> PyResult<()> {
        self.statements.bind(py).clear();
        Ok(self.state.with(|state| state.types.reset_codec(oid))?)
    }

    /// Whether a text can't run on a connection that others use as well.
    fn needs_own(slf: &Bound<'_, Self>, text: &Bound<'_, PyString>) -> PyResult<bool> {
        let traits = slf.get().statement(text)?.get().traits;
        Ok(refusal(traits, Place::Shared).is_some())
    }

    /// Whether the server is about to stop what was given up.
    fn is_given_up(&self) -> PyResult<bool> {
        let of = |state: &mut State| {
            state.links.values().any(|link| link.connection.borrow().is_given_up())
        };
        Ok(self.state.with(of)?)
    }

    /// Replaces a connection, once nobody uses it.
    fn retire(slf: &Bound<'_, Self>, number: u32) -> PyResult<()> {
        Core::run(slf, |state, py, now| {
            state.pool.retire(now, number);
            state.walk_pool(py, now);
        })
    }

    /// The process of the server that serves a connection.
    fn process_id(&self, number: u32) -> PyResult<i32> {
        let of = |state: &mut State| {
            state.links.get(&number).map_or(0, |link| link.connection.borrow().process_id())
        };
        Ok(self.state.with(of)?)
    }

    /// A connection that is logged in and not in the pool yet is its caller's.
    fn lend(slf: &Bound<'_, Self>, number: u32) -> PyResult<()> {
        Core::run(slf, |state, _, _| {
            if let Some(link) = state.links.get_mut(&number) {
                link.lend();
            }
        })
    }

    /// A connection that was asked for could not be opened. `permanent`: time does not mend it.
    /// `may_pass`: another attempt may fare better soon.
    fn open_failed(
        slf: &Bound<'_, Self>,
        number: u32,
        error: Bound<'_, PyAny>,
        permanent: bool,
        may_pass: bool,
    ) -> PyResult<()> {
        let error = (error.clone().unbind(), error.to_string());
        let of = (permanent, may_pass);
        Core::run(slf, |state, py, now| state.open_failed(py, now, number, error, of))
    }

    /// What failed is no word on the server: who comes from now on waits for another attempt.
    fn forget_failure(&self) -> PyResult<()> {
        Ok(self.state.with(|state| state.pool.forget_failure())?)
    }

    /// The scout that the host was asked for is back.
    fn scouted(slf: &Bound<'_, Self>) -> PyResult<()> {
        Core::run(slf, |state, py, now| {
            state.pool.scouted(now);
            state.walk_pool(py, now);
        })
    }

    /// A connection is logged in, and the server will do.
    fn opened(slf: &Bound<'_, Self>, number: u32) -> PyResult<bool> {
        Core::run(slf, |state, py, now| state.opened(py, now, number))
    }

    /// What is sent on the socket of a cancel; none where it is not to be sent.
    fn begin_cancel<'py>(
        slf: &Bound<'py, Self>,
        number: u32,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Core::run(slf, |state, py, now| state.begin_cancel(py, now, number))
            .map(|message| message.map(|message| PyBytes::new(slf.py(), &message)))
    }

    /// What became of a cancel: `not_sent`, `closed` or `lost`.
    fn cancel_ended(slf: &Bound<'_, Self>, number: u32, end: &str) -> PyResult<()> {
        let end = match end {
            "not_sent" => onetrip_engine::CancelEnd::NotSent,
            "closed" => onetrip_engine::CancelEnd::Closed,
            _ => onetrip_engine::CancelEnd::Lost,
        };
        Core::run(slf, |state, py, now| state.cancel_ended(py, now, number, end))
    }
}

/// Where statements go: to the pool, onto one connection, or into a pipeline.
#[pyclass(subclass, module = "onetrip._native")]
#[derive(Debug)]
pub(crate) struct Scope {
    core: Py<Core>,
    place: Where,
    /// Nothing goes there any more, or not at present: why.
    over: Option<Failure>,
    /// It is that of the stream or the COPY that has its connection.
    is_inner: bool,
}

#[derive(Debug)]
enum Where {
    Shared,
    /// On this connection; in a transaction.
    Own(u32, bool),
    /// Its calls, and why one was refused: then none is sent.
    Pipeline(Vec<Py<Call>>, Option<Failure>),
}

impl Scope {
    fn submit<'py>(
        &mut self,
        want: Want,
        text: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
        (flags, into): (u32, Option<Bound<'py, PyAny>>),
    ) -> PyResult<Bound<'py, Call>> {
        self.submit_as(want, text, args, flags, (into, None))
    }

    fn submit_as<'py>(
        &mut self,
        want: Want,
        text: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
        flags: u32,
        (into, record): (Option<Bound<'py, PyAny>>, Option<Py<PyType>>),
    ) -> PyResult<Bound<'py, Call>> {
        let py = text.py();
        let _turn = self.core.get().enter(py)?;
        refused_into(into.as_ref())?;
        let core = self.core.bind(py);
        // What another thread has made must not be kept.
        core.get().check(py)?;
        let statement = core.get().statement(text)?;
        let place = match self.place {
            Where::Shared => Place::Shared,
            Where::Own(_, in_transaction) => Place::Session { in_transaction },
            Where::Pipeline(..) => Place::Pipeline { alone: false },
        };
        let traits = statement.get().traits;
        let copies = || [Direction::In, Direction::Out].iter().any(|it| it.is_of(traits));
        let refused = match want {
            Want::CopyIn(_) if Direction::In.is_of(traits) => None,
            Want::CopyOut if Direction::Out.is_of(traits) => None,
            Want::CopyIn(_) => Some(("copy", "copy_in takes a COPY … FROM STDIN statement")),
            Want::CopyOut => Some(("copy", "copy_out takes a COPY … TO STDOUT statement")),
            _ if flags & flag::REPEATABLE != 0 && !matches!(place, Place::Shared) => {
                Some(("repeatable", NOT_REPEATABLE))
            }
            // The server would wait for data of a COPY that nobody sends.
            Want::Parts(..) if copies() => {
                Some(("copy", "a COPY takes no sets of arguments: run it by a method for COPY"))
            }
            // A drop-in's caller does on a connection of his own what he likes.
            _ if core.get().strict && matches!(place, Place::Session { .. }) => None,
            _ => refusal(traits, place).map(|refusal| (refusal.code(), refusal.message())),
        };
        // A COPY that the drop-in does not carry out itself goes as in a script, where the server ends
        // it. The engine takes its answers for nothing else.
        let has_rows = matches!(want, Want::Rows | Want::Row | Want::Head | Want::Tag | Want::Both);
        let goes_simply = core.get().strict && has_rows && args.is_empty() && copies();
        let flags = if goes_simply { flag::SIMPLE } else { flags };
        let args = Some(args.clone().unbind());
        let (of, statement) = (core.clone().into_any().unbind(), Some(statement.unbind()));
        let mut call = Call::new(of, want, statement, flags, args);
        call.into = into.map(Bound::unbind);
        call.record = record;
        // The drop-in's caller may have begun a transaction by himself.
        call.part_of = match self.place {
            Where::Own(number, in_transaction) if in_transaction || core.get().strict => number,
            _ => 0,
        };
        let call = Bound::new(py, call)?;
        let (failure, is_refused) = match self.closed_to(py)? {
            None => (refused.map(|(code, message)| unsent(code, message)), true),
            failure => (failure, false),
        };
        if let Some(failure) = failure {
            if let Where::Pipeline(_, refused) = &mut self.place {
                refused.get_or_insert_with(|| failure.again(py, failure.outcome()));
            }
            Core::run(core, |state, py, _| {
                state.fail(py, &call, failure);
                if let (true, Where::Own(number, _)) = (is_refused, &self.place) {
                    state.enqueue_refused(*number, &call);
                }
            })?;
            return Ok(call);
        }
        match &mut self.place {
            Where::Shared => Core::begin(core, &call)?,
            Where::Own(number, _) => {
                let number = *number;
                Core::run(core, |state, py, now| state.enqueue(py, now, number, &call))?;
            }
            Where::Pipeline(calls, _) => {
                call.get().now.with(|it| it.is_kept = true)?;
                calls.push(call.clone().unbind());
            }
        }
        Ok(call)
    }

    /// Why nothing goes there, whatever it is.
    fn closed_to(&self, py: Python<'_>) -> PyResult<Option<Failure>> {
        if let Some(over) = &self.over {
            return Ok(Some(over.again(py, over.outcome())));
        }
        let Where::Own(number, _) = self.place else { return Ok(None) };
        let claimed = self.core.get().state.with(|state| state.claimed(number))?;
        Ok(claimed.filter(|_| !self.is_inner).map(refused))
    }

    fn many<'py>(
        &mut self,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyAny>,
        (rows, into): (bool, Option<Bound<'py, PyAny>>),
    ) -> PyResult<Bound<'py, Call>> {
        let py = query.py();
        if matches!(self.place, Where::Pipeline(..)) {
            const MESSAGE: &str = "executemany and fetchmany have a sync point of their own, and \
                 this is a pipeline: call them outside of it, or execute for each set in it";
            return Err(unsent("pipeline", MESSAGE).raised(py));
        }
        let set = |set: PyResult<Bound<'_, PyAny>>| match set?.cast_into::<PyTuple>() {
            Ok(set) => Ok(set.unbind()),
            Err(other) => {
                let other = other.into_inner();
                // The order of a set is no order of arguments.
                let is_set =
                    other.is_instance_of::<PySet>() || other.is_instance_of::<PyFrozenSet>();
                match encode::elements(&other).filter(|_| !is_set) {
                    Some(set) => Ok(PyTuple::new(py, set)?.unbind()),
                    None => Err(no_sets("the arguments of a statement are a tuple", &other)?),
                }
            }
        };
        let Ok(sets) = args.try_iter() else {
            return Err(no_sets("the sets of arguments are a list", args)?);
        };
        let sets = sets.map(set).collect::<PyResult<Vec<_>>>()?;
        let want = Want::Parts(sets, rows);
        self.submit(want, query, &PyTuple::empty(py), (flags_of(false), into))
    }
}

/// The error of what was given in the place of sets of arguments: nothing was sent.
fn no_sets(words: &str, given: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    let text = format!("{words} or another sequence, not a {}", given.get_type().name()?);
    Ok(unsent("parameter", text).raised(given.py()))
}

/// Whether it is about the program, and not about what raised it.
fn is_interrupt(error: &PyErr, py: Python<'_>) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py)
}

/// What is told to those for whom there is no place beside this.
fn refusal_of(open: &str) -> Refusal {
    match open {
        "stream" => Refusal::StreamOpen,
        "copy" => Refusal::CopyOpen,
        "savepoint" => Refusal::SavepointOpen,
        _ => Refusal::BlockOpen,
    }
}

/// Refuses what rows can't be made into.
pub(crate) fn refused_into(into: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    if into.is_none_or(|into| into.is_callable()) {
        return Ok(());
    }
    Err(PyTypeError::new_err(
        "into takes tuple, dict, or what is called with the columns of a row by name, as a \
         dataclass",
    ))
}

pub(crate) fn flags_of(repeatable: bool) -> u32 {
    flag::BINARY | if repeatable { flag::REPEATABLE } else { 0 }
}

#[pymethods]
impl Scope {
    /// `number`: 0 for the pool.
    #[new]
    #[pyo3(signature = (core, number=0, in_transaction=false, pipeline=false))]
    fn new(core: Py<Core>, number: u32, in_transaction: bool, pipeline: bool) -> Scope {
        let place = match (pipeline, number) {
            (true, _) => Where::Pipeline(Vec::new(), None),
            (false, 0) => Where::Shared,
            (false, number) => Where::Own(number, in_transaction),
        };
        Scope { core, place, over: None, is_inner: false }
    }

    /// The rows of a statement, as a list of records.
    #[pyo3(signature = (query, /, *args, repeatable=false, into=None))]
    fn fetch<'py>(
        &mut self,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
        repeatable: bool,
        into: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Call>> {
        self.submit(Want::Rows, query, args, (flags_of(repeatable), into))
    }

    /// The rows of a statement as columns of Arrow.
    #[pyo3(signature = (query, /, *args, repeatable=false))]
    fn fetch_arrow<'py>(
        &mut self,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
        repeatable: bool,
    ) -> PyResult<Bound<'py, Call>> {
        self.submit(Want::Arrow, query, args, (flags_of(repeatable), None))
    }

    /// A reply that is taken as it comes, or a COPY, or a text of any number of statements, by
    /// `kind`: on a connection that one caller has.
    #[pyo3(signature = (kind, query, /, *args, into=None))]
    fn _flow<'py>(
        &mut self,
        kind: &str,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
        into: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Call>> {
        let (want, flags) = match kind {
            "stream" => (Want::Stream, flag::STREAM | flag::UNPREPARED | flag::BINARY),
            "copy_out" => (Want::CopyOut, flag::STREAM | flag::SIMPLE),
            _ => (Want::Tag, flag::SIMPLE),
        };
        let call = self.submit(want, query, args, (flags, into))?;
        call.get().now.with(|it| it.is_awaited = call.get().flows())?;
        Ok(call)
    }

    /// A COPY that takes data, and what runs behind it in its implicit transaction, if something.
    fn _copy_in<'py>(
        &mut self,
        query: &Bound<'py, PyString>,
        behind: String,
    ) -> PyResult<Bound<'py, Call>> {
        let none = PyTuple::empty(query.py());
        let call = self.submit(Want::CopyIn(behind), query, &none, (flag::COPY_IN, None))?;
        call.get().now.with(|it| it.is_awaited = true)?;
        Ok(call)
    }

    /// The first row, or None.
    #[pyo3(signature = (query, /, *args, repeatable=false, into=None))]
    fn fetchrow<'py>(
        &mut self,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
        repeatable: bool,
        into: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Call>> {
        self.submit(Want::Row, query, args, (flags_of(repeatable), into))
    }

    /// A value of the first row, or None.
    #[pyo3(signature = (query, /, *args, column=0, repeatable=false))]
    fn fetchval<'py>(
        &mut self,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
        column: isize,
        repeatable: bool,
    ) -> PyResult<Bound<'py, Call>> {
        self.submit(Want::Value(column), query, args, (flags_of(repeatable), None))
    }

    /// The command tag.
    #[pyo3(signature = (query, /, *args))]
    fn execute<'py>(
        &mut self,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, Call>> {
        self.submit(Want::Tag, query, args, (flags_of(false), None))
    }

    /// The first row of what this side asks for itself, as texts.
    fn _texts<'py>(&mut self, query: &Bound<'py, PyString>) -> PyResult<Bound<'py, Call>> {
        let args = PyTuple::empty(query.py());
        self.submit(Want::Texts, query, &args, (flag::UNPREPARED, None))
    }

    /// Runs a statement with each of these sets of arguments: all of them take effect, or none.
    #[pyo3(signature = (query, args, /))]
    fn executemany<'py>(
        &mut self,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Call>> {
        self.many(query, args, (false, None))
    }

    /// The same, and the rows of all of them.
    #[pyo3(signature = (query, args, /, *, into=None))]
    fn fetchmany<'py>(
        &mut self,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyAny>,
        into: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Call>> {
        self.many(query, args, (true, into))
    }

    /// For the drop-in: `want` is `rows`, `row`, `head` (a list of one), `tag`, `both` (rows and
    /// tag), `script` or `attributes`.
    #[pyo3(signature = (want, query, args, record=None))]
    fn _run<'py>(
        &mut self,
        want: &str,
        query: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
        record: Option<Py<PyType>>,
    ) -> PyResult<Bound<'py, Call>> {
        let want = match want {
            "rows" => Want::Rows,
            "row" => Want::Row,
            "head" => Want::Head,
            "tag" => Want::Tag,
            "both" => Want::Both,
            "script" => Want::Script,
            _ => Want::Attributes,
        };
        let flags = if matches!(want, Want::Script) { flag::SIMPLE } else { flag::BINARY };
        self.submit_as(want, query, args, flags, (None, record))
    }

    /// The same with each of these arguments; with the rows of all, if there is a `record`.
    #[pyo3(signature = (query, sets, record=None))]
    fn _run_many<'py>(
        &mut self,
        query: &Bound<'py, PyString>,
        sets: Vec<Py<PyTuple>>,
        record: Option<Py<PyType>>,
    ) -> PyResult<Bound<'py, Call>> {
        let (want, args) = (Want::Parts(sets, record.is_some()), PyTuple::empty(query.py()));
        self.submit_as(want, query, &args, flag::BINARY, (None, record))
    }

    /// Opens the portal of this name with these arguments, or goes on with it if there are none;
    /// and fetches so many rows, or none.
    fn _portal<'py>(
        &mut self,
        name: String,
        rows_max: u32,
        query: &Bound<'py, PyString>,
        args: Option<&Bound<'py, PyTuple>>,
        record: Option<Py<PyType>>,
    ) -> PyResult<Bound<'py, Call>> {
        let portal = Portal { name, opens: args.is_some(), rows_max: NonZeroU32::new(rows_max) };
        let none = PyTuple::empty(query.py());
        let flags = flag::BINARY | flag::UNPREPARED;
        self.submit_as(Want::Portal(portal), query, args.unwrap_or(&none), flags, (None, record))
    }

    /// Sends the statements of a pipeline, and ends when all have taken effect, or none has.
    fn _send<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, Call>> {
        let Where::Pipeline(calls, refused) = &mut self.place else {
            return Err(PyRuntimeError::new_err("this is no pipeline"));
        };
        let (calls, refused) = (std::mem::take(calls), refused.take());
        // What becomes of them is heard of by who sends them.
        for call in &calls {
            call.get().now.with(|it| (it.is_awaited, it.is_kept) = (true, false))?;
        }
        let core = self.core.bind(py);
        let want = Want::Calls(calls);
        let call = Bound::new(
            py,
            Call::new(core.clone().into_any().unbind(), want, None, flags_of(false), None),
        )?;
        match refused {
            None => Core::begin(core, &call)?,
            Some(failure) => Core::run(core, |state, py, _| state.fail(py, &call, failure))?,
        }
        Ok(call)
    }

    /// Nothing goes there any more.
    fn _end(&mut self, py: Python<'_>, message: String) -> PyResult<()> {
        self.core.get().check(py)?;
        self.over = Some(unsent("over", message));
        Ok(())
    }

    /// Nothing goes there any more: the client was closed.
    fn _closes(&mut self, py: Python<'_>) -> PyResult<()> {
        self.core.get().check(py)?;
        self.over = Some(closed());
        Ok(())
    }

    /// Nothing goes there while what was begun there is open: a `savepoint`, or a `block`.
    fn _give_way(&mut self, py: Python<'_>, to: &str) -> PyResult<()> {
        self._check(py)?;
        self.over = Some(refused(refusal_of(to)));
        Ok(())
    }

    /// Raises where nothing goes there at present.
    fn _check(&self, py: Python<'_>) -> PyResult<()> {
        self.core.get().check(py)?;
        self.closed_to(py)?.map_or(Ok(()), |failure| Err(failure.raised(py)))
    }

    /// A place of its own on this connection for a `stream` or a `copy`. Nothing else goes there
    /// until that is left (`_leave`).
    fn _claim(&self, py: Python<'_>, by: &str) -> PyResult<Scope> {
        self._check(py)?;
        let Where::Own(number, in_transaction) = self.place else {
            return Err(PyRuntimeError::new_err("this is nobody's own"));
        };
        self.core.get().state.with(|state| state.claim(number, Some(refusal_of(by))))?;
        let place = Where::Own(number, in_transaction);
        Ok(Scope { core: self.core.clone_ref(py), place, over: None, is_inner: true })
    }

    /// Other things may go there again.
    fn _leave(&self) -> PyResult<()> {
        if let Where::Own(number, _) = self.place {
            self.core.get().state.with(|state| state.claim(number, None))?;
        }
        Ok(())
    }

    /// Something goes there again.
    fn _open(&mut self) {
        self.over = None;
    }

    /// Those that were made and are not to be sent end so.
    fn _drop(&mut self, py: Python<'_>) -> PyResult<()> {
        let Where::Pipeline(calls, _) = &mut self.place else { return Ok(()) };
        for call in std::mem::take(calls) {
            let failure =
                unsent("pipeline_left", "its pipeline was left by an error before it was sent");
            let call = call.into_bound(py);
            // What leaves the block says enough of it.
            call.get().now.with(|it| it.is_awaited = true)?;
            Core::run(self.core.bind(py), |state, py, _| state.fail(py, &call, failure))?;
        }
        Ok(())
    }
}
