//! What a text takes and returns: the server is asked once, and what was learned is remembered for
//! all connections. So is what it says of types that are not built in.

use bytes::Bytes;
use onetrip_abi::completion::outcome;
use onetrip_abi::host::flag;
use onetrip_postgres::client::types::catalog::Description;
use onetrip_postgres::message::tag::backend;
use pyo3::prelude::*;
use std::sync::Arc;

use crate::call::{Call, Want};
use crate::core::Core;
use crate::failure::Failure;
use crate::messages::messages;
use crate::statement::{Described, Statement, column_types, description_of};

/// Asks what a statement takes, for a call that waits for that, or ahead of one; or for the first in
/// line on the connection `number`.
pub(crate) fn ask(
    core: &Bound<'_, Core>,
    statement: &Bound<'_, Statement>,
    waiting: Option<&Bound<'_, Call>>,
    number: u32,
) -> PyResult<()> {
    let of = statement.get();
    if number == 0 {
        let was_asked = of.known.with(|it| {
            it.waiting.extend(waiting.map(|call| call.clone().unbind()));
            std::mem::replace(&mut it.is_asked, true)
        })?;
        if was_asked {
            return Ok(());
        }
    }
    let want = Want::Description(statement.clone().unbind());
    let call = own(core, want, statement, flag::DESCRIBE)?;
    Core::run(core, |state, py, now| match number {
        0 => {
            state.asked += 1;
            state.place(py, now, &call);
        }
        number => state.send_own(py, now, number, &call),
    })
}

fn own<'py>(
    core: &Bound<'py, Core>,
    want: Want,
    statement: &Bound<'py, Statement>,
    flags: u32,
) -> PyResult<Bound<'py, Call>> {
    let statement = Some(statement.clone().unbind());
    Bound::new(core.py(), Call::new(core.clone().into_any().unbind(), want, statement, flags, None))
}

/// A question of the client's own was answered, or will not be.
pub(crate) fn step(core: &Bound<'_, Core>, call: &Bound<'_, Call>) -> PyResult<()> {
    let it = call.get();
    let (blocks, failure, number) =
        it.now.with(|it| (std::mem::take(&mut it.blocks), it.failure.take(), it.number))?;
    match &it.want {
        Want::Description(statement) => {
            let statement = statement.bind(core.py());
            if let Some(failure) = failure {
                return failed(core, statement, &failure, number);
            }
            let Some((parameters, row)) = description_of(&blocks) else {
                const WHY: &str = "the server's description of the statement can't be read";
                return failed(
                    core,
                    statement,
                    &Failure::said("protocol", outcome::NOT_SENT, WHY),
                    number,
                );
            };
            let missing = core
                .get()
                .state
                .with(|s| s.types.missing(&[&parameters[..], &column_types(&row)].concat()))?;
            match missing.is_empty() {
                true => learned(core, statement, parameters, row, number),
                false => ask_types(core, statement, (parameters, row), missing, number),
            }
        }
        // Types that could not be asked for are known by their numbers.
        Want::Types(statement, parameters, row) => {
            learn(core, &blocks)?;
            learned(core, statement.bind(core.py()), parameters.clone(), row.clone(), number)
        }
        _ => Ok(()),
    }
}

fn learn(core: &Bound<'_, Core>, blocks: &[Bytes]) -> PyResult<()> {
    let rows = messages(blocks).filter(|(tag, _)| *tag == backend::DATA_ROW);
    let found: Vec<_> = rows.filter_map(|(_, body)| described(body)).collect();
    let now = core.get().time();
    Ok(core.get().state.with(|state| state.types.learn(now, found))?)
}

fn described(body: &[u8]) -> Option<Description> {
    let row = onetrip_postgres::message::DataRow::decode(body).ok()?;
    let values: Vec<_> = row.values.collect();
    Description::read(|place| values.get(place).copied().flatten())
}

fn ask_types(
    core: &Bound<'_, Core>,
    statement: &Bound<'_, Statement>,
    (parameters, row): (Vec<u32>, Bytes),
    missing: Vec<u32>,
    number: u32,
) -> PyResult<()> {
    let want = Want::Types(statement.clone().unbind(), parameters, row);
    question(core, want, statement, &missing, number)
}

fn question(
    core: &Bound<'_, Core>,
    want: Want,
    statement: &Bound<'_, Statement>,
    missing: &[u32],
    number: u32,
) -> PyResult<()> {
    let call = own(core, want, statement, flag::BINARY | flag::UNPREPARED)?;
    let request = array_of(missing);
    let asked = Arc::new(Described { id: 1, oids: vec![1028], ..Described::default() });
    call.get().now.with(|it| it.requests = vec![(None, asked, request, Vec::new())])?;
    Core::run(core, |state, py, now| match number {
        0 => state.place(py, now, &call),
        number => state.send_own(py, now, number, &call),
    })
}

fn learned(
    core: &Bound<'_, Core>,
    statement: &Bound<'_, Statement>,
    parameters: Vec<u32>,
    row: Bytes,
    number: u32,
) -> PyResult<()> {
    let described = core.get().state.with(|state| {
        state.ids += 1;
        Described::new(state.ids, parameters, row, &state.types)
    })?;
    let waiting = statement.get().known.with(|it| {
        it.described = Some(Arc::new(described));
        it.is_asked = false;
        std::mem::take(&mut it.waiting)
    })?;
    for call in waiting {
        Core::begin(core, call.bind(core.py()))?;
    }
    Core::run(core, |state, py, now| match number {
        0 => state.told(py, now),
        number => state.answered_own(number),
    })
}

/// Whoever waited hears of it. What they had to send was not.
fn failed(
    core: &Bound<'_, Core>,
    statement: &Bound<'_, Statement>,
    failure: &Failure,
    number: u32,
) -> PyResult<()> {
    let py = core.py();
    let waiting = statement.get().known.with(|it| {
        if number == 0 {
            it.is_asked = false;
            std::mem::take(&mut it.waiting)
        } else {
            Default::default()
        }
    })?;
    let said = |failure: &Failure| match failure.sqlstate() {
        Some(_) => failure.again(py, outcome::REJECTED),
        None => failure.again(py, outcome::NOT_SENT),
    };
    for call in waiting {
        let call = call.into_bound(py);
        Core::run(core, |state, py, _| {
            // The others of its pipeline were not sent; of this one the server has said so.
            if let Want::Calls(parts) = &call.get().want {
                let own =
                    |it: &&Py<Call>| it.get().statement.as_ref().is_some_and(|of| of.is(statement));
                for part in parts.iter().filter(own) {
                    state.finish(py, part, Some(said(failure)));
                }
            }
            state.fail(py, &call, said(failure));
        })?;
    }
    Core::run(core, |state, py, now| {
        if number == 0 {
            return state.told(py, now);
        }
        state.fail_front(py, number, said(failure));
        state.answered_own(number);
    })
}

/// The one parameter of a question for types: an array of their numbers, in binary form.
fn array_of(oids: &[u32]) -> Vec<u8> {
    let mut array = Vec::new();
    let mut put = |word: u32| array.extend_from_slice(&word.to_be_bytes());
    [1, 0, 26, oids.len() as u32, 1].into_iter().for_each(&mut put);
    for oid in oids {
        put(4);
        put(*oid);
    }
    let mut request = vec![0, 1, 0, 1, 0, 1];
    request.extend_from_slice(&(array.len() as u32).to_be_bytes());
    request.extend_from_slice(&array);
    request
}
