//! A call on its way: what it is that `db.fetch(…)` returns.
//!
//! It is awaited as a coroutine is, and has a coroutine's methods, so `create_task`, `gather`, `wait_for` and task groups
//! take it. Whoever awaits one that is not answered yet waits for a future of the loop's, which is made for that.

use std::sync::Arc;

use bytes::Bytes;
use onetrip_abi::completion::outcome;
use onetrip_abi::host::Act;
use onetrip_engine::Ticket;
use onetrip_postgres::message::tag::backend;
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyStopIteration};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple, PyType};

use crate::core::Core;
use crate::decode::{Columns, Misfit, tag, unreadable};
use crate::failure::Failure;
use crate::local::Local;
use crate::messages::messages;
use crate::record::record_type;
use crate::statement::{Described, Statement};

/// What is wanted of a reply.
#[derive(Debug)]
pub(crate) enum Want {
    Rows,
    Row,
    /// Of the first row the value at this place.
    Value(usize),
    Tag,
    /// Nothing: its parts have the replies.
    Parts(Vec<Py<PyTuple>>),
    /// The same, of statements with calls of their own.
    Calls(Vec<Py<Call>>),
    /// What a transaction does.
    Act(Act),
    /// The number of a connection that its caller has to himself.
    Checkout,
    /// For the client itself: what a text takes and returns.
    Description(Py<Statement>),
    /// For the client itself: types, of which such a description speaks.
    Types(Py<Statement>, Vec<u32>, Vec<u32>),
}

/// A call.
#[pyclass(frozen, module = "onetrip")]
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) core: Py<Core>,
    pub(crate) want: Want,
    /// None for what has no text.
    pub(crate) statement: Option<Py<Statement>>,
    pub(crate) flags: u32,
    pub(crate) now: Local<Progress>,
}

/// How far it has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) stage: Stage,
    pub(crate) args: Option<Py<PyTuple>>,
    /// Formats and parameters, encoded as `described` says; several of one with parts.
    pub(crate) requests: Vec<(Option<Py<Call>>, Arc<Described>, Vec<u8>)>,
    /// How the reply was asked for.
    pub(crate) described: Option<Arc<Described>>,
    pub(crate) blocks: Vec<Bytes>,
    /// Bytes of them.
    pub(crate) bytes: usize,
    /// Rows that were read before the reply was complete, or why they could not be.
    rows: Option<Py<PyList>>,
    fault: Option<PyErr>,
    /// The body of the RowDescription.
    pub(crate) columns: Option<Bytes>,
    pub(crate) failure: Option<Failure>,
    /// Those that wait for its end.
    pub(crate) future: Option<Py<PyAny>>,
    /// A task was told to go on, and has not done so.
    pub(crate) is_woken: bool,
    is_awaited: bool,
    /// What its end says, where that is no reply.
    pub(crate) number: u32,
}

/// Where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits for what this side has to know first, or for its pipeline.
    #[default]
    Made,
    /// It waits in the pool, by this token.
    InLine(u32),
    /// It was handed to the engine, on this connection and by this token.
    Sent(u32, u32, Ticket),
    /// It has ended.
    Over,
    /// Somebody has its result.
    Taken,
}

impl Call {
    pub(crate) fn new(
        core: Py<Core>,
        want: Want,
        statement: Option<Py<Statement>>,
        flags: u32,
        args: Option<Py<PyTuple>>,
    ) -> Call {
        let now = Local::new(Progress { args, ..Progress::default() });
        Call { core, want, statement, flags, now }
    }

    /// Whether it is the client's own, and nobody awaits it.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.want, Want::Description(_) | Want::Types(..))
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        let is_over = |it: &mut Progress| matches!(it.stage, Stage::Over | Stage::Taken);
        self.now.with(is_over).unwrap_or(true)
    }

    /// A part of a long result has come: its rows are made now, so that what was received can be used again while it is
    /// in the cache.
    pub(crate) fn read_early(&self, py: Python<'_>) -> PyResult<()> {
        let (reply, rows) = self.now.with(|it| (self.reply(it), it.rows.take()))?;
        let rows = rows.unwrap_or_else(|| PyList::empty(py).unbind());
        let fault = reply.append(rows.bind(py)).err().map(|misfit| misread(py, misfit));
        self.now.with(|it| {
            it.rows = Some(rows);
            it.fault = it.fault.take().or(fault);
        })?;
        Ok(())
    }

    /// What has come of the reply, to be read.
    fn reply(&self, it: &mut Progress) -> Reply<'_> {
        it.bytes = 0;
        let (blocks, columns) = (std::mem::take(&mut it.blocks), it.columns.clone());
        Reply { call: self, blocks, columns, described: it.described.clone() }
    }

    /// The reply is sent again.
    pub(crate) fn restart(&self) -> Option<Py<PyList>> {
        let rows = self.now.with(|it| {
            (it.columns, it.fault) = (None, None);
            it.bytes = 0;
            it.blocks.clear();
            it.rows.take()
        });
        rows.ok().flatten()
    }

    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (reply, rows, failure, fault, number) = self.now.with(|it| {
            it.stage = Stage::Taken;
            let reply = self.reply(it);
            it.columns = None;
            (reply, it.rows.take(), it.failure.take(), it.fault.take(), it.number)
        })?;
        if let Some(failure) = failure {
            return Err(failure.raised(py));
        }
        if let Some(fault) = fault {
            return Err(fault);
        }
        match &self.want {
            Want::Checkout => Ok(number.into_pyobject(py)?.into_any().unbind()),
            Want::Tag => Ok(reply.tag(py)),
            Want::Rows => {
                let rows = rows.unwrap_or_else(|| PyList::empty(py).unbind());
                reply.append(rows.bind(py)).map_err(|misfit| misread(py, misfit))?;
                Ok(rows.into_any())
            }
            Want::Row | Want::Value(_) => reply.first(py).map_err(|misfit| misread(py, misfit)),
            _ => Ok(py.None()),
        }
    }
}

fn misread(py: Python<'_>, misfit: Misfit) -> PyErr {
    let (why, cause) = unreadable(py, misfit);
    let message = format!("a value of the result could not be read: {why}");
    crate::python::error(py, ("conversion", "Applied", &message), None, cause)
}

struct Reply<'a> {
    call: &'a Call,
    blocks: Vec<Bytes>,
    columns: Option<Bytes>,
    described: Option<Arc<Described>>,
}

impl Reply<'_> {
    fn tag(&self, py: Python<'_>) -> Py<PyAny> {
        let done = messages(&self.blocks).filter(|(tag, _)| *tag == backend::COMMAND_COMPLETE);
        match done.last() {
            Some((_, body)) => tag(py, body).into_any().unbind(),
            None => intern!(py, "").clone().into_any().unbind(),
        }
    }

    /// How its rows are read; none where it has none.
    fn columns(&self, py: Python<'_>) -> Result<Option<Arc<Columns>>, Misfit> {
        let (Some(body), Some(described), Some(statement)) =
            (&self.columns, &self.described, &self.call.statement)
        else {
            return Ok(None);
        };
        let types = |oids: &[u32]| self.call.core.get().types_of(oids);
        let columns = statement.get().columns(py, body, described, types)?;
        Ok(Some(columns.ok_or(Misfit::Malformed)?))
    }

    fn bodies(&self) -> impl Iterator<Item = &[u8]> {
        let rows = messages(&self.blocks).filter(|(tag, _)| *tag == backend::DATA_ROW);
        rows.map(|(_, body)| body)
    }

    fn append(&self, to: &Bound<'_, PyList>) -> Result<(), Misfit> {
        let columns = self.columns(to.py())?;
        let row_type = record_type(to.py())?;
        for body in self.bodies() {
            let columns = columns.as_ref().ok_or(Misfit::Malformed)?;
            to.append(columns.row(row_type, body)?)?;
        }
        Ok(())
    }

    /// The first row, or a value of it.
    fn first(&self, py: Python<'_>) -> Result<Py<PyAny>, Misfit> {
        let Some(body) = self.bodies().next() else { return Ok(py.None()) };
        let columns = self.columns(py)?.ok_or(Misfit::Malformed)?;
        let found = match self.call.want {
            Want::Value(place) => columns.value(py, body, place)?,
            _ => columns.row(record_type(py)?, body)?,
        };
        Ok(found.unbind())
    }
}

#[pymethods]
impl Call {
    fn __await__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().now.with(|it| it.is_awaited = true)?;
        Ok(slf)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let (py, it) = (slf.py(), slf.get());
        let (stage, was_woken) = it.now.with(|it| {
            it.is_awaited = true;
            it.future = None;
            (it.stage, std::mem::take(&mut it.is_woken))
        })?;
        let core = it.core.bind(py);
        if was_woken {
            core.get().resumed();
        }
        match stage {
            Stage::Over => Err(PyStopIteration::new_err((it.result(py)?,))),
            Stage::Taken => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
            _ => {
                // Whoever waits has nothing more to send, unless others go on in this turn.
                Core::flush_if_last(core)?;
                if it.is_over() {
                    return Self::__next__(slf);
                }
                let future = core.get().future(py)?;
                let blocking = intern!(py, "_asyncio_future_blocking");
                future.setattr(blocking, true)?;
                it.now.with(|it| it.future = Some(future.clone().unbind()))?;
                Ok(future.unbind())
            }
        }
    }

    fn send(slf: &Bound<'_, Self>, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Self::__next__(slf)
    }

    /// A task that awaits it is cancelled: nobody waits for it any more.
    #[pyo3(signature = (kind, value=None, traceback=None))]
    fn throw(
        slf: &Bound<'_, Self>,
        kind: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        Self::close(slf)?;
        let error = match (value, kind.cast::<PyType>()) {
            (Some(value), _) if !value.is_none() => value.clone(),
            (_, Ok(kind)) => kind.call0()?,
            _ => kind.clone(),
        };
        if let Some(traceback) = traceback.filter(|it| !it.is_none()) {
            error.setattr(intern!(slf.py(), "__traceback__"), traceback)?;
        }
        Err(PyErr::from_value(error))
    }

    /// Nobody waits for it.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let was_woken = slf.get().now.with(|it| {
            it.is_awaited = true;
            it.future = None;
            std::mem::take(&mut it.is_woken)
        })?;
        let core = slf.get().core.bind(slf.py());
        if was_woken {
            core.get().resumed();
        }
        Core::give_up(core, slf)
    }

    #[getter]
    fn cr_running(&self) -> bool {
        false
    }

    /// Whether its transaction is to be run again, since it met others.
    #[getter]
    fn runs_again(&self) -> bool {
        matches!(self.want, Want::Act(_)) && self.now.with(|it| it.number > 0).unwrap_or(false)
    }

    /// Whether it has ended.
    fn done(&self) -> bool {
        self.is_over()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let state = if self.is_over() { "done" } else { "pending" };
        match &self.statement {
            Some(statement) => {
                Ok(format!("<onetrip.Call {state} {}>", statement.get().text.bind(py).repr()?))
            }
            None => Ok(format!("<onetrip.Call {state}>")),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let never = self.now.with(|it| !it.is_awaited && it.stage != Stage::Taken).unwrap_or(false);
        if !never || self.is_own() {
            return;
        }
        Python::attach(|py| {
            let warning = c"an onetrip call was never awaited: it was sent all the same, and nobody has seen whether it failed";
            let kind = py.get_type::<PyRuntimeWarning>();
            if let Err(error) = PyErr::warn(py, &kind, warning, 1) {
                error.write_unraisable(py, None);
            }
        });
    }
}

/// A failure of what was never sent.
pub(crate) fn unsent(code: &'static str, message: impl Into<String>) -> Failure {
    Failure::said(code, outcome::NOT_SENT, message)
}
