//! Statements on shared connections, and how calls are awaited.

use std::rc::Rc;

use onetrip_client::flag;
use onetrip_engine::Time;
use onetrip_postgres::client::copy::Direction;
use onetrip_postgres::sql::{Place, Traits};

use super::{
    OtCall, OtClient, client_of, enter, flags_of, handle, known, place, request, take_back,
};
use crate::call::{Call, Tell, Want};
use crate::client::{Client, barred};
use crate::failure::Failure;
use crate::ffi::{
    Handle, OtError, OtOptions, OtValue, User, guard, list, misuse, take, text, values,
};
use crate::result::OtResult;
use crate::state::{State, clock};
use crate::status;
use crate::values::parameters;

/// Why a COPY does not go as a statement.
pub(super) fn copies(traits: Traits) -> Option<Failure> {
    let copies = [Direction::In, Direction::Out].iter().any(|it| it.is_of(traits));
    copies.then(|| Failure::unsent("copy", "a COPY goes by ot_copy_in or ot_copy_out of a session"))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_query(
    client: *mut OtClient,
    sql: *const u8,
    len: usize,
    args: *const OtValue,
    count: usize,
    options: *const OtOptions,
    call: *mut *mut OtCall,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(client) };
    guard(of, std::ptr::null_mut(), || {
        // SAFETY: as above.
        let (client, options) = unsafe { (&handle(client)?.client, take(options)) };
        place(call)?;
        let flags = flags_of(&options)?;
        let deadline = client.deadline(options.timeout_ms);
        let mut state = enter(client)?;
        // SAFETY: as above.
        let made = unsafe { request(&mut state, (sql, len), (args, count)) };
        let request = made.and_then(|request| {
            let traits = request.statement.traits;
            let script = (flags & flag::SIMPLE != 0)
                .then(|| Failure::unsent("script", "OT_SCRIPT is for a session"));
            let refused = script.or_else(|| state.refusal_of(&request.statement, Place::Shared));
            refused.or_else(|| copies(traits)).map_or(Ok(request), Err)
        });
        start(client, &mut state, Want::Rows, flags, deadline, request, call)
    })
}

/// Begins a call with this request, or ends it with why there is none.
fn start(
    client: &Rc<Client>,
    state: &mut State,
    want: Want,
    flags: u32,
    deadline: Time,
    request: Result<crate::call::Request, Failure>,
    out: *mut *mut OtCall,
) -> Result<i32, Failure> {
    let call = match request {
        Err(failure) if failure.code == "misuse" => return Err(failure),
        Err(failure) => {
            let call = Call::new(want, flags, Time::NEVER, Vec::new(), 0);
            state.fail(&call, failure);
            call
        }
        Ok(request) => {
            let call = Call::new(want, flags, deadline, vec![request], 1);
            state.begin(clock(), &call);
            call
        }
    };
    Handle::give(client, call, out);
    Ok(status::OK)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_batch(
    client: *mut OtClient,
    sql: *const u8,
    len: usize,
    args: *const OtValue,
    per_set: usize,
    sets: usize,
    options: *const OtOptions,
    call: *mut *mut OtCall,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(client) };
    guard(of, std::ptr::null_mut(), || {
        place(call)?;
        // SAFETY: as above.
        let (client, options) = unsafe { (&handle(client)?.client, take(options)) };
        let deadline = client.deadline(options.timeout_ms);
        let all = per_set.checked_mul(sets).filter(|_| sets > 0);
        let all = all.ok_or_else(|| misuse("a batch has no sets of arguments, or too many"))?;
        // SAFETY: as above.
        let (text, values) = unsafe {
            list(args, all)?;
            (text(sql, len)?, values(args, all)?)
        };
        let mut state = enter(client)?;
        let made = known(&mut state, text).and_then(|statement| {
            let is_alone = sets == 1;
            let refused = state.refusal_of(&statement, Place::Pipeline { alone: is_alone });
            if let Some(failure) = refused.or_else(|| copies(statement.traits)) {
                return Err(failure);
            }
            let of = |set: usize| parameters(&values[set * per_set..(set + 1) * per_set]);
            let encoded = (0..sets).map(of).collect::<Result<Vec<_>, _>>()?;
            Ok(state.runs(&statement, encoded))
        });
        let made = match made {
            Ok(requests) => {
                let parts = requests.len();
                let made = Call::new(Want::Batch, 0, deadline, requests, parts);
                state.begin(clock(), &made);
                made
            }
            Err(failure) => {
                let made = Call::new(Want::Batch, 0, Time::NEVER, Vec::new(), 0);
                state.fail(&made, failure);
                made
            }
        };
        drop(state);
        Handle::give(client, made, call);
        Ok(status::OK)
    })
}

// --- calls ---

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_wait(
    call: *mut OtCall,
    timeout_ms: i32,
    result: *mut *mut OtResult,
    error: *mut OtError,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(call) }.cloned();
    guard(of.as_ref(), error, || {
        if !result.is_null() {
            // SAFETY: it is not null.
            unsafe { result.write(std::ptr::null_mut()) };
        }
        // SAFETY: as above.
        let it = unsafe { handle(call) }?;
        if !it.of.is_over() && !it.client.wait_for(&it.of, timeout_ms).map_err(barred)? {
            return Ok(status::AGAIN);
        }
        // SAFETY: the call is over, and nobody uses it behind this.
        let Some(it) = (unsafe { take_back(call) }) else { return Ok(status::OK) };
        it.of.look().then.set(None);
        if let Some(failure) = it.of.now().failure.take() {
            return Err(failure);
        }
        let read = OtResult::of(&it.of)?;
        if !result.is_null() {
            // SAFETY: it is not null.
            unsafe { result.write(Box::into_raw(Box::new(read))) };
        }
        Ok(status::OK)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_call_is_over(call: *const OtCall) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe { call.as_ref() }.is_some_and(|it| it.of.is_over()).into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_call_then(
    call: *mut OtCall,
    tell: Option<unsafe extern "C" fn(User)>,
    user: User,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(call) };
    guard(of, std::ptr::null_mut(), || {
        // SAFETY: as above.
        let it = unsafe { handle(call) }?;
        let tell: Option<Tell> = tell.map(|tell| (tell, user));
        let mut state = enter(&it.client)?;
        let then = it.of.look().then.clone();
        then.set(tell);
        if it.of.is_over() {
            then.falls_due(&mut state.callbacks);
        }
        Ok(status::OK)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_call_free(call: *mut OtCall) {
    // SAFETY: C has promised what the header asks for.
    let Some(it) = (unsafe { take_back(call) }) else { return };
    guard(Some(&it.client), std::ptr::null_mut(), || {
        it.of.look().then.set(None);
        if !it.of.is_over() {
            enter(&it.client)?.give_up(clock(), &it.of);
        }
        Ok(status::OK)
    });
}
