//! Clients, and the loop that drives them.

use std::ffi::c_char;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use rustix::event::PollFlags;

use super::{OtClient, client_of, enter, handle, place, take_back};
use crate::client::{Client, barred};
use crate::config::Config;
use crate::failure::Failure;
use crate::ffi::{Handle, OtError, guard, text};
use crate::redis::RedisConfig;
use crate::state::{Server, clock};
use crate::status;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

#[unsafe(no_mangle)]
extern "C" fn ot_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn ot_status_name(status: i32) -> *const c_char {
    let name = usize::try_from(status).ok().and_then(|status| status::NAMES.get(status));
    name.unwrap_or(&"unknown\0").as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn ot_outcome_name(outcome: i32) -> *const c_char {
    let names = ["none\0", "not sent\0", "rejected\0", "applied\0", "unknown\0"];
    let name = usize::try_from(outcome).ok().and_then(|outcome| names.get(outcome));
    name.unwrap_or(&"unknown\0").as_ptr().cast()
}

fn wrong(why: String) -> Failure {
    Failure::unsent("config", why)
}

/// A client that was not connected yet.
///
/// # Safety
/// As `text` of `ffi`.
unsafe fn made(
    (url, len): (*const u8, usize),
    out: *mut *mut OtClient,
    is_redis: bool,
) -> Result<Rc<Client>, Failure> {
    place(out)?;
    // SAFETY: as above.
    let url = unsafe { text(url, len) }?;
    let server = match is_redis {
        true => Server::Redis(Box::new(RedisConfig::read(url).map_err(wrong)?)),
        false => Server::Postgres(Box::new(Config::read(url).map_err(wrong)?)),
    };
    Client::new(server).map_err(|error| Failure::unsent("io", error.to_string()))
}

fn connect(
    url: (*const u8, usize),
    timeout_ms: Option<i32>,
    out: *mut *mut OtClient,
    error: *mut OtError,
    is_redis: bool,
) -> i32 {
    guard(None, error, || {
        // SAFETY: C has promised what the header asks for.
        let client = unsafe { made(url, out, is_redis) }?;
        if let Some(timeout_ms) = timeout_ms {
            first(&client, timeout_ms)?;
        }
        Handle::give(&client, (), out);
        Ok(status::OK)
    })
}

/// Waits for the first connection.
fn first(client: &Rc<Client>, timeout_ms: i32) -> Result<(), Failure> {
    let probe = Rc::new(crate::session::Session::default());
    let mut state = enter(client)?;
    state.checkout(clock(), &probe);
    state.settle(clock());
    drop(state);
    let is_there =
        |_: &mut crate::state::State| probe.number.get() != 0 || probe.over.borrow().is_some();
    let is_there = client.wait(timeout_ms, is_there).map_err(barred)?;
    let failure = probe.over.borrow().clone();
    let mut state = enter(client)?;
    state.release(clock(), &probe);
    match failure {
        Some(failure) => Err(failure),
        None if is_there => Ok(()),
        None => {
            let last = state.last_error.as_ref().map_or_else(String::new, |it| it.message.clone());
            let dash = if last.is_empty() { "" } else { ": " };
            state.cut(clock());
            let message = format!("no connection was open in time{dash}{last}");
            Err(Failure::unsent("timeout", message))
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_pg_connect(
    url: *const u8,
    len: usize,
    timeout_ms: i32,
    out: *mut *mut OtClient,
    error: *mut OtError,
) -> i32 {
    connect((url, len), Some(timeout_ms), out, error, false)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_redis_connect(
    url: *const u8,
    len: usize,
    timeout_ms: i32,
    out: *mut *mut OtClient,
    error: *mut OtError,
) -> i32 {
    connect((url, len), Some(timeout_ms), out, error, true)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_pg_open(
    url: *const u8,
    len: usize,
    out: *mut *mut OtClient,
    error: *mut OtError,
) -> i32 {
    connect((url, len), None, out, error, false)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_redis_open(
    url: *const u8,
    len: usize,
    out: *mut *mut OtClient,
    error: *mut OtError,
) -> i32 {
    connect((url, len), None, out, error, true)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_close(client: *mut OtClient, timeout_ms: i32, error: *mut OtError) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let Some(handle) = (unsafe { take_back(client) }) else { return status::OK };
    let client = handle.client;
    if client.is_forked() {
        // Its sockets are the other process's, who goes on with them: they close without a word.
        return status::OK;
    }
    guard(Some(&client), error, || {
        enter(&client)?.close(clock());
        let is_over = |state: &mut crate::state::State| {
            state.is_closed && state.links.is_empty() && state.openings.is_empty()
        };
        if client.wait(timeout_ms, is_over).map_err(barred)? {
            return Ok(status::OK);
        }
        enter(&client)?.cut(clock());
        client.drive().map_err(barred)?;
        Err(Failure::said("timeout", 4, "the client was closed before all was answered"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_flush(client: *mut OtClient, error: *mut OtError) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(client) };
    guard(of, error, || {
        // SAFETY: as above.
        let client = &unsafe { handle(client) }?.client;
        enter(client)?.flush(clock());
        client.call_back().map_err(barred)?;
        Ok(status::OK)
    })
}

// --- the loop ---

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_fd(client: *const OtClient) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let client = unsafe { client_of(client) };
    client.and_then(|it| it.enter().ok().map(|state| state.poll.as_raw_fd())).unwrap_or(-1)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_events(client: *const OtClient) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let is_there = unsafe { client_of(client) }.is_some();
    if is_there { PollFlags::IN.bits().into() } else { 0 }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_timeout_ms(client: *const OtClient) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let client = unsafe { client_of(client) };
    client.and_then(|it| it.timeout_ms().ok()).unwrap_or(-1)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_drive(client: *mut OtClient, _revents: i32, error: *mut OtError) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(client) };
    guard(of, error, || {
        // SAFETY: as above.
        unsafe { handle(client) }?.client.drive().map_err(barred)?;
        Ok(status::OK)
    })
}
