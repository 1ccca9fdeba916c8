//! The functions of the plan of how a client comes to a server, each declared in
//! `include/onetrip.h`.
//!
//! # Safety
//! As in [`export`](crate::export), of plans.

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

use crate::connect::Connect;
use crate::export::made;
use crate::memory;
use crate::time::{millis, time};

/// What the host does next.
pub mod action {
    /// It looks the host's name up.
    pub const RESOLVE: u32 = 1;
    /// It opens a socket to an address of the host, and lets go of the one that it had.
    pub const DIAL: u32 = 2;
    /// It asks for TLS and reads one byte.
    pub const ASK_FOR_TLS: u32 = 3;
    /// It does the handshake.
    pub const BEGIN_TLS: u32 = 4;
    /// It logs in.
    pub const LOG_IN: u32 = 5;
    /// Nothing: the connection can be used.
    pub const DONE: u32 = 6;
    /// Nothing: there is none.
    pub const FAILED: u32 = 7;
}

/// What happened.
pub mod event {
    /// So many addresses were found.
    pub const RESOLVED: u32 = 1;
    /// The socket is connected.
    pub const CONNECTED: u32 = 2;
    /// The byte that answers the question for TLS, and [`EARLY`].
    pub const ANSWERED: u32 = 3;
    /// TLS stands.
    pub const SECURED: u32 = 4;
    /// What the server says of itself: `in_hot_standby` in the lowest two bits, and
    /// `default_transaction_read_only` in the next: 0 not said, 1 off, 2 on.
    pub const LOGGED_IN: u32 = 5;
    /// More than the answer has come.
    pub const EARLY: u32 = 256;
}

/// What went wrong.
pub mod fault {
    /// Nobody answered at this address, or not in time.
    pub const UNREACHABLE: u32 = 1;
    /// The handshake of TLS failed.
    pub const HANDSHAKE: u32 = 2;
    /// The server refused the login.
    pub const LOG_IN: u32 = 3;
    /// Anything else of this server.
    pub const SERVER: u32 = 4;
    /// Something of this side, which is the same for all servers.
    pub const OURS: u32 = 5;
}

/// A plan. `settings`: pairs of name and value, each ended by a zero byte; `seed`: any number, for
/// the random order. Null if there is no memory for it, or the settings are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_new(
    now: f64,
    settings: *const u8,
    len: usize,
    seed: f64,
) -> *mut Connect {
    // SAFETY: the host's promise at the top.
    let settings = unsafe { memory::bytes(settings, len) };
    match Connect::new(time(now), settings, seed.to_bits()) {
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

/// One of the [`action`]s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_action(connect: *mut Connect) -> u32 {
    // SAFETY: the host's promise at the top.
    unsafe { of(connect) }.action().0
}

/// The host that it is about, by its place in the settings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_host(connect: *mut Connect) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(connect) }.action().1
}

/// The address, by its place in what was found.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_address(connect: *mut Connect) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(connect) }.action().2
}

/// When the action is given up, as unreachable; infinity: never.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_until(connect: *mut Connect) -> f64 {
    // SAFETY: the host's promise at the top.
    millis(unsafe { of(connect) }.plan.deadline())
}

/// One of the [`event`]s. False: the server won't do, which is to be reported as a fault of the
/// server; `onetrip_connect_text` has the code of that error, a zero byte, and what stands behind the server's
/// name.
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

/// One of the [`fault`]s; and what it says, in UTF-8, behind the code of five letters for an error
/// of the login.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_failed(
    connect: *mut Connect,
    now: f64,
    what: u32,
    text: *const u8,
    len: usize,
) {
    // SAFETY: the host's promise at the top.
    let (connect, text) = unsafe { (of(connect), memory::bytes(text, len)) };
    connect.failed(time(now), what, text);
}

/// Once all has failed: the place of the error that the caller is given among those that were told,
/// twice, and one more where it is of several hosts; `onetrip_connect_text` has its text. -1 where there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_verdict(connect: *mut Connect) -> f64 {
    // SAFETY: the host's promise at the top.
    match unsafe { of(connect) }.verdict() {
        Some((error, is_of_many)) => (2 * error) as f64 + f64::from(u8::from(is_of_many)),
        None => -1.0,
    }
}

/// What is said, until the next event, fault or verdict.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_text(connect: *mut Connect) -> *const u8 {
    // SAFETY: the host's promise at the top.
    unsafe { of(connect) }.said.as_ptr()
}

/// Its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connect_said(connect: *mut Connect) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(connect) }.said.len()
}
