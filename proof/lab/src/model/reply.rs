//! The errors and notices of the model.

use bytes::BytesMut;
use onetrip_postgres::message::ServerError;

/// SQLSTATEs that the model sends.
pub mod code {
    /// Division by zero: `fail=execute`.
    pub const DIVISION: &str = "22012";
    /// A parameter that can't be read: `fail=bind`.
    pub const INVALID_TEXT: &str = "22P02";
    /// A text that is no statement: `fail=parse`.
    pub const SYNTAX: &str = "42601";
    /// A unique constraint, seen at the commit: `fail=commit`.
    pub const UNIQUE: &str = "23505";
    /// An administrator ended the session: `fail=fatal`.
    pub const SHUTDOWN: &str = "57P01";
    /// No such prepared statement.
    pub const NO_STATEMENT: &str = "26000";
    /// No such portal.
    pub const NO_PORTAL: &str = "34000";
    /// The name of the prepared statement is taken.
    pub const STATEMENT_TAKEN: &str = "42P05";
    /// The name of the portal is taken.
    pub const PORTAL_TAKEN: &str = "42P03";
    /// The plan returns other columns now: a stale prepared statement.
    pub const STALE: &str = "0A000";
    /// The transaction has failed.
    pub const ABORTED: &str = "25P02";
    /// There is no transaction, or there is one already.
    pub const NO_TRANSACTION: &str = "25P01";
    /// A cancel request ended the statement.
    pub const CANCELLED: &str = "57014";
    /// The client broke the protocol.
    pub const PROTOCOL: &str = "08P01";
    /// The password is wrong.
    pub const PASSWORD: &str = "28P01";
}

/// The name of the function that reports a stale plan. Only this and the code identify that error.
const STALE_ROUTINE: &str = "RevalidateCachedQuery";

/// An error about a statement. If the statement has an identity, the message begins with `op=` and
/// it.
pub(super) fn error(severity: &str, code: &str, op: Option<u64>) -> ServerError {
    let what = match code {
        code::DIVISION => "division by zero",
        code::INVALID_TEXT => "invalid input syntax",
        code::SYNTAX => "syntax error",
        code::UNIQUE => "duplicate key value violates unique constraint",
        code::SHUTDOWN => "terminating connection due to administrator command",
        code::NO_STATEMENT => "prepared statement does not exist",
        code::NO_PORTAL => "portal does not exist",
        code::STATEMENT_TAKEN => "prepared statement already exists",
        code::PORTAL_TAKEN => "portal already exists",
        code::STALE => "cached plan must not change result type",
        code::ABORTED => "current transaction is aborted",
        code::NO_TRANSACTION => "there is no transaction in progress",
        code::CANCELLED => "canceling statement due to user request",
        code::PASSWORD => "password authentication failed",
        _ => "protocol violation",
    };
    ServerError {
        severity: severity.to_owned(),
        code: code.to_owned(),
        message: op.map_or_else(|| what.to_owned(), |op| format!("op={op}: {what}")),
        routine: (code == code::STALE).then(|| STALE_ROUTINE.to_owned()),
        ..ServerError::default()
    }
}

/// The message of a server that is shut down: an ErrorResponse of severity FATAL, whole.
pub fn fatal() -> BytesMut {
    let mut out = BytesMut::new();
    error("FATAL", code::SHUTDOWN, None).encode_error(&mut out).expect("there is no NUL in it");
    out
}
