//! The functions of a connect plan, which decides how a client reaches a server. Each is declared
//! in `include/onetrip.h`.
//!
//! # Safety
//! As in [`export`](crate::export), for plans, and for what was seen of servers.

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

use onetrip_client::Connect;
pub use onetrip_client::connect::{action, event, fault};
use onetrip_postgres::client::identity::Lineage;

use crate::export::made;
use crate::memory;
use crate::room::Connection;
use crate::time::{millis, time};

/// A plan. `settings`: pairs of name and value, each ended by a zero byte. `seed`: any number; it
/// sets the random order. `lineage`: what its client has seen of servers. Null if there is no memory for it, or if a setting is wrong.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_new(
    now: f64,
    settings: *const u8,
    len: usize,
    seed: f64,
    lineage: *const Lineage,
) -> *mut Connect {
    // SAFETY: the host's promise at the top.
    let (settings, lineage) = unsafe { (memory::bytes(settings, len), &*lineage) };
    match Connect::new(time(now), settings, seed.to_bits(), lineage) {
        Some(connect) => made(|| connect),
        None => std::ptr::null_mut(),
    }
}

/// Frees a plan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_free(connect: *mut Connect) {
    if !connect.is_null() {
        // SAFETY: the host's promise at the top.
        drop(unsafe { Box::from_raw(connect) });
    }
}

/// The plan behind a pointer, for one call.
///
/// # Safety
/// As at the top.
unsafe fn of<'a>(connect: *mut Connect) -> &'a mut Connect {
    // SAFETY: the host's promise at the top.
    unsafe { &mut *connect }
}

/// The next action: one of the [`action`]s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_action(connect: *mut Connect) -> u32 {
    // SAFETY: the host's promise at the top.
    unsafe { of(connect) }.action().0
}

/// The host of the action, as its position in the settings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_host(connect: *mut Connect) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(connect) }.action().1
}

/// The address of the action, as its position in what the lookup found.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_address(connect: *mut Connect) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(connect) }.action().2
}

/// The time at which the action must be given up as late; infinity for never.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_until(connect: *mut Connect) -> f64 {
    // SAFETY: the host's promise at the top.
    millis(unsafe { of(connect) }.deadline())
}

/// Reports one of the [`event`]s. False if the server is not suitable. The host then reports a
/// fault of the server; `onetrip_connect_text` has the code of that error, a zero byte, and the
/// text that follows the server's name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_happened(
    connect: *mut Connect,
    now: f64,
    what: u32,
    a: u32,
) -> bool {
    // SAFETY: the host's promise at the top.
    unsafe { of(connect) }.happened(time(now), what, a)
}

/// The login on this connection is over. Returns as [`onetrip_connect_happened`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_logged_in(
    connect: *mut Connect,
    connection: *mut Connection,
    lineage: *mut Lineage,
) -> bool {
    // SAFETY: the host's promise at the top.
    let (connect, connection, lineage) = unsafe { (of(connect), &*connection, &mut *lineage) };
    connect.logged_in(connection.client.server().0, lineage)
}

/// The server of this connection has answered `onetrip_postgres_identify`. The lineage remembers
/// it. Other connections may now lead to a former primary: ask [`onetrip_lineage_compare`] of each.
/// Returns as [`onetrip_connect_happened`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_identified(
    connect: *mut Connect,
    connection: *mut Connection,
    lineage: *mut Lineage,
) -> bool {
    // SAFETY: the host's promise at the top.
    let (connect, connection, lineage) = unsafe { (of(connect), &*connection, &mut *lineage) };
    connect.identified(connection.client.server().1, lineage)
}

/// What one client has seen of servers. All of its plans share it.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_lineage_new() -> *mut Lineage {
    made(Lineage::default)
}

/// Frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_lineage_free(lineage: *mut Lineage) {
    if !lineage.is_null() {
        // SAFETY: the host's promise at the top.
        drop(unsafe { Box::from_raw(lineage) });
    }
}

/// Ends a connection if its server is a former primary, by what was seen of others since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_lineage_compare(
    lineage: *const Lineage,
    connection: *mut Connection,
) {
    // SAFETY: the host's promise at the top.
    let (lineage, connection) = unsafe { (&*lineage, &mut *connection) };
    connection.client.compare(lineage);
}

/// Reports one of the [`fault`]s with its text in UTF-8. For an error of the login, a code of five
/// characters precedes the text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_failed(
    connect: *mut Connect,
    now: f64,
    what: u32,
    text: *const u8,
    len: usize,
    lineage: *mut Lineage,
) {
    // SAFETY: the host's promise at the top.
    let (connect, lineage) = unsafe { (of(connect), &mut *lineage) };
    // SAFETY: as above.
    connect.failed(time(now), what, unsafe { memory::bytes(text, len) }, lineage);
}

/// The error for the caller, once all attempts have failed: twice its position among the faults
/// reported, plus one if several hosts have failed. `onetrip_connect_text` has its text. -1 if
/// there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_verdict(connect: *mut Connect) -> f64 {
    // SAFETY: the host's promise at the top.
    match unsafe { of(connect) }.verdict() {
        Some((error, is_of_many)) => (2 * error) as f64 + f64::from(u8::from(is_of_many)),
        None => -1.0,
    }
}

/// The text of the last event, fault or verdict. Valid until the next one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_text(connect: *mut Connect) -> *const u8 {
    // SAFETY: the host's promise at the top.
    unsafe { of(connect) }.said().as_ptr()
}

/// The length of [`onetrip_connect_text`] in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_said(connect: *mut Connect) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(connect) }.said().len()
}
