//! Rows that are taken as they come, and COPY.

use std::rc::Rc;

use bytes::Bytes;
use onetrip_client::flag;
use onetrip_client::postgres::Part as Feed;
use onetrip_engine::Time;
use onetrip_postgres::client::copy::Direction;

use super::sessions::{OtSession, closed_to, place_of};
use super::{OtCall, client_of, enter, handle, place, request, take_back};
use crate::call::{Call, Part, Stage, Want};
use crate::client::{Client, barred};
use crate::failure::Failure;
use crate::ffi::{Handle, OtError, OtValue, User, bytes, guard, misuse, text};
use crate::result::OtResult;
use crate::session::Session;
use crate::state::{State, Todo, clock};
use crate::status;

/// A stream or a COPY, and the session that it has.
pub(crate) struct Flow {
    call: Rc<Call>,
    session: Rc<Session>,
}

/// `ot_stream` and `ot_copy`.
type OtFlow = Handle<Flow>;

/// Bytes that are handed over to a COPY at a time.
const PART: usize = 64 << 10;

/// Begins one on a session.
///
/// # Safety
/// As `text` and `values` of `ffi`.
unsafe fn begin(
    session: *mut OtSession,
    sql: (*const u8, usize),
    args: (*const OtValue, usize),
    (want, flags): (Want, u32),
    out: *mut *mut OtFlow,
) -> i32 {
    // SAFETY: as above.
    let of = unsafe { client_of(session) };
    guard(of, std::ptr::null_mut(), || {
        place(out)?;
        // SAFETY: as above.
        let it = unsafe { handle(session) }?;
        let mut state = enter(&it.client)?;
        // SAFETY: as above.
        let request = unsafe { request(&mut state, sql, args) }?;
        let traits = request.statement.traits;
        let refused = closed_to(&it.of).or_else(|| {
            match want {
                Want::CopyIn if Direction::In.is_of(traits) => None,
                Want::CopyIn => Some("ot_copy_in takes a COPY … FROM STDIN statement"),
                Want::CopyOut if Direction::Out.is_of(traits) => None,
                Want::CopyOut => Some("ot_copy_out takes a COPY … TO STDOUT statement"),
                _ if traits.copy() => Some("a COPY goes by ot_copy_in or ot_copy_out"),
                _ => return state.refusal_of(&request.statement, place_of(&it.of)),
            }
            .map(|why| Failure::unsent("copy", why))
        });
        let call = Call::new(want, flags, Time::NEVER, vec![request], 1);
        match refused {
            Some(failure) => state.fail(&call, failure),
            None => {
                it.of.claimed.replace(Some(call.clone()));
                state.enqueue(clock(), &it.of, &call);
            }
        }
        let flow = Flow { call, session: it.of.clone() };
        Handle::give(&it.client, flow, out);
        Ok(status::OK)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_stream_open(
    session: *mut OtSession,
    sql: *const u8,
    len: usize,
    args: *const OtValue,
    count: usize,
    stream: *mut *mut OtFlow,
) -> i32 {
    let of = (Want::Stream, flag::STREAM | flag::UNPREPARED);
    // SAFETY: C has promised what the header asks for.
    unsafe { begin(session, (sql, len), (args, count), of, stream) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_copy_out(
    session: *mut OtSession,
    sql: *const u8,
    len: usize,
    stream: *mut *mut OtFlow,
) -> i32 {
    let of = (Want::CopyOut, flag::STREAM | flag::SIMPLE);
    // SAFETY: C has promised what the header asks for.
    unsafe { begin(session, (sql, len), (std::ptr::null(), 0), of, stream) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_stream_next(
    stream: *mut OtFlow,
    timeout_ms: i32,
    result: *mut *mut OtResult,
    error: *mut OtError,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(stream) };
    guard(of, error, || {
        let out = place(result)?;
        // SAFETY: as above.
        let it = unsafe { handle(stream) }?;
        let call = &it.of.call;
        let has_come = |_: &mut State| {
            let is_over = call.is_over();
            is_over || call.look().parts.iter().any(|part| !part.blocks.is_empty())
        };
        if !it.client.wait(timeout_ms, has_come).map_err(barred)? {
            return Ok(status::AGAIN);
        }
        let come = taken(call);
        if come.blocks.is_empty() {
            let failure = call.look().failure.clone();
            return failure.map_or(Ok(status::DONE), Err);
        }
        let bytes = come.blocks.iter().map(Bytes::len).sum();
        let is_of_rows = matches!(call.want, Want::Stream);
        let foreign = come.columns.as_deref().is_some_and(|it| !crate::link::are_texts(it));
        let result = OtResult::of_part(come)?;
        if is_of_rows && foreign {
            return Err(misuse("a cursor that was declared BINARY is not read"));
        }
        tell_taken(&it.client, call, bytes)?;
        // SAFETY: there is a place for it.
        unsafe { out.write(Box::into_raw(Box::new(result))) };
        Ok(status::OK)
    })
}

/// What has come of a reply. Its columns stay.
fn taken(call: &Call) -> Part {
    let mut it = call.now();
    let Some(part) = it.parts.first_mut() else { return Part::default() };
    Part { blocks: std::mem::take(&mut part.blocks), ..part.clone() }
}

fn tell_taken(client: &Client, call: &Call, bytes: usize) -> Result<(), Failure> {
    let Stage::Sent(number, ..) = call.look().stage else { return Ok(()) };
    let mut state = enter(client)?;
    if let Some(link) = state.links.get(&number) {
        link.connection.borrow_mut().taken_of_stream(bytes);
        state.does(Todo::Walk(number));
        state.settle(clock());
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_stream_then(
    stream: *mut OtFlow,
    tell: Option<unsafe extern "C" fn(User)>,
    user: User,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(stream) };
    guard(of, std::ptr::null_mut(), || {
        // SAFETY: as above.
        let it = unsafe { handle(stream) }?;
        let mut state = enter(&it.client)?;
        let then = it.of.call.look().then.clone();
        then.set(tell.map(|tell| (tell, user)));
        then.falls_due(&mut state.callbacks);
        Ok(status::OK)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_stream_close(stream: *mut OtFlow) {
    // SAFETY: C has promised what the header asks for.
    let Some(it) = (unsafe { take_back(stream) }) else { return };
    guard(Some(&it.client), std::ptr::null_mut(), || {
        it.of.call.look().then.set(None);
        enter(&it.client)?.abandon(clock(), &it.of.session, &it.of.call);
        Ok(status::OK)
    });
}

// --- COPY FROM STDIN ---

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_copy_in(
    session: *mut OtSession,
    sql: *const u8,
    len: usize,
    copy: *mut *mut OtFlow,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe {
        begin(session, (sql, len), (std::ptr::null(), 0), (Want::CopyIn, flag::COPY_IN), copy)
    }
}

/// Hands over a part, if it is taken now.
fn feed(state: &mut State, call: &Call, part: Feed<'_>) -> bool {
    let stage = call.look().stage;
    let Stage::Sent(number, token, _) = stage else { return false };
    let Some(link) = state.links.get(&number) else { return false };
    let now = clock();
    let fed = link.connection.borrow_mut().feed(now, token, part);
    if fed.is_err() {
        // It must not be stored with a part missing.
        let part = Feed::Failed("a part of its data could not be sent");
        let _ = link.connection.borrow_mut().feed(now, token, part);
    }
    state.does(Todo::Walk(number));
    state.soil(number);
    state.settle(now);
    fed.unwrap_or(false)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_copy_write(
    copy: *mut OtFlow,
    data: *const u8,
    len: usize,
    timeout_ms: i32,
    written: *mut usize,
    error: *mut OtError,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(copy) };
    guard(of, error, || {
        let written = place(written)?;
        // SAFETY: as above.
        let (it, data) = unsafe { (handle(copy)?, bytes(data, len)) };
        let data = data.ok_or_else(|| misuse("the data is NULL"))?;
        let mut at = 0;
        let call = &it.of.call;
        let mut feed_all = |state: &mut State| {
            while at < data.len() && !call.is_over() {
                let end = data.len().min(at + PART);
                if !feed(state, call, Feed::Data(&data[at..end])) {
                    break;
                }
                at = end;
                // It goes out as it is made: there is much of it.
                state.flush(clock());
            }
            at == data.len() || call.is_over()
        };
        let is_done = it.client.wait(timeout_ms, &mut feed_all).map_err(barred)?;
        // SAFETY: there is a place for it.
        unsafe { written.write(at) };
        match call.look().failure.clone() {
            Some(failure) if call.is_over() => Err(failure),
            _ if is_done => Ok(status::OK),
            _ => Ok(status::AGAIN),
        }
    })
}

/// Ends a COPY.
///
/// # Safety
/// As [`handle`].
unsafe fn end(copy: *mut OtFlow, part: Feed<'_>, out: *mut *mut OtCall) -> i32 {
    // SAFETY: as above.
    let of = unsafe { client_of(copy) }.cloned();
    guard(of.as_ref(), std::ptr::null_mut(), || {
        // SAFETY: as above.
        let it = unsafe { handle(copy) }?;
        let call = it.of.call.clone();
        let mut state = enter(&it.client)?;
        // One that waits for its connection or its turn is handed its end then.
        if !call.is_over() && !feed(&mut state, &call, part) {
            match part {
                Feed::Failed(_) => state.give_up(clock(), &call),
                _ => return Ok(status::AGAIN),
            }
        }
        drop(state);
        // SAFETY: nobody uses it behind this.
        let Some(it) = (unsafe { take_back(copy) }) else { return Ok(status::MISUSE) };
        if call.is_over() {
            it.of.session.claimed.take();
        }
        if !out.is_null() {
            Handle::give(&it.client, call, out);
        }
        Ok(status::OK)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_copy_end(
    copy: *mut OtFlow,
    timeout_ms: i32,
    call: *mut *mut OtCall,
    error: *mut OtError,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(copy) };
    let waited = guard(of, error, || {
        place(call)?;
        // SAFETY: as above.
        let it = unsafe { handle(copy) }?;
        let is_sent =
            |_: &mut State| matches!(it.of.call.look().stage, Stage::Sent(..) | Stage::Over);
        let is_sent = it.client.wait(timeout_ms, is_sent).map_err(barred)?;
        Ok(if is_sent { status::OK } else { status::AGAIN })
    });
    match waited {
        // SAFETY: as above.
        status::OK => unsafe { end(copy, Feed::Done, call) },
        status => status,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_copy_fail(
    copy: *mut OtFlow,
    reason: *const u8,
    len: usize,
    call: *mut *mut OtCall,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    match unsafe { text(reason, len) } {
        // SAFETY: as above.
        Ok(reason) => unsafe { end(copy, Feed::Failed(reason), call) },
        Err(_) => status::MISUSE,
    }
}
