//! The functions of Redis that a host calls, each declared in `include/onetrip.h`.
//!
//! # Safety
//! As in [`export`](crate::export).

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

use onetrip_engine::Outcome;
use onetrip_redis::protocol::outcome_of_frame;
use onetrip_redis::slots::slot_of;

use crate::completion::outcome_code;
use crate::connection::Connection;
use crate::export::{made, place};
use crate::memory;
use crate::time::{deadline, time};

pub use crate::redis::look::{Traits, traits};

/// What commands are; bits that the host sets.
pub mod flag {
    use crate::redis::submission::flag;

    /// Of one command: what it did before an error stands.
    pub const LEAVES: u32 = flag::LEAVES;
    /// It is confirmed by pushes, as SUBSCRIBE is: one for each of so many channels.
    pub const CONFIRMED: u32 = flag::CONFIRMED;
    /// They are MULTI, what runs as a whole, and EXEC, perhaps behind ASKING: if EXEC is refused and MULTI goes on, the
    /// connection ends.
    pub const ATOMIC: u32 = flag::ATOMIC;
}

/// A connection to Redis over a socket that is open, and through TLS if there is to be TLS. The login is to be sent at once;
/// commands may be submitted at once, and follow it. `settings`: pairs of name and value, each ended by a zero byte.
/// Wrong settings come out as a `CLOSED` that says what is wrong. Null if there is no memory for another connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_redis_new(
    now: f64,
    settings: *const u8,
    len: usize,
) -> *mut Connection {
    // SAFETY: the host's promise at the top.
    let settings = unsafe { memory::bytes(settings, len) };
    made(|| Connection::redis(time(now), settings))
}

/// Submits commands as they go onto the wire: `len` bytes of the room, of which the first `text_len` are the text of the
/// script that the one command behind them calls by its hash (0 for none): it goes as EVAL with that text where the server
/// does not know it. `replies`: how many come, errors
/// among them; 0 for one command whose error is that of the request. `timeout` and what is returned are as for
/// `onetrip_postgres_submit`.
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

/// From now on scripts go as texts: the caller says MULTI, and one that the server has forgotten would be missed when the rest
/// has run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_redis_scripts_as_texts(connection: *mut Connection) {
    // SAFETY: the host's promise at the top.
    unsafe { &mut *connection }.send_scripts_as_texts();
}

/// What is known of a command, as it goes onto the wire. The advice in it lives as long as the module. False if there is no
/// memory to look at one so long.
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

/// What an error among replies says of the effect of its command: an outcome. `leaves`: what it did before an error
/// stands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_redis_outcome(error: *const u8, len: usize, leaves: bool) -> u32 {
    // SAFETY: the host's promise at the top.
    let error = unsafe { memory::bytes(error, len) };
    let outcome: Outcome = outcome_of_frame(error, leaves);
    outcome_code(outcome)
}
