//! The longest body that each type of message can have.
//!
//! A length above the limit is a violation, and is refused before any byte of the body is awaited.
//! Both ends share the tables, so model servers reject what a real server would. Before
//! authentication, the caller also limits the bytes of all messages together
//! ([`crate::startup::PRE_AUTH_LEN_MAX`]).

use super::tag::{backend, frontend};

/// The largest length field of any message: PQ_LARGE_MESSAGE_LIMIT, (MaxAllocSize - 1), in
/// src/include/libpq/libpq.h. It counts itself (pq_getmessage in src/backend/libpq/pqcomm.c).
pub const LARGE_LEN_MAX: u32 = 0x3fff_fffe;

/// The largest length field of short messages to the server: PQ_SMALL_MESSAGE_LIMIT in
/// src/include/libpq/libpq.h.
pub const SMALL_LEN_MAX: u32 = 10_000;

/// The largest length field of a startup packet: MAX_STARTUP_PACKET_LENGTH in
/// src/include/libpq/pqcomm.h.
pub const STARTUP_LEN_MAX: u32 = 10_000;

/// The largest length field of an answer to an authentication request: PG_MAX_AUTH_TOKEN_LENGTH in
/// src/include/libpq/auth.h.
pub const AUTH_TOKEN_LEN_MAX: u32 = 65_535;

/// The largest length field that libpq accepts for messages that are not expected to be long
/// (pqParseInput3 in src/interfaces/libpq/fe-protocol3.c). A server that works with libpq stays
/// below.
pub const LIBPQ_SHORT_LEN_MAX: u32 = 30_000;

/// The shortest and the longest cancel key, by the protocol's definition of BackendKeyData. The
/// server's own limit is MAX_CANCEL_KEY_LENGTH, 32, in src/include/storage/procsignal.h.
pub const CANCEL_KEY_LEN: std::ops::RangeInclusive<usize> = 4..=256;

/// The longest body of a server's message of this type; `None` if no message has the type.
#[inline]
pub fn max_len(tag: u8) -> Option<u32> {
    Some(match tag {
        backend::DATA_ROW | backend::COPY_DATA | backend::FUNCTION_CALL_RESPONSE => {
            LARGE_LEN_MAX - 4
        }
        backend::PARSE_COMPLETE
        | backend::BIND_COMPLETE
        | backend::CLOSE_COMPLETE
        | backend::COPY_DONE
        | backend::EMPTY_QUERY_RESPONSE
        | backend::NO_DATA
        | backend::PORTAL_SUSPENDED => 0,
        backend::READY_FOR_QUERY => 1,
        // The server's buffer is 64 bytes (COMPLETION_TAG_BUFSIZE in src/include/tcop/cmdtag.h),
        // and so is libpq's (CMDSTATUS_LEN in libpq-int.h). Other servers get more room.
        backend::COMMAND_COMPLETE => 1024,
        // 1,664 result columns at most (MaxTupleAttributeNumber in access/htup_details.h), each 18
        // bytes and a name of up to 64 (NAMEDATALEN): 133 KiB. Servers with longer names get eight
        // times that.
        backend::ROW_DESCRIPTION => 1 << 20,
        backend::PARAMETER_DESCRIPTION => 2 + 4 * 65_535,
        // The server has no limit (send_message_to_frontend in utils/error/elog.c): RAISE prints
        // any text, and the context of an error in PL/pgSQL quotes the whole statement. A limit
        // that is too low would close a healthy connection. One that is too high costs no more than
        // a row may.
        backend::ERROR_RESPONSE | backend::NOTICE_RESPONSE => 16 << 20,
        // Channel and payload together stay below a page (NOTIFY_PAYLOAD_MAX_LENGTH in
        // commands/async.c), and a page is 32 KiB at most (BLCKSZ); then the process id and two
        // NULs.
        backend::NOTIFICATION_RESPONSE => 32 * 1024 + 6,
        backend::PARAMETER_STATUS => LIBPQ_SHORT_LEN_MAX - 4,
        backend::BACKEND_KEY_DATA => 4 + *CANCEL_KEY_LEN.end() as u32,
        // 1,600 columns at most in a table (MaxHeapAttributeNumber), two bytes each; libpq's limit
        // is above that.
        backend::COPY_IN_RESPONSE | backend::COPY_OUT_RESPONSE | backend::COPY_BOTH_RESPONSE => {
            LIBPQ_SHORT_LEN_MAX - 4
        }
        // libpq refuses length fields above 2,000 for both (PQconnectPoll in fe-connect.c).
        backend::AUTHENTICATION | backend::NEGOTIATE_PROTOCOL_VERSION => 2000 - 4,
        _ => return None,
    })
}

/// The longest body of a client's message of this type; `None` if no message has the type
/// (SocketBackend in src/backend/tcop/postgres.c).
#[inline]
pub fn frontend_max_len(tag: u8) -> Option<u32> {
    Some(match tag {
        frontend::QUERY | frontend::PARSE | frontend::BIND | frontend::COPY_DATA => {
            LARGE_LEN_MAX - 4
        }
        frontend::FUNCTION_CALL => LARGE_LEN_MAX - 4,
        frontend::CLOSE
        | frontend::DESCRIBE
        | frontend::EXECUTE
        | frontend::FLUSH
        | frontend::SYNC
        | frontend::TERMINATE
        | frontend::COPY_DONE
        | frontend::COPY_FAIL => SMALL_LEN_MAX - 4,
        frontend::PASSWORD => AUTH_TOKEN_LEN_MAX - 4,
        _ => return None,
    })
}
