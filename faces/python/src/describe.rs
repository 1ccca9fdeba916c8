//! What a text takes and returns: the server is asked once, and what was learned is remembered for
//! all connections. So is what it says of types that are not built in.

use bytes::Bytes;
use onetrip_arrow::Builder;
use onetrip_client::completion::outcome;
use onetrip_client::flag;
use onetrip_engine::{Outcome, Time};
use onetrip_postgres::client::types::catalog::Description;
use onetrip_postgres::client::types::fit::{Fit, fit};
use onetrip_postgres::client::types::look_up::{TRIES_MAX, Unanswered, unanswered};
use onetrip_postgres::client::{first_use, migrated};
use onetrip_postgres::message::tag::backend;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::slice;
use std::sync::Arc;

use crate::call::{Call, Want};
use crate::core::Core;
use crate::decode::{Columns, Misfit};
use crate::failure::Failure;
use crate::messages::messages;
use crate::state::State;
use crate::statement::{Described, Statement, column_names, column_types, description_of};
use crate::types::Type;

/// Asks what a statement takes, for a call that waits for that, or ahead of one; or for the first in
/// line on the connection `number`.
pub(crate) fn ask(
    core: &Bound<'_, Core>,
    statement: &Bound<'_, Statement>,
    waiting: Option<&Bound<'_, Call>>,
    number: u32,
) -> PyResult<()> {
    let want = || Want::Description(statement.clone().unbind());
    if number != 0 {
        let call = own(core, want(), statement, flag::DESCRIBE)?;
        return Core::run(core, |state, py, now| state.send_own(py, now, number, &call));
    }
    let now = core.get().time();
    let (asks, oldest) = statement.get().known.with(|it| {
        it.waiting.extend(waiting.map(|call| call.clone().unbind()));
        let asks = first_use::asks(it.asking.last().map(|(at, _)| now.since(*at)));
        let is_full = asks && it.asking.len() >= first_use::ASKED_MAX;
        (asks, is_full.then(|| it.asking.remove(0)))
    })?;
    take_back(core, oldest)?;
    if !asks {
        return Ok(());
    }
    let call = own(core, want(), statement, flag::DESCRIBE)?;
    statement.get().known.with(|it| it.asking.push((now, call.clone().unbind())))?;
    Core::run(core, |state, py, now| {
        state.asked += 1;
        state.place(py, now, &call);
    })
}

/// A caller has gone. What nobody else waits for is asked no more.
pub(crate) fn left(core: &Bound<'_, Core>, call: &Bound<'_, Call>) -> PyResult<()> {
    for statement in Core::unknown(call)? {
        let (gone, questions) = statement.get().known.with(|it| {
            let of = std::mem::take(&mut it.waiting);
            let (gone, waiting): (VecDeque<_>, _) =
                of.into_iter().partition(|it| it.get().is_over());
            it.waiting = waiting;
            let questions = it.waiting.is_empty().then(|| std::mem::take(&mut it.asking));
            (gone, questions)
        })?;
        drop(gone);
        take_back(core, questions.into_iter().flatten())?;
    }
    Ok(())
}

fn take_back(
    core: &Bound<'_, Core>,
    questions: impl IntoIterator<Item = (Time, Py<Call>)>,
) -> PyResult<()> {
    let mut questions = questions.into_iter();
    questions.try_for_each(|(_, call)| Core::give_up(core, call.bind(core.py())))
}

/// Whether a question was still wanted, which is open no more.
fn close(statement: &Bound<'_, Statement>, call: &Bound<'_, Call>) -> PyResult<bool> {
    let closed = statement.get().known.with(|it| {
        let at = it.asking.iter().position(|(_, asked)| asked.is(call));
        at.map(|at| it.asking.remove(at))
    })?;
    Ok(closed.is_some())
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
            let is_wanted = number != 0 || close(statement, call)?;
            if let Some(failure) = failure {
                return match is_wanted {
                    true => failed(core, statement, &failure, number),
                    false => Core::run(core, State::told),
                };
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
        Want::TypesOf(call, of, is_in_transaction) => {
            let call = call.bind(core.py());
            call.get().now.with(|it| it.question.take())?;
            match failure {
                None => {
                    learn(core, &blocks)?;
                    for part in parts_of(call) {
                        part.get().now.with(|it| it.is_told_types = true)?;
                    }
                }
                Some(failure) => {
                    lost_of_reply(core, call, (failure, number), *is_in_transaction)?;
                }
            }
            Core::run(core, |state, py, now| match number {
                0 => state.told(py, now),
                number => state.answered_own(number),
            })?;
            check(core, call, *of)
        }
        Want::Types(statement, parameters, row) => {
            let statement = statement.bind(core.py());
            let is_wanted = number != 0 || close(statement, call)?;
            if let Some(failure) = failure {
                let described = (parameters.clone(), row.clone());
                return match is_wanted {
                    true => lost(core, statement, described, (&failure, number)),
                    false => Core::run(core, State::told),
                };
            }
            learn(core, &blocks)?;
            learned(core, statement, parameters.clone(), row.clone(), number)
        }
        _ => Ok(()),
    }
}

/// The types in a description were asked for in vain.
fn lost(
    core: &Bound<'_, Core>,
    statement: &Bound<'_, Statement>,
    (parameters, row): (Vec<u32>, Bytes),
    (failure, number): (&Failure, u32),
) -> PyResult<()> {
    if unanswered(failure.sqlstate()) != Unanswered::Refused {
        return failed(core, statement, failure, number);
    }
    // The refusal has ended the transaction, of which the caller has to hear the reason. Others,
    // and the next one, do without.
    if status(core, number)? == Some(b'E') {
        remember(core, statement, parameters, row)?;
        return failed(core, statement, failure, number);
    }
    learned(core, statement, parameters, row, number)
}

/// The types in the reply to a call were asked for in vain, on the connection `number` if that is
/// its caller's. It has run.
fn lost_of_reply(
    core: &Bound<'_, Core>,
    call: &Bound<'_, Call>,
    (failure, number): (Failure, u32),
    is_in_transaction: bool,
) -> PyResult<()> {
    let asked = call.get().now.with(|it| it.asked)?;
    if number == 0 && failure.is_loss() && asked < TRIES_MAX {
        // Another connection can say it as well: `check` asks once more.
        return Ok(());
    }
    let status = status(core, number)?;
    let has_ended = status == Some(b'E');
    let outcome = match status {
        // It is undone with the transaction that the question has ended.
        Some(b'E') => outcome::REJECTED,
        // Its COMMIT may have been on its way.
        None if is_in_transaction => outcome::UNKNOWN,
        _ => outcome::APPLIED,
    };
    let means = unanswered(failure.sqlstate());
    for part in parts_of(call).iter().map(Py::get).filter(|part| part.reads_rows()) {
        let needs = matches!(look(&part.client(core.py())?, part)?, Look::Unknown(_));
        part.now.with(|it| {
            it.is_told_types = true;
            it.is_untold = means != Unanswered::Refused;
        })?;
        // What is refused is so the next time as well, and then not asked for.
        let goes_on = match means {
            Unanswered::Aborted => true,
            Unanswered::Refused if needs => {
                look(&part.client(core.py())?, part)?;
                !has_ended
            }
            Unanswered::Refused | Unanswered::Lost => !needs,
        };
        if !goes_on {
            let failure = failure.again(core.py(), outcome);
            part.now.with(|it| it.unanswered = Some(Box::new(failure)))?;
        }
    }
    Ok(())
}

/// The status of the transaction on a connection that one caller has; none of one that has ended.
fn status(core: &Bound<'_, Core>, number: u32) -> PyResult<Option<u8>> {
    let of = |state: &mut State| {
        let is_there = state.links.get(&number).is_some_and(|link| !link.is_over);
        state.status(number).bytes().next().filter(|_| is_there)
    };
    Ok(core.get().state.with(of)?)
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

/// What is known of the rows of a reply before they are read.
pub(crate) enum Look {
    /// They can be read.
    Right,
    /// The server is to be asked what these types are.
    Unknown(Vec<u32>),
    /// It is to be asked again what these are, one of which was altered.
    Altered(Vec<u32>),
    /// The column at this place came in a form in which its type is not read.
    Misfit(usize),
}

/// Looks at what has come of a reply. The types of its client are those by which it is read.
pub(crate) fn look(client: &Bound<'_, Core>, call: &Call) -> PyResult<Look> {
    let (py, is_arrow) = (client.py(), matches!(call.want, Want::Arrow));
    let (columns, described, is_told, is_untold, is_made) = call.now.with(|it| {
        let is_made = if is_arrow { it.table.is_some() } else { it.readers.is_some() };
        (it.columns.clone(), it.described.clone(), it.is_told_types, it.is_untold, is_made)
    })?;
    let (Some(body), Some(described), Some(statement)) = (columns, described, &call.statement)
    else {
        return Ok(Look::Right);
    };
    let oids = column_types(&body);
    let reads = if is_arrow { onetrip_arrow::format } else { Type::format };
    let asked = if is_arrow { &described.of_arrow } else { &described.formats };
    if !is_made {
        let now = client.get().time();
        let (fit, types) = client.get().state.with(|state| {
            // The connection of a stream is busy with it.
            let old = match is_told || call.flows() {
                true => Vec::new(),
                false => state.types.old(now, &oids),
            };
            if !old.is_empty() {
                return (Fit::Unknown(old), Vec::new());
            }
            let types: Vec<_> = oids.iter().map(|oid| state.types.get(*oid)).collect();
            (fit(&state.types, (&oids, asked), is_told, reads), types)
        })?;
        match fit {
            Fit::Unknown(oids) => return Ok(Look::Unknown(oids)),
            Fit::Misfit(place) => return Ok(Look::Misfit(place)),
            Fit::Fits if is_arrow => {
                let table = Builder::new::<Misfit>(&body, |_| Ok(types)).ok();
                call.now.with(|it| it.table = table.map(Box::new))?;
                return Ok(Look::Right);
            }
            Fit::Fits => {
                if let Some(columns) = Columns::read(py, &body, types, asked)?.map(Arc::new) {
                    if !is_untold {
                        drop(statement.get().keep_columns(&body, &described, &columns)?);
                    }
                    call.now.with(|it| it.readers = Some(columns))?;
                }
            }
        }
    }
    let (readers, blocks) = call.now.with(|it| {
        let walked = it.readers.clone().filter(|it| it.has_composites());
        let blocks = if walked.is_some() { it.blocks.clone() } else { Vec::new() };
        (walked, blocks)
    })?;
    let rows = messages(&blocks).filter(|(tag, _)| *tag == backend::DATA_ROW);
    let outdated = readers.and_then(|it| it.outdated(rows.map(|(_, body)| body)));
    Ok(match outdated {
        None => Look::Right,
        // It has changed once more since its rows were made.
        Some(place) if is_told => Look::Misfit(place),
        Some(_) => Look::Altered(oids),
    })
}

/// Looks at the rows of what was answered on the connection `number`, and ends it once they can be
/// read; or it is sent again, or fails.
pub(crate) fn check(core: &Bound<'_, Core>, call: &Bound<'_, Call>, number: u32) -> PyResult<()> {
    let (py, it) = (core.py(), call.get());
    if it.is_over() {
        return Ok(());
    }
    let client = it.client(py)?;
    let parts = parts_of(call);
    let mut unknown = Vec::new();
    for part in parts.iter().filter(|part| part.get().reads_rows()) {
        let (unanswered, is_untold) =
            part.get().now.with(|it| (it.unanswered.take(), it.is_untold))?;
        if let Some(failure) = unanswered {
            // What it returns may be something else by now, so the next use asks for that as well.
            part.get().statement.iter().filter(|_| is_untold).for_each(|it| it.get().forget());
            part.get().now.with(|it| it.failure = Some(*failure))?;
            continue;
        }
        let failure = match look(&client, part.get())? {
            Look::Right => continue,
            Look::Unknown(oids) => {
                unknown.extend(oids);
                continue;
            }
            Look::Altered(oids) => {
                unknown.extend(altered(&client, part.get(), &oids)?);
                continue;
            }
            // It may be what it was: nobody could be asked.
            Look::Misfit(_) if is_untold => Failure::rolled_back(),
            Look::Misfit(place) => misfit(&client, part.get(), place)?,
        };
        let goes_again = it.is_one()
            && Core::run(core, |state, py, _| {
                let call = call.as_unbound();
                let goes_again = state.may_go_again(call, number, Outcome::Applied);
                if goes_again {
                    state.send_again(py, (call, number), None);
                }
                goes_again
            })?;
        if goes_again {
            return Ok(());
        }
        client.get().state.with(|state| state.generation.has_changed())?;
        part.get().now.with(|it| it.failure = Some(failure))?;
    }
    if !unknown.is_empty() {
        unknown.sort_unstable();
        unknown.dedup();
        let number = if core.is(&client) { number } else { 0 };
        return ask_types_of(&client, call, &unknown, number);
    }
    Core::run(core, |state, py, _| {
        parts.iter().for_each(|part| state.finish(py, part, None));
        state.finish(py, call.as_unbound(), None);
    })
}

/// The statements of a call.
fn parts_of<'a>(call: &'a Bound<'_, Call>) -> &'a [Py<Call>] {
    match &call.get().want {
        Want::Calls(parts) => parts,
        _ => slice::from_ref(call.as_unbound()),
    }
}

/// What is to be asked of these types, which were altered: all that is known of them is forgotten.
pub(crate) fn altered(client: &Bound<'_, Core>, call: &Call, oids: &[u32]) -> PyResult<Vec<u32>> {
    let old = call.now.with(|it| it.readers.take())?;
    drop(old);
    if let Some(statement) = &call.statement {
        statement.get().forget();
    }
    Ok(client.get().state.with(|state| {
        oids.iter().for_each(|oid| state.types.forget(*oid));
        state.generation.has_changed();
        state.types.missing(oids)
    })?)
}

/// The place of the first column of one of these types.
pub(crate) fn place_of(call: &Call, oids: &[u32]) -> PyResult<usize> {
    let body = call.now.with(|it| it.columns.clone())?.unwrap_or_default();
    let place = column_types(&body).iter().position(|oid| oids.contains(oid));
    Ok(place.unwrap_or_default())
}

/// Why a reply is not read: the column at this place is of another type by now.
pub(crate) fn misfit(client: &Bound<'_, Core>, call: &Call, place: usize) -> PyResult<Failure> {
    let body = call.now.with(|it| it.columns.clone())?.unwrap_or_default();
    if let Some(statement) = &call.statement {
        statement.get().forget();
    }
    let oid = column_types(&body).get(place).copied().unwrap_or_default();
    let type_ = client.get().state.with(|state| state.types.get(oid))?;
    let name = column_names(&body).into_iter().nth(place).unwrap_or_default();
    Ok(Failure::said("conversion", outcome::APPLIED, migrated::misread(&name, &type_.name)))
}

/// Asks for the types in the reply to a call, which came by the connection `number`.
fn ask_types_of(
    core: &Bound<'_, Core>,
    call: &Bound<'_, Call>,
    missing: &[u32],
    number: u32,
) -> PyResult<()> {
    let py = core.py();
    let of = match &call.get().want {
        Want::Calls(parts) => parts.iter().find_map(|part| part.get().statement.as_ref()),
        _ => call.get().statement.as_ref(),
    };
    let Some(statement) = of.map(|it| it.bind(py)) else { return Ok(()) };
    let is_in_transaction = status(core, number)?.is_some_and(|it| it != b'I');
    let want = Want::TypesOf(call.clone().unbind(), number, is_in_transaction);
    let question = own(core, want, statement, flag::BINARY | flag::UNPREPARED)?;
    let request = vec![(None, Described::question(), array_of(missing), Vec::new())];
    question.get().now.with(|it| it.requests = request)?;
    call.get().now.with(|it| {
        it.asked += 1;
        it.question = Some(question.clone().unbind());
    })?;
    Core::run(core, |state, py, now| {
        // What the caller's own transaction has made is seen there alone.
        if state.links.get(&number).is_some_and(|link| link.is_lent && !link.is_over) {
            return state.send_own(py, now, number, &question);
        }
        state.asked += 1;
        state.place(py, now, &question);
    })
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
    let request = vec![(None, Described::question(), request, Vec::new())];
    call.get().now.with(|it| it.requests = request)?;
    if number == 0 {
        let now = core.get().time();
        statement.get().known.with(|it| it.asking.push((now, call.clone().unbind())))?;
    }
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
    remember(core, statement, parameters, row)?;
    let (waiting, others) = statement
        .get()
        .known
        .with(|it| (std::mem::take(&mut it.waiting), std::mem::take(&mut it.asking)))?;
    take_back(core, others)?;
    for call in waiting {
        Core::begin(core, call.bind(core.py()))?;
    }
    Core::run(core, |state, py, now| match number {
        0 => state.told(py, now),
        number => state.answered_own(number),
    })
}

fn remember(
    core: &Bound<'_, Core>,
    statement: &Bound<'_, Statement>,
    parameters: Vec<u32>,
    row: Bytes,
) -> PyResult<()> {
    let described = core.get().state.with(|state| {
        state.ids += 1;
        Described::new(state.ids, parameters, row, &state.types)
    })?;
    statement.get().learn(described)
}

/// Whoever waited hears of it. What they had to send was not.
fn failed(
    core: &Bound<'_, Core>,
    statement: &Bound<'_, Statement>,
    failure: &Failure,
    number: u32,
) -> PyResult<()> {
    let py = core.py();
    let (waiting, others) = statement.get().known.with(|it| {
        let is_answered = failure.sqlstate().is_some() || it.asking.is_empty();
        match number {
            // What has become of its connection says nothing of the others.
            0 if is_answered => (std::mem::take(&mut it.waiting), std::mem::take(&mut it.asking)),
            _ => Default::default(),
        }
    })?;
    take_back(core, others)?;
    let said = |failure: &Failure| match failure.sqlstate() {
        Some(_) => failure.again(py, outcome::REJECTED),
        None => failure.again(py, outcome::NOT_SENT),
    };
    for call in waiting {
        let call = call.into_bound(py);
        Core::run(core, |state, py, now| {
            // Nothing of it was sent, and it asks again when it is.
            let lost = failure.is_loss().then(|| said(failure));
            if lost.is_some() && state.repeats(py, now, call.as_unbound(), &lost) {
                return;
            }
            // The others of its pipeline were not sent; of this one the server has said so.
            if let Want::Calls(parts) = &call.get().want {
                let own =
                    |it: &&Py<Call>| it.get().statement.as_ref().is_some_and(|of| of.is(statement));
                for part in parts.iter().filter(own) {
                    state.finish(py, part, Some(said(failure)));
                }
            }
            let held = call.get().now.with(|it| it.held.take()).ok().flatten();
            state.fail(py, &call, held.map_or_else(|| said(failure), |it| *it));
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
