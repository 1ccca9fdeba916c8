//! The functions of Redis that a host calls, each declared in `include/onetrip.h`.
//!
//! # Safety
//! As in [`export`](crate::export).

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

use onetrip_client::Connection as Client;
use onetrip_client::completion::outcome_code;
pub use onetrip_client::redis::{Traits, flag, traits};
use onetrip_engine::Outcome;
use onetrip_redis::client::router::LINE_WAIT;
use onetrip_redis::protocol::outcome_of_frame;
use onetrip_redis::slots::slot_of;

use crate::export::{made, place};
use crate::memory;
use crate::room::Connection;
use crate::time::{deadline, time};

/// A connection to Redis over a socket that is open, after the TLS handshake if there is TLS. The
/// login is ready to be sent. Commands may be submitted at once; they follow it. `settings`: pairs
/// of name and value, each ended by a zero byte. If one is wrong, a `CLOSED` says what is wrong.
/// Null if there is no memory for another connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_redis_new(
    now: f64,
    settings: *const u8,
    len: usize,
) -> *mut Connection {
    // SAFETY: the host's promise at the top.
    let settings = unsafe { memory::bytes(settings, len) };
    made(|| Connection::of(Client::redis(time(now), settings)))
}

/// Submits commands in wire format: `len` bytes of the room. The first `text_len` bytes are the
/// text of the script that the one command behind them calls by its hash; 0 for no script. If the
/// server does not know the script, the call is sent as EVAL with that text. `replies`: how many
/// replies come, errors included; 0 for one command whose error ends the request as failed.
/// `timeout` and the result are as in `onetrip_postgres_submit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_redis_submit(
    connection: *mut Connection,
    now: f64,
    token: u32,
    flags: u32,
    replies: u32,
    text_len: usize,
    len: usize,
    timeout: f64,
) -> f64 {
    let now = time(now);
    // SAFETY: the host's promise at the top.
    let connection = unsafe { &mut *connection };
    let deadline = deadline(now, timeout);
    place(connection.submit_redis(now, (token, flags, replies), (text_len, len), deadline))
}

/// Sends scripts as texts from now on, because the caller says MULTI. A script that the server has
/// forgotten would only be noticed after the other commands have run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_redis_scripts_as_texts(connection: *mut Connection) {
    // SAFETY: the host's promise at the top.
    unsafe { &mut *connection }.client.send_scripts_as_texts();
}

/// What is known of a command, given in wire format. The advice in it lives as long as the module.
/// False if there is no memory to parse a command this long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_redis_look(
    command: *const u8,
    len: usize,
    traits: *mut Traits,
) -> bool {
    // SAFETY: the host's promise at the top.
    let known = Traits::of(unsafe { memory::bytes(command, len) });
    if let Some(known) = known.filter(|_| !traits.is_null()) {
        // SAFETY: the host's promise at the top.
        unsafe { traits.write(known) }
    }
    known.is_some()
}

/// The hash slot of a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_redis_slot(key: *const u8, len: usize) -> u32 {
    // SAFETY: the host's promise at the top.
    slot_of(unsafe { memory::bytes(key, len) }).into()
}

/// How long a command waits in the line of a node of a cluster, in milliseconds. `wait_timeout`: how
/// long it would in that of another server.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_redis_line_wait(wait_timeout: f64) -> f64 {
    wait_timeout.min(LINE_WAIT.as_millis() as f64)
}

/// The outcome of a command that was answered by an error among several replies. `leaves`: the
/// effects of the command before an error remain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_redis_outcome(error: *const u8, len: usize, leaves: bool) -> u32 {
    // SAFETY: the host's promise at the top.
    let error = unsafe { memory::bytes(error, len) };
    let outcome: Outcome = outcome_of_frame(error, leaves);
    outcome_code(outcome)
}
