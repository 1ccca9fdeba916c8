//! Replies that are taken as they come, and the data of a COPY. `onetrip/_flow.py` drives them.

use onetrip_client::completion::outcome;
use onetrip_client::postgres::Part;
use onetrip_postgres::client::copy;
use onetrip_postgres::client::stream::Rest;
use onetrip_postgres::client::types::kinds;
use onetrip_postgres::message::tag::backend;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::awaiting::misread;
use crate::call::{Call, Progress, Stage, Want};
use crate::core::Core;
use crate::describe::{self, Look};
use crate::failure::Failure;
use crate::messages::messages;
use crate::state::State;

/// Looks at rows of a stream before they are read. Its connection is busy with it, so what else there
/// is to know can't be asked there, and others may wait for it.
fn look_at(core: &Bound<'_, Core>, call: &Bound<'_, Call>) -> PyResult<()> {
    let it = call.get();
    let place = match describe::look(core, it)? {
        Look::Right => return Ok(()),
        Look::Misfit(place) => place,
        Look::Unknown(oids) => describe::place_of(it, &oids)?,
        Look::Altered(oids) => describe::place_of(it, &describe::altered(core, it, &oids)?)?,
    };
    core.get().state.with(|state| state.generation.has_changed())?;
    Err(describe::misfit(core, it, place)?.raised(call.py()))
}

/// Whether a stream of which no row was read may be sent again, as its text is by now.
#[pyfunction]
pub(crate) fn may_go_again(call: &Bound<'_, Call>) -> bool {
    call.get().statement.as_ref().is_some_and(|it| it.get().is_plain_read)
}

/// What has come of a reply since this was asked last: rows as a list, or the data of a COPY.
#[pyfunction]
pub(crate) fn take(call: &Bound<'_, Call>) -> PyResult<Py<PyAny>> {
    let (py, it) = (call.py(), call.get());
    let core = it.client(py)?;
    if matches!(it.want, Want::Stream) {
        look_at(&core, call)?;
    }
    let (reply, bytes, stage) = it.now.with(|now| {
        now.is_told = false;
        let bytes = now.bytes;
        (it.reply(now), bytes, now.stage)
    })?;
    // The server goes on while these rows are looked at. Of one that has ended nothing is owed.
    if let (Stage::Sent(number, ..), 1..) = (stage, bytes) {
        Core::run(&core, |state, py, now| state.taken(py, now, number, bytes))?;
    }
    if matches!(it.want, Want::Stream) {
        let bytes_max = core.get().state.with(|state| state.result_bytes_max)?;
        if reply.bodies().any(|row| row.len() > bytes_max) {
            const WHY: &str = "a row of the stream is larger than result_bytes_max";
            return Err(Failure::said("result_too_large", outcome::APPLIED, WHY).raised(py));
        }
        let rows = PyList::empty(py);
        reply.append(&rows).map_err(|misfit| misread(py, misfit))?;
        return Ok(rows.into_any().unbind());
    }
    let done = messages(&reply.blocks).find(|(tag, _)| *tag == backend::COMMAND_COMPLETE);
    if let Some((tag, body)) = done {
        // The end of the call tells it.
        let len = (body.len() as u32 + 4).to_be_bytes();
        let message = [&[tag], &len[..], body].concat();
        it.now.with(|now| (now.blocks, now.is_all_taken) = (vec![message.into()], true))?;
    }
    let data = messages(&reply.blocks).filter(|(tag, _)| *tag == backend::COPY_DATA);
    let data: Vec<_> = data.map(|(_, data)| data).collect();
    Ok(PyBytes::new(py, &data.concat()).into_any().unbind())
}

/// A future that is done once more has come, more is taken, or it has ended; None where that is so
/// already.
#[pyfunction]
pub(crate) fn arrived(call: &Bound<'_, Call>) -> PyResult<Option<Py<PyAny>>> {
    let (py, it) = (call.py(), call.get());
    let core = it.client(py)?;
    core.get().state.with(State::waits)?;
    // The first answer to a COPY that takes data says nothing of whether it takes more.
    let takes = !matches!(it.want, Want::CopyIn(_));
    let has_come = |now: &mut Progress| takes && !now.is_all_taken && !now.blocks.is_empty();
    if it.is_over() || it.now.with(|now| now.is_told || has_come(now))? {
        return Ok(None);
    }
    let future = core.get().future(py)?.unbind();
    it.now.with(|now| now.future = Some(future.clone_ref(py)))?;
    Ok(Some(future))
}

/// Whether rows of a binary COPY may have been written as the table is no more, where the server says
/// so.
#[pyfunction]
pub(crate) fn copy_may_be_outdated(sqlstate: &str) -> bool {
    copy::may_be_outdated(sqlstate)
}

/// Whether it says that they are for certain.
#[pyfunction]
pub(crate) fn copy_types_changed(sqlstate: &str, message: &str) -> bool {
    copy::types_changed(sqlstate, message)
}

/// Whether a type that is built in has this name.
#[pyfunction]
pub(crate) fn is_type(name: &Bound<'_, PyString>) -> bool {
    name.to_str().is_ok_and(kinds::is_name_built_in)
}

/// Hands over data of a COPY, its end (None), or why there is no more (a str). Whether it was
/// taken.
#[pyfunction]
pub(crate) fn feed(call: &Bound<'_, Call>, data: &Bound<'_, PyAny>) -> PyResult<bool> {
    let it = call.get();
    let core = it.client(call.py())?;
    let stage = it.now.with(|now| {
        now.is_told = false;
        now.stage
    })?;
    let Stage::Sent(number, token, _) = stage else { return Ok(false) };
    let part = match (data.cast::<PyBytes>(), data.extract::<&str>()) {
        (Ok(data), _) => Part::Data(data.as_bytes()),
        (_, Ok(reason)) => Part::Failed(reason),
        _ if data.is_none() => Part::Done,
        _ => return Err(PyTypeError::new_err("the data of a COPY is bytes")),
    };
    Core::run(&core, |state, py, now| state.feed(py, now, (number, token), part))
}

/// Nobody takes more of it. `rest`: what becomes of the rest.
#[pyfunction]
pub(crate) fn leave(call: &Bound<'_, Call>, rest: &str) -> PyResult<()> {
    let it = call.get();
    let core = it.client(call.py())?;
    let stage = it.now.with(|now| now.stage)?;
    // Whoever reads it in another task goes on, and sees that.
    Core::run(&core, |state, _, _| state.wake(call.as_unbound()))?;
    it.now.with(|now| now.is_told = false)?;
    // Its transaction is rolled back, so that a cancel does no harm.
    let stops = rest == "undo";
    let rest = match rest {
        "read" => Rest::Read,
        "cancel" => Rest::Cancel,
        "close" => Rest::CLOSE,
        "undo" => Rest::Read,
        _ => Rest::CANCEL_OR_CLOSE,
    };
    match stage {
        Stage::Sent(number, token, ticket) => Core::run(&core, |state, py, now| {
            state.abandon(py, now, (number, token, ticket), rest, stops);
        }),
        _ => Core::give_up(&core, call),
    }
}
