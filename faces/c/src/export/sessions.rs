//! Connections that one caller has to himself, and transactions.

use std::rc::Rc;
use std::time::Duration;

use onetrip_client::postgres::Act;
use onetrip_engine::{Retry, RetryLimits, Time};
use onetrip_postgres::client::transaction::modes::{Isolation, Modes};
use onetrip_postgres::sql::Place;

use onetrip_client::flag;

use super::calls::copies;
use super::{OtCall, OtClient, client_of, enter, flags_of, handle, place, request, take_back};
use crate::call::{Call, Want};
use crate::client::{Client, barred};
use crate::failure::Failure;
use crate::ffi::{Handle, OtError, OtModes, OtOptions, OtValue, User, guard, misuse, take};
use crate::session::Session;
use crate::state::{State, clock};
use crate::status;

/// `ot_session`.
pub(crate) type OtSession = Handle<Rc<Session>>;

fn open(client: &Rc<Client>) -> Result<Rc<Session>, Failure> {
    if !client.is_postgres() {
        return Err(Failure::unsent("protocol", "sessions are for PostgreSQL"));
    }
    let session = Rc::new(Session::default());
    let mut state = enter(client)?;
    match state.is_closing {
        true => _ = session.over.replace(Some(Failure::closed())),
        false => state.checkout(clock(), &session),
    }
    state.settle(clock());
    Ok(session)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_session_open(client: *mut OtClient, session: *mut *mut OtSession) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(client) };
    guard(of, std::ptr::null_mut(), || {
        place(session)?;
        // SAFETY: as above.
        let client = &unsafe { handle(client) }?.client;
        Handle::give(client, open(client)?, session);
        Ok(status::OK)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_session_close(session: *mut OtSession) {
    // SAFETY: C has promised what the header asks for.
    let Some(it) = (unsafe { take_back(session) }) else { return };
    guard(Some(&it.client), std::ptr::null_mut(), || {
        enter(&it.client)?.release(clock(), &it.of);
        Ok(status::OK)
    });
}

/// Why nothing goes there at present, whatever it is.
pub(super) fn closed_to(session: &Session) -> Option<Failure> {
    let claimed = session.claimed.borrow().is_some().then(|| {
        const WHY: &str = "a stream or a COPY has the connection: read it to its end, or close it";
        Failure::unsent("stream_open", WHY)
    });
    session.over.borrow().clone().or(claimed)
}

/// Puts a call behind all that was submitted there, or ends it with why that can't be.
pub(super) fn submit(
    client: &Rc<Client>,
    state: &mut State,
    session: &Rc<Session>,
    call: Rc<Call>,
    refused: Option<Failure>,
    out: *mut *mut OtCall,
) {
    match refused {
        Some(failure) => state.fail(&call, session.over_for(&call.want, failure)),
        None => state.enqueue(clock(), session, &call),
    }
    if !out.is_null() {
        Handle::give(client, call, out);
    }
}

pub(super) fn place_of(session: &Session) -> Place {
    Place::Session { in_transaction: session.in_transaction.get() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_session_query(
    session: *mut OtSession,
    sql: *const u8,
    len: usize,
    args: *const OtValue,
    count: usize,
    options: *const OtOptions,
    call: *mut *mut OtCall,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(session) };
    guard(of, std::ptr::null_mut(), || {
        place(call)?;
        // SAFETY: as above.
        let (it, options) = unsafe { (handle(session)?, take(options)) };
        let flags = flags_of(&options)?;
        let deadline = it.client.deadline(options.timeout_ms);
        let mut state = enter(&it.client)?;
        // SAFETY: as above.
        let request = unsafe { request(&mut state, (sql, len), (args, count)) };
        let request = match request {
            Err(failure) if failure.code == "misuse" => return Err(failure),
            request => request,
        };
        let refused = match &request {
            Err(failure) => Some(failure.clone()),
            Ok(request) => why_not(&state, &it.of, &request.statement, flags, count),
        };
        let requests = request.into_iter().collect();
        let made = Call::new(Want::Rows, flags, deadline, requests, 1);
        submit(&it.client, &mut state, &it.of, made, refused, call);
        Ok(status::OK)
    })
}

fn why_not(
    state: &State,
    session: &Session,
    statement: &crate::call::Statement,
    flags: u32,
    count: usize,
) -> Option<Failure> {
    if flags & flag::REPEATABLE != 0 {
        const WHY: &str = "OT_REPEATABLE is not for a session: what a statement does there depends \
            on its connection";
        return Some(Failure::unsent("repeatable", WHY));
    }
    if flags & flag::SIMPLE != 0 && count > 0 {
        return Some(Failure::unsent("script", "a script takes no arguments"));
    }
    closed_to(session)
        .or_else(|| state.refusal_of(statement, place_of(session)))
        .or_else(|| copies(statement.traits))
}

// --- transactions ---

fn modes_of(modes: &OtModes) -> Result<Modes, Failure> {
    let isolation = match modes.isolation {
        0 => None,
        1 => Some(Isolation::ReadUncommitted),
        2 => Some(Isolation::ReadCommitted),
        3 => Some(Isolation::RepeatableRead),
        4 => Some(Isolation::Serializable),
        _ => return Err(misuse("there is no such isolation level")),
    };
    let flag = |of: i32| match of {
        0 => Ok(None),
        1 => Ok(Some(true)),
        2 => Ok(Some(false)),
        _ => Err(misuse("a mode is OT_DEFAULT, OT_YES or OT_NO")),
    };
    Ok(Modes { isolation, read_only: flag(modes.access)?, deferrable: flag(modes.deferrable)? })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_begin(session: *mut OtSession, modes: *const OtModes) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(session) };
    guard(of, std::ptr::null_mut(), || {
        // SAFETY: as above.
        let (it, modes) = unsafe { (handle(session)?, take(modes)) };
        begin(&it.client, &it.of, modes_of(&modes)?)?;
        Ok(status::OK)
    })
}

fn begin(client: &Rc<Client>, session: &Rc<Session>, modes: Modes) -> Result<(), Failure> {
    if session.in_transaction.get() {
        return Err(misuse("a transaction is open on this session: end it first"));
    }
    let mut state = enter(client)?;
    if let Some(failure) = closed_to(session) {
        return Err(failure);
    }
    session.in_transaction.set(true);
    session.savepoints.set(0);
    let call = Call::new(Want::Begin(modes), 0, Time::NEVER, Vec::new(), 0);
    state.enqueue(clock(), session, &call);
    Ok(())
}

/// Does something with the transaction. `needs`: savepoints that have to be open.
fn act(
    client: &Rc<Client>,
    session: &Rc<Session>,
    act: Act,
    out: *mut *mut OtCall,
) -> Result<i32, Failure> {
    let depth = session.savepoints.get();
    if !session.in_transaction.get() {
        return Err(misuse("no transaction is open on this session"));
    }
    if matches!(act, Act::Release | Act::Undo) && depth == 0 {
        return Err(misuse("no savepoint is open on this session"));
    }
    let mut state = enter(client)?;
    let refused = closed_to(session);
    match act {
        // It stays as it is, unless its connection is gone.
        _ if refused.is_some() && session.over.borrow().is_none() => {}
        Act::Commit | Act::Rollback => session.in_transaction.set(false),
        _ if refused.is_some() => {}
        Act::Savepoint => session.savepoints.set(depth + 1),
        _ => session.savepoints.set(depth - 1),
    }
    let call = Call::new(Want::Act(act), 0, Time::NEVER, Vec::new(), 1);
    submit(client, &mut state, session, call, refused, out);
    Ok(status::OK)
}

/// The same for C.
///
/// # Safety
/// As [`handle`].
unsafe fn act_on(session: *mut OtSession, what: Act, call: *mut *mut OtCall) -> i32 {
    // SAFETY: as above.
    let of = unsafe { client_of(session) };
    guard(of, std::ptr::null_mut(), || {
        // SAFETY: as above.
        let it = unsafe { handle(session) }?;
        act(&it.client, &it.of, what, call)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_commit(session: *mut OtSession, call: *mut *mut OtCall) -> i32 {
    if call.is_null() {
        return status::MISUSE;
    }
    // SAFETY: C has promised what the header asks for.
    unsafe { act_on(session, Act::Commit, call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_rollback(session: *mut OtSession, call: *mut *mut OtCall) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe { act_on(session, Act::Rollback, call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_savepoint(session: *mut OtSession) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe { act_on(session, Act::Savepoint, std::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_release(session: *mut OtSession, call: *mut *mut OtCall) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe { act_on(session, Act::Release, call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_undo(session: *mut OtSession) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe { act_on(session, Act::Undo, std::ptr::null_mut()) }
}

/// The work of a transaction.
type Work = unsafe extern "C" fn(*mut OtSession, User) -> i32;

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_transact(
    client: *mut OtClient,
    modes: *const OtModes,
    work: Option<Work>,
    user: User,
    error: *mut OtError,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(client) };
    guard(of, error, || {
        // SAFETY: as above.
        let (client, modes) = unsafe { (&handle(client)?.client, take(modes)) };
        let (modes, work) = (modes_of(&modes)?, work.ok_or_else(|| misuse("there is no work"))?);
        let seed = enter(client)?.next_seed();
        let mut retry = Retry::new(RetryLimits::default(), seed);
        loop {
            let session = open(client)?;
            let result = once(client, &session, modes, work, user);
            enter(client)?.release(clock(), &session);
            let pause = session.runs_again.get().then(|| retry.failed()).flatten();
            match pause {
                Some(pause) if !matches!(result, Ok(status::OK)) => rest(client, pause)?,
                _ => return result,
            }
        }
    })
}

/// One attempt.
fn once(
    client: &Rc<Client>,
    session: &Rc<Session>,
    modes: Modes,
    work: Work,
    user: User,
) -> Result<i32, Failure> {
    begin(client, session, modes)?;
    let handle = Box::into_raw(Box::new(Handle { client: client.clone(), of: session.clone() }));
    // SAFETY: who gave both has promised that they go together. The session is lent.
    let said = unsafe { work(handle, user) };
    // SAFETY: it was made above, and the work has ended.
    drop(unsafe { take_back(handle) });
    let what = if said == status::OK { Act::Commit } else { Act::Rollback };
    let call = Call::new(Want::Act(what), 0, Time::NEVER, Vec::new(), 1);
    let mut state = enter(client)?;
    let claimed = session.claimed.borrow().clone();
    if let Some(call) = claimed {
        state.abandon(clock(), session, &call);
    }
    let over = session.over.borrow().clone();
    session.in_transaction.set(false);
    submit(client, &mut state, session, call.clone(), over, std::ptr::null_mut());
    drop(state);
    client.wait_for(&call, -1).map_err(barred)?;
    let failure = call.now().failure.take();
    match (said, failure) {
        (status::OK, Some(failure)) => Err(failure),
        (status::OK, None) => Ok(status::OK),
        (said, _) => Ok(said),
    }
}

/// Waits, and works meanwhile.
fn rest(client: &Rc<Client>, pause: Duration) -> Result<(), Failure> {
    let ms = i32::try_from(pause.as_millis()).unwrap_or(i32::MAX).max(1);
    client.wait(ms, |_| false).map(drop).map_err(barred)
}
