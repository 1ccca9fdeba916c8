//! The functions that a host calls, each declared in `include/onetrip.h`.
//!
//! # Safety
//! For all of them: a connection is a pointer that `onetrip_…_new` returned and that was not freed,
//! and one thread at a time uses it. Every other pointer is valid for the length passed with it.
//! Nothing else is trusted: lengths, texts and numbers are checked.

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

use onetrip_client::Connection as Client;
use onetrip_client::completion::{Completion, outcome, outcome_code, outcome_of};
pub use onetrip_client::flag;
use onetrip_client::postgres::{Act, Holder, Refused};
use onetrip_engine::memory::is_there;
use onetrip_engine::pool::TextKey;
use onetrip_engine::{CancelEnd, Retry, RetryLimits, Ticket};
use onetrip_postgres::client::stream::Rest;
use onetrip_postgres::client::texts::text_key;
use onetrip_postgres::client::transaction::modes::{Isolation, Modes};
use onetrip_postgres::client::transaction::verdict::{self, Leaver, MemberEnd};
use onetrip_postgres::message::error_response::field;
use onetrip_postgres::message::{ErrorResponse, Header, may_mend};
use onetrip_postgres::sql::{
    Place, Refusal, Traits, classify, is_shareable, refusal_of_one, refusal_of_read,
};

pub use crate::codes::{key, member, place, refused, shows};
use crate::memory;
use crate::room::Connection;
use crate::time::{deadline, millis, time};

/// The version of this interface. It is raised by each change that a host must follow.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_abi_version() -> u32 {
    1
}

// --- memory ---

/// Memory of the module for the host to write to, filled with zeros. The host owns it until it
/// calls [`onetrip_free`]. Null for a length of 0, or if there is not so much memory.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_alloc(len: usize) -> *mut u8 {
    memory::alloc(len)
}

/// Frees memory of [`onetrip_alloc`]. `len` is the length that was asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_free(start: *mut u8, len: usize) {
    // SAFETY: the host's promise at the top.
    unsafe { memory::free(start, len) }
}

// --- connections ---

/// A connection without a server. A submitted request ends at once with its own bytes, which are
/// also sent. Bytes that arrive come out unchanged.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_echo_new() -> *mut Connection {
    made(|| Connection::of(Client::echo()))
}

/// A connection to PostgreSQL over a socket that is open, after the TLS handshake if there is TLS.
/// The login is ready to be sent. Requests may be submitted at once; they follow it. `settings`:
/// pairs of name and value, each ended by a zero byte. `nonce`: 18 fresh random bytes. If a setting
/// is wrong, a `CLOSED` says what is wrong. Null if there is no memory for another connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_new(
    now: f64,
    settings: *const u8,
    len: usize,
    nonce: *const u8,
) -> *mut Connection {
    let mut fresh = [0; 18];
    // SAFETY: the host's promise at the top.
    let (settings, given) = unsafe { (memory::bytes(settings, len), memory::bytes(nonce, 18)) };
    if given.len() == fresh.len() {
        fresh.copy_from_slice(given);
    }
    made(|| Connection::of(Client::postgres(time(now), settings, fresh)))
}

/// Creates an object of the host, unless there is no memory for it.
pub(crate) fn made<T>(make: impl FnOnce() -> T) -> *mut T {
    match is_there(MADE_BYTES) {
        true => Box::into_raw(Box::new(make())),
        false => std::ptr::null_mut(),
    }
}

/// More bytes than a new connection takes.
const MADE_BYTES: usize = 64 << 10;

/// Answers a `PASSWORD`. With `given` false there is no password.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_password(
    connection: *mut Connection,
    now: f64,
    given: bool,
    password: *const u8,
    len: usize,
) {
    // SAFETY: the host's promise at the top.
    let (connection, password) = unsafe { (of(connection), memory::bytes(password, len)) };
    connection.password(time(now), given.then_some(password));
}

/// Frees a connection and all that it holds. Nothing is sent to the server, and requests in flight
/// are not reported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_connection_free(connection: *mut Connection) {
    if !connection.is_null() {
        // SAFETY: the host's promise at the top.
        drop(unsafe { Box::from_raw(connection) });
    }
}

/// The connection behind a pointer, for one call.
///
/// # Safety
/// As at the top.
unsafe fn of<'a>(connection: *mut Connection) -> &'a mut Client {
    // SAFETY: the host's promise at the top.
    unsafe { &mut room_of(connection).client }
}

/// The same with the room that the host writes to.
///
/// # Safety
/// As at the top.
unsafe fn room_of<'a>(connection: *mut Connection) -> &'a mut Connection {
    // SAFETY: the host's promise at the top.
    unsafe { &mut *connection }
}

// --- bytes of the peer ---

/// Room for `len` bytes that the peer sent. Valid until [`onetrip_received`], or until this is
/// called again. Null if there is no memory for them: then the connection has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_input(connection: *mut Connection, len: usize) -> *mut u8 {
    // SAFETY: the host's promise at the top.
    unsafe { room_of(connection) }.input_room(len)
}

/// The host has written `len` bytes to the room. They are parsed, and requests may end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_received(connection: *mut Connection, now: f64, len: usize) {
    // SAFETY: the host's promise at the top, and that it has written these bytes.
    unsafe { room_of(connection).received(time(now), len) }
}

/// Whether the bytes received so far end at the end of a message. Asked before other code reads the
/// bytes of a connection that has no requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_is_between(connection: *mut Connection) -> bool {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.input().is_empty()
}

/// How many bytes must be sent now. A busy server is written to in larger pieces, so more bytes may
/// follow once the next reply has arrived: ask again then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_transmit_len(connection: *mut Connection) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.transmit().len()
}

/// The bytes to send. Valid until the next call that submits, that hands over received bytes or
/// that reports written ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_transmit(connection: *mut Connection) -> *const u8 {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.transmit().as_ptr()
}

/// The first `len` of the bytes to send were handed to TLS or to the operating system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_written(connection: *mut Connection, now: f64, len: usize) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.written(time(now), len);
}

/// The peer has closed the connection, or it is lost. All requests in flight end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_peer_closed(connection: *mut Connection) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.peer_closed();
}

/// The host found that a reply breaks the protocol, such as a row that does not fit its columns.
/// The connection ends, and all requests in flight with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_violated(connection: *mut Connection) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.violated();
}

/// Takes no more requests, and says goodbye to the server when all are answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_terminate(connection: *mut Connection, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.terminate(time(now));
}

// --- time ---

/// The time at which to call [`onetrip_time`]; infinity for never. Each call may change it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_deadline(connection: *mut Connection) -> f64 {
    // SAFETY: the host's promise at the top.
    millis(unsafe { of(connection) }.deadline())
}

/// The time is `now`. Requests whose deadline has passed end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_time(connection: *mut Connection, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.time(time(now));
}

// --- requests ---

/// Room to write a request in. Valid until the request is submitted, or until this is called again.
/// Null if there is no memory for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_request(connection: *mut Connection, len: usize) -> *mut u8 {
    // SAFETY: the host's promise at the top.
    unsafe { room_of(connection) }.request_room(len)
}

/// Submits `len` bytes of the room to an echo. False if the connection is not an echo.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_echo_submit(
    connection: *mut Connection,
    token: u32,
    len: usize,
) -> bool {
    // SAFETY: the host's promise at the top.
    unsafe { room_of(connection) }.submit_echo(token, len)
}

/// Classifies the text of a statement, as bits of [`shows`]. A text that is not UTF-8 has no bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_classify(text: *const u8, len: usize) -> u32 {
    // SAFETY: the host's promise at the top.
    let Ok(text) = str::from_utf8(unsafe { memory::bytes(text, len) }) else { return 0 };
    let traits = classify(text);
    let shareable = if is_shareable(text, traits) { shows::SHAREABLE } else { 0 };
    u32::from(traits.bits()) | shareable
}

/// The key of a text, by which a pool knows how long its statements take, and whether they may wait
/// for a lock. Digits and single-quoted strings are left out, so texts that differ only in these
/// have the same key. 0 for a text that is not UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_text_key(text: *const u8, len: usize) -> u32 {
    // SAFETY: the host's promise at the top.
    let Ok(text) = str::from_utf8(unsafe { memory::bytes(text, len) }) else { return 0 };
    text_key(text, classify(text)).number()
}

/// Why a statement with the bits `shown` must not be sent to `place` (one of [`place`]): a code for
/// programs and a sentence, each ended by a zero byte. Null if it may be sent.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_postgres_refusal(shown: u32, place: u32) -> *const u8 {
    let traits = Traits::of_bits(shown as u16);
    let place = match place {
        place::READ => return said(refusal_of_read(traits)),
        place::SHARED => Place::Shared,
        place::PIPELINE => Place::Pipeline { alone: false },
        place::ALONE => Place::Pipeline { alone: true },
        place => Place::Session { in_transaction: place == place::TRANSACTION },
    };
    said(refusal_of_one(traits, place))
}

fn said(refusal: Option<Refusal>) -> *const u8 {
    refusal.map_or(std::ptr::null(), |refusal| refusal.said().as_ptr())
}

/// Whether a later login may succeed after the server refused this one with an ErrorResponse of
/// `len` bytes, including its type byte. True if the error can't be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_may_mend(error: *const u8, len: usize) -> u32 {
    // SAFETY: the host's promise at the top.
    let message = unsafe { memory::bytes(error, len) };
    let error = message.get(Header::LEN..).and_then(|body| ErrorResponse::decode(body).ok());
    u32::from(error.is_none_or(|ErrorResponse { fields }| {
        let value = |letter| fields.value(letter).unwrap_or_default();
        may_mend(value(field::CODE), value(field::MESSAGE))
    }))
}

/// Submits a statement: the first `len` bytes of the room. They are the text, the name if the
/// statement has one, and the parameters as in a Bind message (formats, then values; empty for
/// none). `timeout` is in milliseconds and includes the time in the queue; infinity or 0 for none.
/// `key` identifies the text to the pool, which measures how long it takes: a number from 2 that is
/// the same for the same text; 1 for a request that should be alone on its connection; 0 if
/// unknown. Returns 0 if it was sent; its place in the queue, by which it can be taken back; or one
/// of [`refused`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_submit(
    connection: *mut Connection,
    now: f64,
    token: u32,
    flags: u32,
    text_len: usize,
    name_len: usize,
    len: usize,
    timeout: f64,
    key: u32,
) -> f64 {
    let now = time(now);
    // SAFETY: the host's promise at the top.
    let connection = unsafe { room_of(connection) };
    let (request, lens) = ((token, flags, TextKey::from_number(key)), (text_len, name_len, len));
    place(connection.submit_postgres(now, request, lens, deadline(now, timeout)))
}

/// Hands over more data of a COPY FROM STDIN, from the room for requests. `part`: 0 data; 1 the end
/// of the data; 2 the caller gives up, and the room holds the reason. Returns 1 if it was taken; 0
/// if it was not: `FEED` says when it will be, unless the COPY ends first; or one of [`refused`]. A
/// COPY that is given up before it was sent is taken back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_feed(
    connection: *mut Connection,
    now: f64,
    token: u32,
    part: u32,
    len: usize,
) -> f64 {
    // SAFETY: the host's promise at the top.
    let fed = unsafe { room_of(connection) }.feed(time(now), token, part, len);
    fed.map_or_else(code, |taken| f64::from(u8::from(taken)))
}

/// The host has consumed `bytes` bytes of the stream's reply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_taken(connection: *mut Connection, bytes: usize) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.taken_of_stream(bytes);
}

/// The caller takes no more of a stream: only its end is reported. `rest` says what happens to the
/// rest of the reply. 0: it is read and dropped, as in a transaction. 1: the server is asked to
/// stop, as outside a transaction. 2: the same, and the connection ends if the rest is long,
/// because no other caller uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_leave(
    connection: *mut Connection,
    now: f64,
    token: u32,
    rest: u32,
) {
    let rest = match rest {
        0 => Rest::Read,
        1 => Rest::Cancel,
        _ => Rest::CANCEL_OR_CLOSE,
    };
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.leave(time(now), token, rest);
}

/// Asks the server which it is, where the connect plan says so, before anything else is sent.
/// `IDENTIFIED` says that it has answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_identify(connection: *mut Connection) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.identify();
}

/// No caller goes on with the transaction: sends a BEGIN that is held, and forgets that one was
/// refused. Called before another caller gets the connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_flush(connection: *mut Connection, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.flush(time(now));
}

/// Whether a BEGIN is held, unanswered or refused, and its transaction is still open. A sync point
/// of the host's then tells whether the transaction has begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_is_opening(connection: *mut Connection) -> bool {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.is_opening()
}

/// Ends a segment of members with one sync point for all of them. Without members it sends a BEGIN
/// that is held, and ends as the BEGIN does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_sync(
    connection: *mut Connection,
    now: f64,
    token: u32,
) -> f64 {
    // SAFETY: the host's promise at the top.
    place(unsafe { of(connection) }.sync(time(now), token))
}

/// The rest of a segment of members can't be submitted: what was is undone, at the sync point that
/// the host submits next.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_fail_segment(connection: *mut Connection, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.fail_segment(time(now));
}

/// Begins a transaction on a connection that one caller has alone; nothing is sent yet. Statements
/// submitted from now on belong to it. Members share a sync point, which [`onetrip_postgres_act`]
/// adds. `modes`: the lowest 3 bits are the isolation level (0 the server's default, 1 read
/// uncommitted, 2 read committed, 3 repeatable read, 4 serializable), the next 2 bits say whether
/// it is read only, and the 2 bits after them whether it is deferrable (0 the server's default, 1
/// yes, 2 no).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_begin(connection: *mut Connection, modes: u32) {
    let isolation = match modes & 7 {
        1 => Some(Isolation::ReadUncommitted),
        2 => Some(Isolation::ReadCommitted),
        3 => Some(Isolation::RepeatableRead),
        4 => Some(Isolation::Serializable),
        _ => None,
    };
    let mode = |bits: u32| matches!(bits & 3, 1 | 2).then_some(bits & 3 == 1);
    let modes = Modes { isolation, read_only: mode(modes >> 3), deferrable: mode(modes >> 5) };
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.open_block(modes);
}

/// Acts on the transaction that was begun. `act`:
/// * 0 sets a savepoint; statements submitted from now on are behind it.
/// * 1 releases the innermost savepoint, or rolls back to it if a statement behind it has failed.
/// * 2 rolls back to the innermost savepoint.
/// * 3 is COMMIT, and 4 is ROLLBACK.
/// * 5 ends the segment of the members that were submitted.
/// * 6 returns whether the start of the transaction was answered. A COPY or a text of the simple
///   protocol is only taken after that.
/// * 7 returns whether the transaction is to be run again as it stands.
/// * 8 returns the outcome of a statement that was sent with COMMIT and failed. `token` is the
///   outcome of the statement alone; both are [`outcome`]s.
/// * 9 forgets the transaction.
/// * 10 returns whether something of the innermost level may have reached the server.
/// * 11 says that a statement of the innermost level was given up before it was submitted. It can't
///   be committed or released without it: 1 and 3 then roll back, and say so.
///
/// 1, 3 and 4 end under the token. Returns the answer, or one of [`refused`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_act(
    connection: *mut Connection,
    now: f64,
    act: u32,
    token: u32,
) -> f64 {
    let act = match act {
        0 => Act::Savepoint,
        1 => Act::Release,
        2 => Act::Undo,
        3 => Act::Commit,
        4 => Act::Rollback,
        5 => Act::Flush,
        6 => Act::IsKnown,
        7 => Act::RunsAgain,
        8 => Act::WithCommit,
        10 => Act::HasLeft,
        11 => Act::LeaveOut,
        _ => Act::Forget,
    };
    // SAFETY: the host's promise at the top.
    let done = unsafe { of(connection) }.act(time(now), act, token);
    done.map_or_else(code, f64::from)
}

/// The pause before a transaction is run again that has failed `failures` times, in milliseconds.
/// Negative if it is not run again, after `attempts_max` attempts (0: the default). `seed`: any
/// number, a different one for each transaction.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_retry_pause(failures: u32, attempts_max: u32, seed: f64) -> f64 {
    let mut limits = RetryLimits::default();
    if attempts_max > 0 {
        limits.attempts_max = attempts_max;
    }
    let mut retry = Retry::new(limits, seed.to_bits());
    let pause =
        (0..failures).map_while(|_| retry.failed()).nth(failures.saturating_sub(1) as usize);
    pause.map_or(-1.0, |pause| pause.as_secs_f64() * 1e3)
}

/// What is known of a failure that leaves a transaction which was not committed, a savepoint that
/// was not kept, or a pipeline of which nothing is sent. `by`: 0 a failure of its own, 1 that of
/// another statement, 2 that of COMMIT.
/// `has_left`: a part of the whole may have reached the server (act 10). Both are [`outcome`]s.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_outcome_left(failure: u32, by: u32, has_left: bool) -> u32 {
    let by = match by {
        0 => Leaver::Own,
        1 => Leaver::Other,
        _ => Leaver::Commit,
    };
    outcome_code(verdict::left(outcome_of(failure), by, has_left))
}

/// What becomes of a segment. `members`: a byte for each of its `len` statements: [`outcome`], or
/// [`member::SKIPPED`]. `end`: the outcome of its sync point, or `NONE` if that was answered. Returns
/// 0 if it succeeded; else the [`outcome`] of the whole, and in the bits above the first three the
/// number of the statement that is the cause, from 1, or 0 if none is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_segment_failure(members: *const u8, len: usize, end: u32) -> u32 {
    let end = (end != outcome::NONE).then(|| outcome_of(end));
    // SAFETY: the host's promise at the top.
    let members =
        unsafe { memory::bytes(members, len) }.iter().map(|member| match u32::from(*member) {
            outcome::NONE => MemberEnd::Whole,
            member::SKIPPED => MemberEnd::Skipped,
            outcome => MemberEnd::Failed(outcome_of(outcome)),
        });
    verdict::of_segment(members, end).map_or(0, |failure| {
        let cause = failure.cause.map_or(0, |number| number as u32 + 1);
        cause << 3 | outcome_code(failure.outcome)
    })
}

/// What is known of a statement over all its attempts, of which the last one failed with the outcome
/// `last`. `may_have_run`: an earlier one was sent and not answered.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_outcome_over_attempts(last: u32, may_have_run: bool) -> u32 {
    outcome_code(outcome_of(last).over_attempts(may_have_run))
}

/// Takes back a request that waits in the queue: it ends as cancelled. False if it no longer waits
/// there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cancel(connection: *mut Connection, now: f64, place: f64) -> bool {
    let queued = place > 0.0;
    // SAFETY: the host's promise at the top.
    queued && unsafe { of(connection) }.cancel(time(now), Ticket::Queued(place as u64 - 1))
}

/// Asks for a request that was sent to be cancelled at the server, if that can't hit another
/// request. `CANCEL` or `NOT_CANCELLED` says what comes of it. If the request has not ended within
/// 5 s, `NOT_CANCELLED` comes all the same. A COMMIT or ROLLBACK behind it in its transaction is
/// waited for no longer either: the connection then ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_want_cancel(connection: *mut Connection, now: f64, token: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.want_cancel(time(now), &[token]);
}

/// The caller of a request that was sent waits no longer, and does not want it to be cancelled. A
/// ROLLBACK behind it in its transaction is waited for no longer than behind a cancel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_let_run(connection: *mut Connection, token: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.let_run(token);
}

/// The bytes of a cancel, once a socket to the server is open; their length is the first four
/// bytes, as in the protocol. Null if the cancel must no longer be sent. Valid until the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_begin_cancel(connection: *mut Connection, now: f64) -> *const u8 {
    // SAFETY: the host's promise at the top.
    let message = unsafe { of(connection) }.begin_cancel(time(now));
    if message.is_empty() { std::ptr::null() } else { message.as_ptr() }
}

/// What became of a cancel: 0 no byte of it was sent; 1 the server closed its socket; 2 unknown.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cancel_ended(connection: *mut Connection, now: f64, end: u32) {
    let end = match end {
        0 => CancelEnd::NotSent,
        1 => CancelEnd::Closed,
        _ => CancelEnd::Lost,
    };
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.cancel_ended(time(now), end);
}

/// Sets who uses the session from now on: 0 all callers; 1 one caller alone; 2 no caller (nothing
/// is in flight); 3 a caller that has run something that did not go through this connection.
/// Returns whether a reset of the session is owed or in flight. The reset is sent in front of the
/// next request, and nothing behind it runs unless it succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_hold(connection: *mut Connection, holder: u32) -> bool {
    let holder = match holder {
        0 => Holder::All,
        1 => Holder::One,
        2 => Holder::Nobody,
        _ => Holder::Passed,
    };
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.hold(holder)
}

/// Sends a reset that is owed now, and not with the next request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_reset(connection: *mut Connection, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.reset(time(now));
}

pub(crate) fn place(submitted: Result<Ticket, Refused>) -> f64 {
    match submitted {
        Ok(Ticket::Queued(number)) => (number + 1) as f64,
        Ok(Ticket::Sent | Ticket::Waiting(_)) => 0.0,
        Err(why) => code(why),
    }
}

fn code(refused: Refused) -> f64 {
    match refused {
        Refused::Closed => refused::CLOSED,
        Refused::Full => refused::FULL,
        Refused::Malformed => refused::MALFORMED,
        Refused::NameTaken => refused::NAME_TAKEN,
        Refused::NoMemory => refused::NO_MEMORY,
        Refused::TooLong => refused::TOO_LONG,
    }
}

// --- what happened ---

/// Frees the completions that were taken before, with their blocks, and takes the ones since.
/// Returns how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_take(connection: *mut Connection) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.take()
}

/// The completions that were taken last, as an array. They and their blocks are valid until the
/// next [`onetrip_take`], whatever is called in between.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_completions(connection: *mut Connection) -> *const Completion {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.taken().as_ptr()
}

/// The transaction status of the last ReadyForQuery: the letter `I`, `T` or `E`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_status(connection: *mut Connection) -> u32 {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.status().into()
}

/// Requests that were sent and not answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_in_flight(connection: *mut Connection) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.pending().0
}

/// Requests that wait in the queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_queued(connection: *mut Connection) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.pending().1
}
