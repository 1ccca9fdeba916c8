//! The functions of pools that a host calls, each declared in `include/onetrip.h`.
//!
//! # Safety
//! As in [`export`](crate::export); and a connection that a pool was told of lives until the pool was told that it is lost or
//! broken, or has said `POOL_CLOSE`, or was freed itself.

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

use onetrip_engine::Time;
use onetrip_engine::pool::{Condition, Repeats, TextKey};

use crate::completion::Completion;
use crate::connection::Connection;
use crate::export::made;
use crate::handle::Handle;
use crate::memory;
use crate::pool::Pool;
use crate::time::{millis, time};

/// In which condition a connection comes back.
pub mod condition {
    /// As it was when it was opened.
    pub const CLEAN: u32 = 0;
    /// A reset is owed, which rides along with the next user's first request.
    pub const DIRTY: u32 = 1;
    /// A reset is owed that others may wait for.
    pub const DIRTY_HOLDING: u32 = 2;
    /// It can't be used any more, and the pool forgets it.
    pub const BROKEN: u32 = 3;
}

/// A pool without connections. `settings`: pairs of name and value, each ended by a zero byte; a wrong one comes out
/// as a `CLOSED` that says what is wrong. `seed`: any number, another one for each pool, for the jitter of
/// pauses and lifetimes. Null if there is no memory for a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_new(
    now: f64,
    settings: *const u8,
    len: usize,
    seed: f64,
) -> *mut Pool {
    // SAFETY: the host's promise at the top.
    let settings = unsafe { memory::bytes(settings, len) };
    made(|| Pool::new(time(now), settings, seed.to_bits()))
}

/// Frees a pool. Its connections are the host's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_free(pool: *mut Pool) {
    if !pool.is_null() {
        // SAFETY: the host's promise at the top.
        drop(unsafe { Box::from_raw(pool) });
    }
}

/// The pool behind a pointer, for one call.
///
/// # Safety
/// As at the top.
unsafe fn of<'a>(pool: *mut Pool) -> &'a mut Pool {
    // SAFETY: the host's promise at the top.
    unsafe { &mut *pool }
}

/// The moment at which a caller no longer waits. Infinity: never. Negative: as the pool's settings say.
fn patience(now: Time, timeout: f64) -> Option<Time> {
    match timeout {
        timeout if timeout < 0.0 || timeout.is_nan() => None,
        f64::INFINITY => Some(Time::NEVER),
        timeout => Some(now.after(std::time::Duration::from_nanos((timeout * 1e6) as u64))),
    }
}

/// Asks for a connection of one's own, which `POOL_GRANTED` brings, or `POOL_FAILED` refuses. `timeout` is in milliseconds: 0
/// for at once or never, infinity for no end, negative for the pool's own. False if the token waits already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_checkout(
    pool: *mut Pool,
    now: f64,
    token: u32,
    timeout: f64,
) -> bool {
    let now = time(now);
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.checkout(now, token, patience(now, timeout))
}

/// The number of the connection on which a shared request goes at once; 0 if it has to wait. `key`: as of
/// `onetrip_postgres_submit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_place(pool: *mut Pool, now: f64, key: u32) -> u32 {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.place(time(now), TextKey::from_number(key))
}

/// Keeps the place in line of a shared request, which `POOL_PLACED` ends, or `POOL_FAILED`. `key` as above, the rest as
/// in `onetrip_pool_checkout`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_wait_shared(
    pool: *mut Pool,
    now: f64,
    token: u32,
    key: u32,
    timeout: f64,
) -> bool {
    let now = time(now);
    let key = TextKey::from_number(key);
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.wait_shared(now, token, key, patience(now, timeout))
}

/// A request that may be sent a second time was made: see [`onetrip_pool_hedge`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_may_hedge(pool: *mut Pool) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.may_hedge();
}

/// Whether a request that may run twice, and is unanswered on the connection `number`, is sent a second time since
/// its answer is late. Positive: the number of the connection for that. Negative: ask again after as many
/// milliseconds, infinity for never. `key`: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_hedge(
    pool: *mut Pool,
    now: f64,
    number: u32,
    key: u32,
) -> f64 {
    let now = time(now);
    // SAFETY: the host's promise at the top.
    match unsafe { of(pool) }.hedge(now, number, TextKey::from_number(key)) {
        Ok(number) => number.into(),
        Err(Time::NEVER) => f64::NEG_INFINITY,
        // The resolution of a host's timers.
        Err(at) => -(at.since(now).as_secs_f64() * 1e3).max(1.0),
    }
}

/// A caller no longer waits. False if what it waited for is on its way: a connection that it is granted then has
/// to be released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_give_up(pool: *mut Pool, now: f64, token: u32) -> bool {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.give_up(time(now), token)
}

/// A connection that was granted comes back, in one of the [`condition`]s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_release(
    pool: *mut Pool,
    now: f64,
    number: u32,
    condition: u32,
) {
    let condition = match condition {
        condition::CLEAN => Condition::Clean,
        condition::DIRTY => Condition::Dirty,
        condition::DIRTY_HOLDING => Condition::DirtyHolding,
        _ => Condition::Broken,
    };
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.release(time(now), number, condition);
}

/// A connection that `POOL_OPEN` asked for is open and logged in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_opened(
    pool: *mut Pool,
    now: f64,
    number: u32,
    connection: *mut Connection,
) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool).opened(time(now), number, Handle::new(connection)) }
}

/// How many milliseconds pass before a request that may run twice, and whose connection was lost, is sent again for the
/// `number`-th time. Negative where it is not. `seed`: any number, another one for each request.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_pool_repeat_pause(number: u32, seed: f64) -> f64 {
    let pause = Repeats::default().pause(number, seed.to_bits());
    pause.map_or(-1.0, |pause| pause.as_secs_f64() * 1e3)
}

/// It could not be opened. `permanent`: time does not mend it, as a wrong password.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_open_failed(
    pool: *mut Pool,
    now: f64,
    number: u32,
    permanent: bool,
) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.open_failed(time(now), number, permanent);
}

/// A connection is broken: the pool forgets it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_lost(pool: *mut Pool, now: f64, number: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.lost(time(now), number);
}

/// Takes a connection out of use, when it has answered what it has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_retire(pool: *mut Pool, now: f64, number: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.retire(time(now), number);
}

/// Replies have come on a connection: somebody who waits may have a place now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_answered(pool: *mut Pool, now: f64, number: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.answered(time(now), number);
}

/// All that the pool told was acted on: what it placed on a connection (`POOL_PLACED`) was submitted there, or
/// will not be. Until then such a connection counts as busy. To be called behind each table in which something
/// was placed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_acted(pool: *mut Pool, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.acted(time(now));
}

/// Ends the pool. `CLOSED` comes when no connection is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_close(pool: *mut Pool, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.close(time(now));
}

/// When [`onetrip_pool_time`] is to be called; infinity for never. It changes with each call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_deadline(pool: *mut Pool) -> f64 {
    // SAFETY: the host's promise at the top.
    millis(unsafe { of(pool) }.deadline())
}

/// It is so late.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_time(pool: *mut Pool, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.time(time(now));
}

/// Connections of any state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_connections(pool: *mut Pool) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.counts()[0]
}

/// Connections that nobody uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_idle(pool: *mut Pool) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.counts()[1]
}

/// Callers that wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_waiting(pool: *mut Pool) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.counts()[2]
}

/// As [`onetrip_take`](crate::export::onetrip_take), of a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_take(pool: *mut Pool) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.take()
}

/// As [`onetrip_completions`](crate::export::onetrip_completions), of a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_completions(pool: *mut Pool) -> *const Completion {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.taken().as_ptr()
}
