//! Commands of Redis, and their replies.

use onetrip_redis::client::session::On;

use super::pipes::command;
use super::{OtCall, OtClient, client_of, enter, flags_of, handle, place};
use crate::call::{Call, Want};
use crate::failure::Failure;
use crate::ffi::{Handle, OtOptions, OtText, OtValue, guard, take, values};
use crate::result::{OtReply, OtResult, reply};
use crate::state::{Server, clock};
use crate::status;

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_command(
    client: *mut OtClient,
    args: *const OtValue,
    count: usize,
    options: *const OtOptions,
    call: *mut *mut OtCall,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(client) };
    guard(of, std::ptr::null_mut(), || {
        place(call)?;
        // SAFETY: as above.
        let (client, options) = unsafe { (&handle(client)?.client, take(options)) };
        let flags = flags_of(&options)?;
        // SAFETY: as above.
        let values = unsafe { values(args, count) }?;
        let mut state = enter(client)?;
        let mut made = command(&values, On::Client);
        if flags != 0 {
            made = Err(Failure::unsent("flags", "a command takes no flags"));
        }
        if matches!(state.server, Server::Postgres(_)) {
            let why = "this is a client of PostgreSQL: call ot_query";
            made = Err(Failure::unsent("protocol", why));
        }
        let deadline = client.deadline(options.timeout_ms);
        let new = |packed| Call::new(Want::Commands(packed), 0, deadline, Vec::new(), 1);
        let made = match made {
            Ok(packed) => {
                let made = new(vec![packed]);
                state.begin(clock(), &made);
                made
            }
            Err(failure) if failure.code == "misuse" => return Err(failure),
            Err(failure) => {
                let made = new(Vec::new());
                state.fail(&made, failure);
                made
            }
        };
        drop(state);
        Handle::give(client, made, call);
        Ok(status::OK)
    })
}

/// What was answered to the command at this place.
#[unsafe(no_mangle)]
unsafe extern "C" fn ot_result_reply(
    result: *const OtResult,
    at: usize,
    out: *mut *const OtReply,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let Some(result) = (unsafe { result.as_ref() }) else { return status::MISUSE };
    let part = if result.parts.is_empty() && at == 0 { Some(result) } else { result.parts.get(at) };
    match part.and_then(|part| part.reply.as_ref()) {
        Some(reply) if !out.is_null() => {
            // SAFETY: it is not null.
            unsafe { out.write(reply) };
            status::OK
        }
        Some(_) => status::MISUSE,
        None => status::RANGE,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_reply_kind(reply: *const OtReply) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe { reply.as_ref() }.map_or(reply::NIL, |reply| reply.kind)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_reply_size(reply: *const OtReply) -> usize {
    // SAFETY: C has promised what the header asks for.
    unsafe { reply.as_ref() }.map_or(0, |reply| reply.items.len())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_reply_at(of: *const OtReply, at: usize, out: *mut *const OtReply) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let (of, out) = unsafe { (of.as_ref(), out.as_mut()) };
    let (Some(of), Some(out)) = (of, out) else { return status::MISUSE };
    match of.items.get(at) {
        Some(item) => {
            *out = item;
            status::OK
        }
        None => status::RANGE,
    }
}

/// Reads a reply that is of one of these kinds.
///
/// # Safety
/// Both are null, or lead to what they say.
unsafe fn read<T>(
    of: *const OtReply,
    out: *mut T,
    read: impl FnOnce(&OtReply) -> Option<T>,
) -> i32 {
    // SAFETY: as above.
    let (of, out) = unsafe { (of.as_ref(), out.as_mut()) };
    let (Some(of), Some(out)) = (of, out) else { return status::MISUSE };
    if of.kind == reply::NIL {
        return status::IS_NULL;
    }
    match read(of) {
        Some(value) => {
            *out = value;
            status::OK
        }
        None => status::CONVERSION,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_reply_text(of: *const OtReply, out: *mut OtText) -> i32 {
    let texts = [reply::STATUS, reply::ERROR, reply::STRING, reply::BIG_NUMBER];
    // SAFETY: C has promised what the header asks for.
    unsafe { read(of, out, |it| texts.contains(&it.kind).then(|| OtText::of(&it.text))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_reply_i64(of: *const OtReply, out: *mut i64) -> i32 {
    let number = |it: &OtReply| match it.kind {
        reply::INTEGER | reply::BOOL => Some(it.integer),
        reply::STRING => std::str::from_utf8(&it.text).ok()?.parse().ok(),
        _ => None,
    };
    // SAFETY: C has promised what the header asks for.
    unsafe { read(of, out, number) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_reply_f64(of: *const OtReply, out: *mut f64) -> i32 {
    let number = |it: &OtReply| match it.kind {
        reply::DOUBLE => Some(it.real),
        reply::STRING => std::str::from_utf8(&it.text).ok()?.parse().ok(),
        _ => None,
    };
    // SAFETY: C has promised what the header asks for.
    unsafe { read(of, out, number) }
}
