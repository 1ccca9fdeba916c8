//! The functions of pools that a host calls, each declared in `include/onetrip.h`.
//!
//! # Safety
//! As in [`export`](crate::export). A connection that was added to a pool must live until the pool
//! was told that it is lost or broken, or until the pool has said `POOL_CLOSE` for it, or until the
//! pool is freed.

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

use onetrip_client::completion::Completion;
use onetrip_engine::Time;
use onetrip_engine::pool::{Condition, Repeats, Requeue, TextKey};

use crate::export::made;
use crate::handle::Handle;
use crate::memory;
use crate::room::Connection;
use crate::time::{millis, time};

/// The condition in which a connection is returned.
pub mod condition {
    /// Its session is as it was when the connection was opened.
    pub const CLEAN: u32 = 0;
    /// A reset is owed, and is sent with the next request.
    pub const DIRTY: u32 = 1;
    /// A reset is owed, and callers may wait for it.
    pub const DIRTY_HOLDING: u32 = 2;
    /// It can't be used again, and the pool forgets it.
    pub const BROKEN: u32 = 3;
}

/// One pool. The host has a pointer to it, from [`onetrip_pool_new`] until [`onetrip_pool_free`].
pub type Pool = onetrip_client::Pool<Handle>;

/// A pool without connections. `settings`: pairs of name and value, each ended by a zero byte; if
/// one is wrong, a `CLOSED` says what is wrong. `seed`: any number, a different one for each pool;
/// it sets the jitter of pauses and lifetimes. Null if there is no memory for a pool.
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

/// Frees a pool. Its connections remain, and belong to the host.
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

/// The time at which a caller stops waiting. Infinity: never. Negative: the pool's default.
fn patience(now: Time, timeout: f64) -> Option<Time> {
    match timeout {
        timeout if timeout < 0.0 || timeout.is_nan() => None,
        f64::INFINITY => Some(Time::NEVER),
        timeout => Some(now.after(std::time::Duration::from_nanos((timeout * 1e6) as u64))),
    }
}

/// Asks for a connection for one caller. `POOL_GRANTED` or `POOL_FAILED` answers. `timeout` is in
/// milliseconds: 0 for no waiting, infinity for no limit, negative for the pool's default. False if
/// the token waits already.
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

/// The number of the connection that a shared request can be sent on now; 0 if it has to wait.
/// `key`: as in `onetrip_postgres_submit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_place(pool: *mut Pool, now: f64, key: u32) -> u32 {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.place(time(now), TextKey::from_number(key))
}

/// Puts a shared request in line for a connection. `POOL_PLACED` or `POOL_FAILED` answers. `key` is
/// as above; the rest is as in `onetrip_pool_checkout`.
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

/// Until when a shared request of which `UNSENT` was told may wait in line for another connection;
/// negative if it has failed. It is then placed as at first, behind those in line, and waits no
/// longer than that. `times`: how often it was so before. `until`: what was returned then. `left`:
/// the milliseconds that are left of its own time, infinity for the pool's `wait_timeout_ms` from
/// the first time on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_again(
    pool: *mut Pool,
    now: f64,
    times: u32,
    until: f64,
    left: f64,
) -> f64 {
    let now = time(now);
    let deadline = patience(now, left).unwrap_or(Time::NEVER);
    let mut requeue = (times > 0).then(|| Box::new(Requeue::after(times, time(until))));
    // SAFETY: the host's promise at the top.
    let until = unsafe { of(pool) }.requeue(now, deadline, &mut requeue);
    until.map_or(-1.0, millis)
}

/// Counts a request that may be hedged: see [`onetrip_pool_hedge`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_may_hedge(pool: *mut Pool) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.may_hedge();
}

/// Whether to hedge a repeatable request that is unanswered on the connection `number`. Positive:
/// send it again, on the connection with that number. Negative: ask again after that many
/// milliseconds; infinity for never. `key`: as above.
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

/// A caller stops waiting. False if its answer is already in the completions: a connection that it
/// is granted must then be released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_give_up(pool: *mut Pool, now: f64, token: u32) -> bool {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.give_up(time(now), token)
}

/// A caller returns a connection, in one of the [`condition`]s.
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

/// A connection that `POOL_OPEN` asked for is open, and its login has succeeded.
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

/// The pause before a repeatable request whose connection was lost is sent again for the
/// `number`-th time, in milliseconds. Negative if it is not sent again. `seed`: any number, a
/// different one for each request.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_pool_repeat_pause(number: u32, seed: f64) -> f64 {
    let pause = Repeats::default().pause(number, seed.to_bits());
    pause.map_or(-1.0, |pause| pause.as_secs_f64() * 1e3)
}

/// A connection that `POOL_OPEN` asked for could not be opened. `permanent`: a retry can't help, as
/// after a wrong password.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_open_failed(
    pool: *mut Pool,
    now: f64,
    number: u32,
    permanent: bool,
) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.open_failed(time(now), number, permanent, true);
}

/// A connection is lost or broken: the pool forgets it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_lost(pool: *mut Pool, now: f64, number: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.lost(time(now), number);
}

/// Retires a connection: the pool closes it once all its requests are answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_retire(pool: *mut Pool, now: f64, number: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.retire(time(now), number);
}

/// Replies have arrived on a connection: a waiting request may have room there now, or it may have
/// answered the last that the pool waits for before it closes it. To be called whenever replies
/// have arrived, and quick where nobody waits. Returns whether there may be completions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_answered(pool: *mut Pool, now: f64, number: u32) -> bool {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.answered(time(now), number)
}

/// The host has acted on all completions of the last table: each request of a `POOL_PLACED` was
/// submitted, or never will be. Until this call the connections of these requests count as busy. To
/// be called after each table that holds a `POOL_PLACED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_acted(pool: *mut Pool, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.acted(time(now));
}

/// Closes the pool: later callers are refused, those that wait are still served. `CLOSED` comes when
/// no connection is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_close(pool: *mut Pool, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.close(time(now));
}

/// Closes the pool, and refuses the callers that wait. The host ends the connections that are in use,
/// and reports them as lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_cut(pool: *mut Pool, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.cut(time(now));
}

/// The time at which to call [`onetrip_pool_time`]; infinity for never. Each call may change it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_deadline(pool: *mut Pool) -> f64 {
    // SAFETY: the host's promise at the top.
    millis(unsafe { of(pool) }.deadline())
}

/// The time is `now`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_time(pool: *mut Pool, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.time(time(now));
}

/// The attempt that `POOL_SCOUT` asked for is over, whatever it met.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_scouted(pool: *mut Pool, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.scouted(time(now));
}

/// How many connections there are, in any state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_connections(pool: *mut Pool) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.counts()[0]
}

/// How many connections no caller uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_idle(pool: *mut Pool) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.counts()[1]
}

/// How many callers wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_waiting(pool: *mut Pool) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.counts()[2]
}

/// As [`onetrip_take`](crate::export::onetrip_take), for a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_take(pool: *mut Pool) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.take()
}

/// As [`onetrip_completions`](crate::export::onetrip_completions), for a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_pool_completions(pool: *mut Pool) -> *const Completion {
    // SAFETY: the host's promise at the top.
    unsafe { of(pool) }.taken().as_ptr()
}
