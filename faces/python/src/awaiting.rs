//! How a call is awaited, and what its awaiter gets.
//!
//! A call has a coroutine's methods, so `create_task`, `gather`, `wait_for` and task groups take
//! it. Whoever awaits one that is not answered yet waits for a future of the event loop.

use std::sync::Arc;

use bytes::Bytes;
use onetrip_arrow::Builder;
use onetrip_client::completion::outcome;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{CommandComplete, DataRow};
use onetrip_postgres::sql::Refusal;
use pyo3::exceptions::{PyBaseException, PyException, PyRuntimeError, PyStopIteration};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple, PyType};

use crate::arrow::Arrow;
use crate::call::{Call, Progress, Stage, Want, Whole, refused};
use crate::core::Core;
use crate::decode::{Columns, Misfit, tag, unreadable};
use crate::describe::{self, Look};
use crate::failure::{Failure, word};
use crate::messages::messages;
use crate::record::record_type;
use crate::state::State;
use crate::statement::{Statement, column_names};
use crate::types;

#[pymethods]
impl Call {
    fn __await__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().now.with(|it| it.is_awaited = true)?;
        Ok(slf)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        let (py, it) = (slf.py(), slf.get());
        let (stage, is_kept, future) = it.now.with(|it| {
            it.is_awaited = true;
            (it.stage, it.is_kept, it.future.take())
        })?;
        if let Some(future) = future
            && !future.call_method0(py, intern!(py, "done"))?.is_truthy(py)?
        {
            it.now.with(|it| it.future = Some(future))?;
            return Err(PyRuntimeError::new_err("coroutine is being awaited already"));
        }
        match stage {
            Stage::Over => returned(py, it.result(py)?),
            Stage::Taken => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
            // Whoever awaits it in its block keeps the block from its end.
            Stage::Made if is_kept => Err(refused(Refusal::AwaitedEarly).raised(py)),
            _ => {
                let core = it.holder(py)?;
                core.get().state.with(State::waits)?;
                let future = core.get().future(py)?;
                future.setattr(intern!(py, "_asyncio_future_blocking"), true)?;
                it.now.with(|it| it.future = Some(future.clone().unbind()))?;
                Ok(Some(future.unbind()))
            }
        }
    }

    fn send(slf: &Bound<'_, Self>, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Self::__next__(slf)?.ok_or_else(|| PyErr::fetch(slf.py()))
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
        // Whoever is cancelled with it hears that, as far as it is all that he waits for.
        if slf.get().is_unsent()? {
            error.setattr(intern!(slf.py(), "_outcome"), word(outcome::NOT_SENT))?;
        }
        Err(PyErr::from_value(error))
    }

    /// Nobody waits for it.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let core = slf.get().holder(slf.py())?;
        let _turn = core.get().enter(slf.py())?;
        slf.get().resumed()?;
        Core::give_up(&core, slf)?;
        slf.get().left()
    }

    /// An error that another makes of its end knows its transaction, too.
    fn _mark(&self, error: &Bound<'_, PyBaseException>) -> PyResult<()> {
        self.mark(error.py(), error)
    }

    #[getter]
    fn cr_running(&self) -> bool {
        false
    }

    /// Whether it has ended, and nothing of it was sent.
    fn _is_unsent(&self) -> PyResult<bool> {
        self.is_unsent()
    }

    /// Whether its transaction is to be run again, since it met others.
    #[getter]
    fn runs_again(&self) -> bool {
        self.said_of_transaction().runs_again
    }

    /// Whether something of the transaction or savepoint that it ends may have reached the server.
    #[getter]
    fn has_left(&self) -> bool {
        self.said_of_transaction().has_left
    }

    /// Bytes of its command of Redis.
    #[getter]
    fn size(&self) -> usize {
        match &self.want {
            Want::Redis(request) => request.packed.commands().len(),
            _ => 0,
        }
    }

    /// Whether it has ended.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        let core = self.client(py)?;
        let _turn = core.get().enter(py)?;
        Ok(self.is_over())
    }

    /// What is known of it: None until it has ended. So it stays, whoever has had its result.
    fn _known(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        let core = self.client(py)?;
        let _turn = core.get().enter(py)?;
        if !self.is_over() {
            return Ok(None);
        }
        let failed = |it: &mut Progress| it.failure.as_ref().map_or(it.known, Failure::outcome);
        Ok(Some(match self.now.with(failed)? {
            outcome::NONE => word(outcome::APPLIED),
            known => word(known),
        }))
    }

    /// What it is answered by, once it has ended: for who does not await it.
    #[pyo3(name = "result")]
    fn ended(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let (py, it) = (slf.py(), slf.get());
        let core = it.client(py)?;
        let _turn = core.get().enter(py)?;
        let (stage, is_left) = it.now.with(|it| (it.stage, it.is_left))?;
        match stage {
            Stage::Over => {
                it.resumed()?;
                it.result(py)
            }
            Stage::Taken => Err(PyRuntimeError::new_err("the result of this call was taken")),
            _ if is_left => {
                const WHY: &str = "it was given up by its caller before its answer came";
                Err(Failure::said("cancelled", outcome::UNKNOWN, WHY).raised(py))
            }
            _ => Err(PyRuntimeError::new_err(
                "this call has not ended: its result is there behind the block that it is made in",
            )),
        }
    }

    /// Has this called, by `set_result`, when it has ended. Whether it goes on.
    fn _watch(&self, waiter: Option<Py<PyAny>>) -> PyResult<bool> {
        let old = self.now.with(|it| {
            it.is_awaited = true;
            std::mem::replace(&mut it.future, waiter)
        })?;
        drop(old);
        Ok(!self.is_over())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let state = if self.is_over() { "done" } else { "pending" };
        match &self.statement {
            Some(statement) => {
                Ok(format!("<onetrip.Call {state} {}>", statement.get().text.bind(py).repr()?))
            }
            None => match &self.want {
                Want::Redis(request) => Ok(format!("<onetrip.Call {state} {}>", request.name)),
                _ => Ok(format!("<onetrip.Call {state}>")),
            },
        }
    }
}

impl Call {
    fn said_of_transaction(&self) -> Whole {
        self.now.with(|it| it.whole).unwrap_or_default()
    }

    fn is_unsent(&self) -> PyResult<bool> {
        let failure = |it: &mut Progress| it.failure.as_ref().map(Failure::outcome);
        Ok(self.now.with(failure)? == Some(outcome::NOT_SENT))
    }

    /// Who waited for it goes on.
    fn resumed(&self) -> PyResult<()> {
        Ok(self.now.with(|it| {
            it.is_awaited = true;
            it.future = None;
        })?)
    }

    /// Its result is what its answer says, once that has come; and so it is with its parts.
    fn left(&self) -> PyResult<()> {
        let parts = match &self.want {
            Want::Calls(calls) => calls.as_slice(),
            Want::Redis(request) => request.parts.as_slice(),
            _ => &[],
        };
        for part in parts {
            part.get().left()?;
        }
        Ok(self.now.with(|it| it.is_left = true)?)
    }

    pub(crate) fn client<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Core>> {
        Ok(self.core.bind(py).clone().cast_into::<Core>()?)
    }

    /// The client that has it at present: a read may be with that of a replica.
    fn holder<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Core>> {
        let holder = self.now.with(|it| it.holder.as_ref().map(|core| core.clone_ref(py)));
        match holder {
            Ok(Some(core)) => Ok(core.into_bound(py).cast_into::<Core>()?),
            _ => self.client(py),
        }
    }

    /// A part of a long result has come: its rows are made now, so that what was received can be
    /// used again while it is in the cache.
    pub(crate) fn read_early(&self, py: Python<'_>) -> PyResult<()> {
        // Otherwise it waits until it is complete, and is looked at then.
        if !matches!(describe::look(&self.client(py)?, self)?, Look::Right) {
            return Ok(());
        }
        if matches!(self.want, Want::Arrow) {
            let (reply, table) = self.now.with(|it| (self.reply(it), it.table.take()))?;
            let (table, fault) = match reply.table(table) {
                Ok(table) => (table, None),
                Err(misfit) => (None, Some(misread(py, misfit))),
            };
            return Ok(self.now.with(|it| {
                it.table = table;
                it.fault = it.fault.take().or(fault);
            })?);
        }
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
    pub(crate) fn reply(&self, it: &mut Progress) -> Reply<'_> {
        it.bytes = 0;
        let (blocks, readers) = (std::mem::take(&mut it.blocks), it.readers.clone());
        Reply { call: self, blocks, readers }
    }

    /// The result, or an error that knows its transaction: where that is rolled back, it is said of
    /// the error that leaves its block.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.read(py)
            .map_err(|error| self.mark(py, error.value(py)).map_or_else(|why| why, |()| error))
    }

    fn mark(&self, py: Python<'_>, error: &Bound<'_, PyBaseException>) -> PyResult<()> {
        if self.part_of == 0 || !error.hasattr(intern!(py, "outcome"))? {
            return Ok(());
        }
        error.setattr(intern!(py, "_part_of"), (self.core.bind(py).as_ptr() as usize, self.part_of))
    }

    fn read(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (reply, args, rows, table, failure, fault, number) = self.now.with(|it| {
            it.stage = Stage::Taken;
            let reply = self.reply(it);
            (it.columns, it.readers) = (None, None);
            let (args, rows, table) = (it.args.take(), it.rows.take(), it.table.take());
            it.known = it.failure.as_ref().map_or(outcome::NONE, Failure::outcome);
            (reply, args, rows, table, it.failure.take(), it.fault.take(), it.number)
        })?;
        drop(args);
        if let Some(failure) = failure {
            // Those before the one that failed were answered; of what can't be encoded the place
            // is known.
            let index = match (&failure, number) {
                (Failure::Server { .. }, _) => Some(reply.all_tags().count()),
                (_, 0) => None,
                (_, number) => Some(number as usize - 1),
            };
            let error = failure.raised(py);
            if let (Want::Parts(sets, _), Some(index)) = (&self.want, index)
                && index < sets.len()
            {
                error.value(py).setattr(intern!(py, "index"), index)?;
            }
            return Err(error);
        }
        if let Some(fault) = fault {
            return Err(fault);
        }
        match &self.want {
            Want::Checkout => Ok(number.into_pyobject(py)?.into_any().unbind()),
            Want::Redis(request) => request.read(py, &reply.blocks),
            // What stands behind it is its guard's.
            Want::CopyIn(_) => Ok(match reply.tags().next() {
                Some(body) => tag(py, body).into_any().unbind(),
                None => reply.tag(py),
            }),
            Want::Tag | Want::CopyOut | Want::Script => Ok(reply.tag(py)),
            Want::Attributes => attributes(py, self.statement.as_ref()),
            Want::Both => {
                let rows = rows.unwrap_or_else(|| PyList::empty(py).unbind());
                reply.append(rows.bind(py)).map_err(|misfit| misread(py, misfit))?;
                Ok((rows, reply.tag(py)).into_pyobject(py)?.into_any().unbind())
            }
            Want::Arrow => {
                let table = reply.table(table).map_err(|misfit| misread(py, misfit))?;
                Ok(Arrow::new(table.map(|it| *it)).into_pyobject(py)?.into_any().unbind())
            }
            Want::Rows | Want::Parts(_, true) | Want::Portal(_) => {
                let rows = rows.unwrap_or_else(|| PyList::empty(py).unbind());
                reply.append(rows.bind(py)).map_err(|misfit| misread(py, misfit))?;
                Ok(rows.into_any())
            }
            Want::Head => {
                let row = reply.first(py).map_err(|misfit| misread(py, misfit))?;
                let rows = PyList::empty(py);
                if !row.is_none(py) {
                    rows.append(row)?;
                }
                Ok(rows.into_any().unbind())
            }
            Want::Parts(_, false) => {
                let rows = reply.tags().filter_map(|tag| CommandComplete::decode(tag).ok()?.rows());
                Ok(rows.sum::<u64>().into_pyobject(py)?.into_any().unbind())
            }
            Want::Texts => reply.texts(py),
            Want::Row | Want::Value(_) => reply.first(py).map_err(|misfit| misread(py, misfit)),
            _ => Ok(py.None()),
        }
    }
}

/// Ends a coroutine that returns this, by a StopIteration. Where the interpreter can tell the value
/// from the exception's arguments, none is made: that costs more than the rest.
#[allow(unsafe_code)]
fn returned(py: Python<'_>, value: Py<PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let it = value.bind(py);
    if it.is_instance_of::<PyTuple>() || it.is_instance_of::<PyBaseException>() {
        return Err(PyStopIteration::new_err((value,)));
    }
    // SAFETY: both are objects that live. `__next__` returns nothing then, which leaves the
    // exception as it was set here.
    unsafe { pyo3::ffi::PyErr_SetObject(pyo3::ffi::PyExc_StopIteration, it.as_ptr()) };
    Ok(None)
}

/// The types of a statement's parameters, and names and types of its columns. A type is its number,
/// name, kind and schema.
fn attributes(py: Python<'_>, statement: Option<&Py<Statement>>) -> PyResult<Py<PyAny>> {
    let described = statement.and_then(|it| it.get().described());
    let (mut parameters, mut columns) = (Vec::new(), Vec::new());
    if let Some(described) = described {
        parameters.extend(described.types.iter().map(|type_| types::told(type_)));
        let types = described.columns.iter().map(|type_| types::told(type_));
        columns.extend(column_names(&described.row).into_iter().zip(types));
    }
    Ok((parameters, columns).into_pyobject(py)?.into_any().unbind())
}

pub(crate) fn misread(py: Python<'_>, misfit: Misfit) -> PyErr {
    let misfit = match misfit {
        // What is no Exception, as KeyboardInterrupt, is not about the value.
        Misfit::Python(error) if !error.is_instance_of::<PyException>(py) => return *error,
        misfit => misfit,
    };
    let (why, cause) = unreadable(py, misfit);
    let message = format!("a value of the result could not be read: {why}");
    crate::python::error(py, ("conversion", "Applied", &message), None, cause)
}

/// From so many bytes of rows on, texts that come again are looked for.
const LONG_BYTES: usize = 4096;

/// A reply, or the part of it that has come.
pub(crate) struct Reply<'a> {
    call: &'a Call,
    pub(crate) blocks: Vec<Bytes>,
    /// How its rows are read; none where it has none.
    readers: Option<Arc<Columns>>,
}

impl Reply<'_> {
    /// Of each statement that has ended, with that of a guard.
    fn all_tags(&self) -> impl Iterator<Item = &[u8]> {
        let done = messages(&self.blocks).filter(|(tag, _)| *tag == backend::COMMAND_COMPLETE);
        done.map(|(_, body)| body)
    }

    /// Of each statement of a reply that is complete.
    fn tags(&self) -> impl Iterator<Item = &[u8]> {
        // That of a guard is the last.
        let is_guarded = self.call.now.with(|it| it.by_names != (false, false)).unwrap_or(false);
        let count = if is_guarded { self.all_tags().count().saturating_sub(1) } else { usize::MAX };
        self.all_tags().take(count)
    }

    fn tag(&self, py: Python<'_>) -> Py<PyAny> {
        match self.tags().last() {
            Some(body) => tag(py, body).into_any().unbind(),
            None => intern!(py, "").clone().into_any().unbind(),
        }
    }

    fn row_type<'py>(&'py self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyType>> {
        match &self.call.record {
            Some(record) => Ok(record.bind(py)),
            None => record_type(py),
        }
    }

    pub(crate) fn bodies(&self) -> impl Iterator<Item = &[u8]> {
        let rows = messages(&self.blocks).filter(|(tag, _)| *tag == backend::DATA_ROW);
        rows.map(|(_, body)| body)
    }

    pub(crate) fn append(&self, to: &Bound<'_, PyList>) -> Result<(), Misfit> {
        let columns = &self.readers;
        let row_type = self.row_type(to.py())?;
        let into = self.call.into.as_ref().map(|into| into.bind(to.py()));
        let is_long = self.blocks.iter().map(Bytes::len).sum::<usize>() > LONG_BYTES;
        let of = columns.as_ref().filter(|_| is_long);
        let mut seen = of.map_or_else(Vec::new, |columns| columns.seen());
        for body in self.bodies() {
            let columns = columns.as_ref().ok_or(Misfit::Malformed)?;
            to.append(match into {
                None => columns.row(row_type, body, &mut seen)?,
                Some(into) => columns.row_as(into, body, &mut seen)?,
            })?;
        }
        Ok(())
    }

    /// Adds the rows to a table of Arrow; none where there are no columns.
    fn table(&self, table: Option<Box<Builder>>) -> Result<Option<Box<Builder>>, Misfit> {
        let Some(mut table) = table else { return Ok(None) };
        for body in self.bodies() {
            table.append(body)?;
        }
        Ok(Some(table))
    }

    /// The values of the first row, which are texts.
    fn texts(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let row = self.bodies().next().and_then(|body| DataRow::decode(body).ok());
        let text =
            |value: Option<&[u8]>| value.map(|value| String::from_utf8_lossy(value).into_owned());
        let texts: Vec<Option<String>> =
            row.into_iter().flat_map(|row| row.values).map(text).collect();
        Ok(texts.into_pyobject(py)?.into_any().unbind())
    }

    /// The first row, or a value of it.
    fn first(&self, py: Python<'_>) -> Result<Py<PyAny>, Misfit> {
        let Some(body) = self.bodies().next() else { return Ok(py.None()) };
        let columns = self.readers.as_ref().ok_or(Misfit::Malformed)?;
        let found = match self.call.want {
            Want::Value(place) => columns.value(py, body, place)?,
            _ => match &self.call.into {
                None => columns.row(self.row_type(py)?, body, &mut [])?,
                Some(into) => columns.row_as(into.bind(py), body, &mut [])?,
            },
        };
        Ok(found.unbind())
    }
}
