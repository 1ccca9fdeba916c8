//! The functions of Redis Sentinel that a host calls, each declared in `include/onetrip.h`.
//!
//! # Safety
//! As in [`export`](crate::export).

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

use onetrip_client::Sentinel;
use onetrip_client::completion::Completion;

use crate::export::made;
use crate::memory;
use crate::time::{millis, time};

/// The Sentinels of one client. `settings`: pairs of name and value, each ended by a zero byte:
/// `master`, `sentinel` (host:port, for each), `user`, `password`, `reads`, `wait_timeout_ms`.
/// `seed`: any number, a different one for each client. Null if a setting is wrong, or if there is
/// no memory for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_new(
    settings: *const u8,
    len: usize,
    seed: f64,
) -> *mut Sentinel {
    // SAFETY: the host's promise at the top.
    let settings = unsafe { memory::bytes(settings, len) };
    match Sentinel::new(settings, seed.to_bits()) {
        Ok(sentinel) => made(|| sentinel),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Frees it. Its connections remain, and belong to the host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_free(sentinel: *mut Sentinel) {
    if !sentinel.is_null() {
        // SAFETY: the host's promise at the top.
        drop(unsafe { Box::from_raw(sentinel) });
    }
}

/// The Sentinels behind a pointer, for one call.
///
/// # Safety
/// As at the top.
unsafe fn of<'a>(sentinel: *mut Sentinel) -> &'a mut Sentinel {
    // SAFETY: the host's promise at the top.
    unsafe { &mut *sentinel }
}

/// A text of the host, for the duration of a call.
///
/// # Safety
/// As at the top.
unsafe fn text<'a>(start: *const u8, len: usize) -> &'a str {
    // SAFETY: the host's promise at the top.
    std::str::from_utf8(unsafe { memory::bytes(start, len) }).unwrap_or_default()
}

/// A connection to the server with this role is wanted. `seat`: the host's number of it, which no
/// other has. `SENTINEL_DIAL` says where the server is, `SENTINEL_NOT_FOUND` that it was not found.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_connect(
    sentinel: *mut Sentinel,
    now: f64,
    seat: u32,
    role: u32,
) {
    // SAFETY: the host's promise at the top.
    unsafe { of(sentinel) }.connect(time(now), seat, role);
}

/// The connection is open, and its server has its role.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_opened(sentinel: *mut Sentinel, now: f64, seat: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(sentinel) }.opened(time(now), seat);
}

/// The connection could not be opened, or was lost; `is_open`: its server says that it has lost its
/// role, and the connection takes nothing new. `why`: a text for messages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_lost(
    sentinel: *mut Sentinel,
    now: f64,
    seat: u32,
    is_open: bool,
    why: *const u8,
    len: usize,
) {
    // SAFETY: the host's promise at the top.
    let (sentinel, why) = unsafe { (of(sentinel), text(why, len)) };
    match is_open {
        true => sentinel.useless(time(now), seat, why),
        false => sentinel.lost(time(now), seat, why),
    }
}

/// The connection ended as it should, or is wanted no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_left(sentinel: *mut Sentinel, seat: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(sentinel) }.left(seat);
}

/// Whether a replica answers a command now that goes by itself on a connection that others share.
/// `only_reads`: that is all it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_is_for_replica(
    sentinel: *mut Sentinel,
    only_reads: bool,
) -> bool {
    // SAFETY: the host's promise at the top.
    unsafe { of(sentinel) }.is_for_replica(only_reads)
}

/// Bytes came from a Sentinel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_input(
    sentinel: *mut Sentinel,
    now: f64,
    line: u32,
    bytes: *const u8,
    len: usize,
) {
    // SAFETY: the host's promise at the top.
    let (sentinel, bytes) = unsafe { (of(sentinel), memory::bytes(bytes, len)) };
    sentinel.input(time(now), line, bytes);
}

/// A connection to a Sentinel could not be opened, or has ended. `why`: a text for messages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_closed(
    sentinel: *mut Sentinel,
    now: f64,
    line: u32,
    why: *const u8,
    len: usize,
) {
    // SAFETY: the host's promise at the top.
    let (sentinel, why) = unsafe { (of(sentinel), text(why, len)) };
    sentinel.closed(time(now), line, why);
}

/// Asks nobody any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_close(sentinel: *mut Sentinel) {
    // SAFETY: the host's promise at the top.
    unsafe { of(sentinel) }.close();
}

/// The time at which to call [`onetrip_sentinel_time`]; infinity for never. Each call may change
/// it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_deadline(sentinel: *mut Sentinel) -> f64 {
    // SAFETY: the host's promise at the top.
    millis(unsafe { of(sentinel) }.deadline())
}

/// The time is `now`. The first call asks the Sentinels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_time(sentinel: *mut Sentinel, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(sentinel) }.time(time(now));
}

/// As [`onetrip_take`](crate::export::onetrip_take), for Sentinels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_take(sentinel: *mut Sentinel) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(sentinel) }.take()
}

/// As [`onetrip_completions`](crate::export::onetrip_completions), for Sentinels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_sentinel_completions(
    sentinel: *mut Sentinel,
) -> *const Completion {
    // SAFETY: the host's promise at the top.
    unsafe { of(sentinel) }.taken().as_ptr()
}
