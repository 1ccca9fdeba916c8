//! The functions of a cache of Redis that a host calls, each declared in `include/onetrip.h`.
//!
//! # Safety
//! As in [`export`](crate::export).

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

pub use onetrip_client::cache::{Cache, CacheCounts};
use onetrip_redis::client::cache::{FetchId, Found, Writes};

use crate::export::made;
use crate::memory;

/// What [`onetrip_cache_look_up`] returns where it returns no reply.
pub mod found {
    /// The cache has nothing: the command is sent, and nothing is reported of it.
    pub const NOTHING: usize = 0;
    /// Another caller has asked. The number of this one comes when that one is answered.
    pub const JOINED: usize = 1;
    /// The command is sent, and what comes of it is reported with the number of the fetch.
    pub const FETCH: usize = 2;
}

/// An empty cache of at most so many bytes. Null if there is no memory for it.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_cache_new(bytes_max: usize) -> *mut Cache {
    made(|| Cache::new(bytes_max))
}

/// Frees a cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cache_free(cache: *mut Cache) {
    if !cache.is_null() {
        // SAFETY: the host's promise at the top.
        drop(unsafe { Box::from_raw(cache) });
    }
}

/// The cache behind a pointer, for one call.
///
/// # Safety
/// As at the top.
unsafe fn of<'a>(cache: *mut Cache) -> &'a mut Cache {
    // SAFETY: the host's promise at the top.
    unsafe { &mut *cache }
}

/// The connection with this number tracks keys: its replies are kept from now on. Each connection
/// has a number of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cache_opened(cache: *mut Cache, connection: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(cache) }.opened(connection);
}

/// The connection is lost, or its pushes are not read any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cache_closed(cache: *mut Cache, connection: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(cache) }.closed(connection);
}

/// Looks for the reply to a command in wire format. Returns its address, which is valid until the
/// next call on this cache, or one of [`found`]. `join`: the number of the caller, if it joins.
/// `fetch`: where to write the number of a fetch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cache_look_up(
    cache: *mut Cache,
    command: *const u8,
    len: usize,
    join: u32,
    fetch: *mut u64,
) -> usize {
    // SAFETY: the host's promise at the top.
    let (cache, command) = unsafe { (of(cache), memory::bytes(command, len)) };
    match cache.look_up(command, join) {
        // The cache has another reference to these bytes.
        Found::Hit(reply) => reply.as_ptr().addr(),
        Found::Joined => found::JOINED,
        Found::Fetch(id) => {
            // SAFETY: the host's promise at the top.
            unsafe { fetch.write(id.number()) }
            found::FETCH
        }
        Found::Nothing => found::NOTHING,
    }
}

/// A fetch has ended on the connection with this number, with its whole reply, or with no bytes if
/// none comes. Returns how many joined it, and are answered by the same reply or ask by themselves.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cache_ended(
    cache: *mut Cache,
    fetch: *const u64,
    connection: u32,
    reply: *const u8,
    len: usize,
) -> usize {
    // SAFETY: the host's promise at the top.
    let (cache, fetch) = unsafe { (of(cache), FetchId::of_number(fetch.read())) };
    // SAFETY: the host's promise at the top.
    cache.ended(fetch, connection, unsafe { memory::bytes(reply, len) })
}

/// The numbers of those who joined the fetch that ended last. Valid until the next one ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cache_joined(cache: *mut Cache) -> *const u32 {
    // SAFETY: the host's promise at the top.
    unsafe { of(cache) }.joined().as_ptr()
}

/// The caller of a fetch is gone. True if nobody joined it: then the fetch may be taken back, and
/// nothing more is reported of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cache_left(cache: *mut Cache, fetch: *const u64) -> bool {
    // SAFETY: the host's promise at the top.
    unsafe { of(cache).left(FetchId::of_number(fetch.read())) }
}

/// A push was read. Returns whether it was one for the cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cache_pushed(
    cache: *mut Cache,
    push: *const u8,
    len: usize,
) -> bool {
    // SAFETY: the host's promise at the top.
    let (cache, push) = unsafe { (of(cache), memory::bytes(push, len)) };
    cache.pushed(push)
}

/// The client submits these commands, on whichever connection. Returns what they may change, for
/// [`onetrip_cache_written`]; null for nothing. A script is reported as EVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cache_submitted(
    cache: *mut Cache,
    commands: *const u8,
    len: usize,
) -> *mut Writes {
    // SAFETY: the host's promise at the top.
    let (cache, commands) = unsafe { (of(cache), memory::bytes(commands, len)) };
    cache.submitted(commands).map_or(std::ptr::null_mut(), |it| Box::into_raw(Box::new(it)))
}

/// These commands have ended, and their caller is not told yet. Frees `writes`; `cache` is null if
/// it was freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cache_written(cache: *mut Cache, writes: *mut Writes) {
    // SAFETY: the host's promise at the top.
    let (cache, writes) = unsafe { (cache.as_mut(), Box::from_raw(writes)) };
    cache.into_iter().for_each(|cache| cache.wrote(&writes));
}

/// Writes what was counted, and what is kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cache_counts_now(cache: *mut Cache, counts: *mut CacheCounts) {
    // SAFETY: the host's promise at the top.
    unsafe { counts.write(of(cache).counts()) }
}
