//! The functions that a host calls, each declared in `include/onetrip.h`.
//!
//! # Safety
//! Of all of them: a connection is one that `onetrip_…_new` returned and that was not freed, and is used by one
//! thread at a time; other pointers are valid for the lengths beside them. Nothing else is trusted: lengths, texts
//! and numbers are checked.

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

use onetrip_engine::memory::is_there;
use onetrip_engine::pool::TextKey;
use onetrip_engine::{CancelEnd, Retry, RetryLimits, Ticket};
use onetrip_postgres::client::stream::Rest;
use onetrip_postgres::client::transaction::modes::{Isolation, Modes};
use onetrip_postgres::message::error_response::field;
use onetrip_postgres::message::{ErrorResponse, Header, may_mend};
use onetrip_postgres::sql::{Place, Traits, classify, is_shareable, refusal_of_one};

pub use crate::codes::{flag, place, refused, shows};
use crate::completion::Completion;
use crate::connection::Connection;
use crate::memory;
use crate::postgres::blocks::Act;
use crate::postgres::{Holder, Refused};
use crate::time::{deadline, millis, time};

/// The version of this interface. It changes with what a host would have to change for.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_abi_version() -> u32 {
    1
}

// --- memory ---

/// Memory of the module for the host to write to: zeroed, and null for no bytes or where there is not so much. It is the
/// host's until [`onetrip_free`].
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_alloc(len: usize) -> *mut u8 {
    memory::alloc(len)
}

/// Gives memory back, with the length with which it was asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_free(start: *mut u8, len: usize) {
    // SAFETY: the host's promise at the top.
    unsafe { memory::free(start, len) }
}

// --- connections ---

/// A connection without a server: what is submitted ends at once with its own bytes and is to be sent, and what
/// arrives comes out as it came.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_echo_new() -> *mut Connection {
    made(Connection::echo)
}

/// A connection to PostgreSQL over a socket that is open, and through TLS if there is to be TLS. The login is to be
/// sent at once; requests may be submitted at once, and follow it. `settings`: pairs of name and value, each ended by a
/// zero byte. `nonce`: 18 fresh random bytes. Wrong settings come out as a `CLOSED` that says what is wrong.
/// Null if there is no memory for another connection.
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
    made(|| Connection::postgres(time(now), settings, fresh))
}

/// What a host is to have, unless there is no memory for it.
pub(crate) fn made<T>(make: impl FnOnce() -> T) -> *mut T {
    match is_there(MADE_BYTES) {
        true => Box::into_raw(Box::new(make())),
        false => std::ptr::null_mut(),
    }
}

/// More than a connection has before anything is asked of it.
const MADE_BYTES: usize = 64 << 10;

/// Says the password that a `PASSWORD` has asked for; not `given`: there is none.
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

/// Frees a connection and all that it holds. No goodbye is said, and nobody hears of what was on its way.
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
unsafe fn of<'a>(connection: *mut Connection) -> &'a mut Connection {
    // SAFETY: the host's promise at the top.
    unsafe { &mut *connection }
}

// --- bytes of the peer ---

/// Room for so many bytes that arrived. Valid until [`onetrip_received`], or until it is asked for anew. Null if there is no
/// memory for them: then the connection has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_input(connection: *mut Connection, len: usize) -> *mut u8 {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.input_room(len)
}

/// The host has written so many bytes to the room; they are framed, and replies may end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_received(connection: *mut Connection, now: f64, len: usize) {
    // SAFETY: the host's promise at the top, and that it has written these bytes.
    let connection = unsafe {
        let connection = of(connection);
        connection.input.received(len);
        connection
    };
    connection.received(time(now));
}

/// Whether what was received ends with the end of a message, so that what comes next is the begin of another one. For
/// before the bytes of a connection without requests are read by somebody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_is_between(connection: *mut Connection) -> bool {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.input.is_empty()
}

/// How many bytes are to be sent now. What may wait for the next reply is not among them before that came: ask again then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_transmit_len(connection: *mut Connection) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.transmit().len()
}

/// What is to be sent. Valid until the next call that submits, takes bytes or says that some were written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_transmit(connection: *mut Connection) -> *const u8 {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.transmit().as_ptr()
}

/// So many bytes of what is to be sent were handed to TLS or to the operating system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_written(connection: *mut Connection, now: f64, len: usize) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.written(time(now), len);
}

/// The peer has closed the connection, or it is lost: all that is on its way ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_peer_closed(connection: *mut Connection) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.peer_closed();
}

/// What came can't be explained by whoever read it, such as a row that does not fit its columns: the connection ends, and
/// all that is on its way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_violated(connection: *mut Connection) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.violated();
}

/// Takes no more requests, and says goodbye when all is answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_terminate(connection: *mut Connection, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.terminate(time(now));
}

// --- time ---

/// When [`onetrip_time`] is to be called; infinity for never. It changes with each call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_deadline(connection: *mut Connection) -> f64 {
    // SAFETY: the host's promise at the top.
    millis(unsafe { of(connection) }.deadline())
}

/// It is so late. What has a deadline that has passed ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_time(connection: *mut Connection, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.time(time(now));
}

// --- requests ---

/// Room in which a request is written. Valid until it is submitted, or until room is asked for anew. Null if there is no
/// memory for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_request(connection: *mut Connection, len: usize) -> *mut u8 {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.room(len)
}

/// Submits so many bytes of the room to an echo. Whether it is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_echo_submit(
    connection: *mut Connection,
    token: u32,
    len: usize,
) -> bool {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.submit_echo(token, len)
}

/// What a text shows: bits of [`shows`]. One that is not UTF-8 shows nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_classify(text: *const u8, len: usize) -> u32 {
    // SAFETY: the host's promise at the top.
    let Ok(text) = str::from_utf8(unsafe { memory::bytes(text, len) }) else { return 0 };
    let traits = classify(text);
    let shareable = if is_shareable(text, traits) { shows::SHAREABLE } else { 0 };
    u32::from(traits.bits()) | shareable
}

/// Why a statement that shows this is not to go there, `place` being one of [`place`]: a name for programs and a sentence, each
/// ended by a zero byte. Null if it may.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_postgres_refusal(shown: u32, place: u32) -> *const u8 {
    let place = match place {
        place::SHARED => Place::Shared,
        place::PIPELINE => Place::Pipeline { alone: false },
        place::ALONE => Place::Pipeline { alone: true },
        place => Place::Session { in_transaction: place == place::TRANSACTION },
    };
    let refusal = refusal_of_one(Traits::of_bits(shown as u16), place);
    refusal.map_or(std::ptr::null(), |refusal| refusal.said().as_ptr())
}

/// Whether time may mend that a server refused a login by this ErrorResponse, of `len` bytes with its
/// type. One that can't be read says nothing against it.
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

/// Submits a statement: `len` bytes of the room, which are its text, its name if it has one, and its parameters as they
/// stand in a Bind (formats, then values; nothing at all for none). `timeout` is in milliseconds and covers the
/// queue; infinity or 0 for none. Returns 0 if it was sent, or its place in the queue, by which it can be
/// taken back; or one of [`refused`]. `key`: a number from 2 that is the same for the same text, by which the pool
/// knows how long it takes; 1 for one that wants to be alone on its connection; 0 where nothing is said.
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
    let connection = unsafe { of(connection) };
    let (request, lens) = ((token, flags, TextKey::from_number(key)), (text_len, name_len, len));
    place(connection.submit_postgres(now, request, lens, deadline(now, timeout)))
}

/// Hands over more of a COPY FROM STDIN, which lies in the room for requests. `part`: 0 data, 1 that it is over, 2 that the
/// COPY is given up, for a reason. 1 if it was taken; 0 where it is not yet: `FEED` comes when it will be, unless the COPY ends
/// before; or why it is refused, as in [`refused`].
/// One that is given up before it was sent is taken back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_feed(
    connection: *mut Connection,
    now: f64,
    token: u32,
    part: u32,
    len: usize,
) -> f64 {
    // SAFETY: the host's promise at the top.
    let fed = unsafe { of(connection) }.feed(time(now), token, part, len);
    fed.map_or_else(code, |taken| f64::from(u8::from(taken)))
}

/// So many bytes of a stream were taken, of those that came under its token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_taken(connection: *mut Connection, bytes: usize) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.taken_of_stream(bytes);
}

/// Nobody takes more of a stream: only its end comes. `rest`: 0 what is still to come is read, as in a transaction; 1 the server
/// is asked to stop, where it is in none; 2 the same, and the connection ends if it is much, since nobody else has it.
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

/// Nobody goes on with a transaction: sends a BEGIN that is held, and forgets that one was refused. For before
/// a connection is lent to somebody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_flush(connection: *mut Connection, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.flush(time(now));
}

/// Whether a BEGIN is held, unanswered or refused, and the transaction goes on: a sync point of the host's tells
/// whether it has begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_is_opening(connection: *mut Connection) -> bool {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.is_opening()
}

/// Ends a segment of members: one sync point for all of them. Without members it sends a BEGIN that is held, and
/// ends as that does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_postgres_sync(
    connection: *mut Connection,
    now: f64,
    token: u32,
) -> f64 {
    // SAFETY: the host's promise at the top.
    place(unsafe { of(connection) }.sync(time(now), token))
}

/// Begins a transaction on a connection that one caller has to himself; nothing is sent yet. What is submitted from now on
/// belongs to it, and members share a sync point that [`onetrip_postgres_act`] adds. `modes`: in the lowest 3 bits the isolation (0
/// what the server has set, 1 read uncommitted, 2 read committed, 3 repeatable read, 4 serializable), in 2 bits each whether it is
/// read only and deferrable (0 what the server has set, 1 yes, 2 no).
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

/// Does something with the transaction that was begun. `act`: 0 sets a savepoint, behind which all goes from now on; 1 releases the
/// innermost savepoint, or rolls back to it where a statement behind it has failed; 2 rolls back to it; 3 COMMIT; 4 ROLLBACK; 5 ends the segment
/// of the members that were submitted; 6 says whether what begins it was answered: only then a COPY or a text of the simple protocol
/// is taken; 7 whether it is run again, as things stand; 8 what is known of a statement that left with COMMIT and failed, both as
/// [`outcome`](crate::completion::outcome), its own being `token`; 9 forgets the transaction. 1, 3 and 4 end under the token. Returns
/// what it says, or one of [`refused`].
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
        _ => Act::Forget,
    };
    // SAFETY: the host's promise at the top.
    let done = unsafe { of(connection) }.act(time(now), act, token);
    done.map_or_else(code, f64::from)
}

/// How many milliseconds pass before a transaction is run again that has failed so often. Negative where it is not: it was tried
/// `attempts_max` times (0: as often as by default). `seed`: any number, another one for each transaction.
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

/// Takes a request back that has not been sent: it ends as cancelled. Whether that was so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cancel(connection: *mut Connection, now: f64, place: f64) -> bool {
    let queued = place > 0.0;
    // SAFETY: the host's promise at the top.
    queued && unsafe { of(connection) }.cancel(time(now), Ticket::Queued(place as u64 - 1))
}

/// Asks for a request that was sent to be cancelled at the server, where that harms no other. What becomes
/// of it comes as `CANCEL` or `NOT_CANCELLED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_want_cancel(connection: *mut Connection, now: f64, token: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.want_cancel(time(now), token);
}

/// A socket to the server is open, and the cancel is about to be sent on it. Returns what to send, its length in front as
/// the protocol has it; null if it is not to be sent after all. Valid until the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_begin_cancel(connection: *mut Connection, now: f64) -> *const u8 {
    // SAFETY: the host's promise at the top.
    let message = unsafe { of(connection) }.begin_cancel(time(now));
    if message.is_empty() { std::ptr::null() } else { message.as_ptr() }
}

/// What became of a cancel: 0 if no byte of it was sent, 1 if the server closed its socket, 2 if nobody
/// knows.
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

/// Who has the session from now on: 0 all callers, 1 one for himself, 2 nobody any more (nothing is on its way), 3 one who
/// has run something past this connection. Whether the session is to be reset, or is being reset: the reset leaves in front of
/// the next request, and nothing behind it runs unless it succeeds.
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

/// Sends the reset now, if one is owed, and not with the next request.
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
    }
}

// --- what happened ---

/// Lets go of the completions that were taken before, with their blocks, and takes those that came since. Returns how
/// many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_take(connection: *mut Connection) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.take()
}

/// The completions that were taken last, one behind the other. They and their blocks are valid until the next
/// [`onetrip_take`], whatever is called meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_completions(connection: *mut Connection) -> *const Completion {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.taken().as_ptr()
}

/// The transaction status that the server told last: the letter `I`, `T` or `E`.
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

/// Requests that wait for the window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_queued(connection: *mut Connection) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(connection) }.pending().1
}
