//! The functions that a host calls, each declared in `include/onetrip.h`.
//!
//! # Safety
//! Of all of them: a connection is one that `onetrip_…_new` returned and that was not freed, and is used by one
//! thread at a time; other pointers are valid for the lengths beside them. Nothing else is trusted: lengths, texts
//! and numbers are checked.

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

use onetrip_engine::memory::is_there;
use onetrip_engine::{CancelEnd, Ticket};
use onetrip_postgres::client::stream::Rest;
use onetrip_postgres::message::error_response::field;
use onetrip_postgres::message::{ErrorResponse, Header, may_mend};
use onetrip_postgres::sql::{Place, Traits, classify, is_shareable, refusal_of_one};

use crate::completion::Completion;
use crate::connection::Connection;
use crate::memory;
use crate::postgres::{Holder, Refused};
use crate::time::{deadline, millis, time};

/// What a request is; bits that the host sets.
pub mod flag {
    /// It is a text of any number of statements, by the simple protocol.
    pub const SIMPLE: u32 = 1;
    /// Its results are to come in binary form.
    pub const BINARY: u32 = 1 << 1;
    /// It shares a sync point with the next one: more of the same segment follows in the same turn.
    pub const MEMBER: u32 = 1 << 2;
    /// It is never prepared by counting.
    pub const UNPREPARED: u32 = 1 << 3;
    /// It is a COPY FROM STDIN. The first of its data stands in the place of parameters, and the rest is fed.
    pub const COPY_IN: u32 = 1 << 4;
    /// Its reply is taken as it comes: `READ` tells when to stop reading, and `onetrip_postgres_taken` what was taken.
    /// For a connection that one caller has to himself.
    pub const STREAM: u32 = 1 << 5;
    /// It may run twice: on a shared connection neighbouring reads of which that is said share a sync point.
    pub const REPEATABLE: u32 = 1 << 6;
    pub(crate) const ALL: u32 =
        SIMPLE | BINARY | MEMBER | UNPREPARED | COPY_IN | STREAM | REPEATABLE;
}

/// What the text of a statement shows, as bits.
pub mod shows {
    /// It begins, ends or divides a transaction.
    pub const CONTROL: u32 = 1;
    /// It ends with its transaction: SET LOCAL, SET CONSTRAINTS.
    pub const LOCAL: u32 = 1 << 1;
    /// It makes, uses or drops something that lives in the session.
    pub const SESSION: u32 = 1 << 2;
    /// It commits by itself and can't be part of a transaction.
    pub const ALONE: u32 = 1 << 3;
    /// COPY FROM STDIN or TO STDOUT.
    pub const COPY: u32 = 1 << 4;
    /// CALL or DO: it may commit in between.
    pub const CALL: u32 = 1 << 5;
    /// More than one statement.
    pub const SEVERAL: u32 = 1 << 6;
    /// One read that shows no writing.
    pub const READ: u32 = 1 << 7;
    /// Control that leaves the transaction open.
    pub const SAVEPOINT: u32 = 1 << 8;
    /// COMMIT or END.
    pub const COMMIT: u32 = 1 << 9;
    /// COPY FROM STDIN.
    pub const COPY_IN: u32 = 1 << 10;
    /// It is a SELECT or its like, an INSERT, UPDATE, DELETE, MERGE or SHOW.
    pub const QUERY: u32 = 1 << 11;
    /// It is not on the short list of what can leave nothing behind in its session.
    pub const MAY_LEAVE: u32 = 1 << 12;
    /// It may run next to others': one query that shows nothing of the session.
    pub const SHAREABLE: u32 = 1 << 16;
}

/// Where a statement is about to go.
pub mod place {
    /// A connection that others use too, with a sync point of its own.
    pub const SHARED: u32 = 0;
    /// A pipeline on such a connection.
    pub const PIPELINE: u32 = 1;
    /// The same, between two sync points.
    pub const ALONE: u32 = 2;
    /// A connection of the caller's own.
    pub const SESSION: u32 = 3;
    /// The same, with a transaction open that sees each BEGIN, COMMIT and ROLLBACK.
    pub const TRANSACTION: u32 = 4;
}

/// Why a request was not taken. Nothing of it was sent, and nothing comes under its token.
pub mod refused {
    /// The connection has ended, or takes no new requests.
    pub const CLOSED: f64 = -1.0;
    /// The queue is full.
    pub const FULL: f64 = -2.0;
    /// It is no request: lengths that do not fit, a text that is not UTF-8 or holds a zero byte, unknown flags,
    /// a token that is 0, too large or on its way already.
    pub const MALFORMED: f64 = -3.0;
    /// The name stands for another text.
    pub const NAME_TAKEN: f64 = -4.0;
    /// There is no memory for it.
    pub const NO_MEMORY: f64 = -5.0;
}

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

/// How many bytes are to be sent.
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
/// taken back; or one of [`refused`].
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
) -> f64 {
    let now = time(now);
    // SAFETY: the host's promise at the top.
    let connection = unsafe { of(connection) };
    let lens = (text_len, name_len, len);
    place(connection.submit_postgres(now, (token, flags), lens, deadline(now, timeout)))
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
