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
    /// A value that the type of a parameter has no room for.
    pub const OUT_OF_RANGE: &str = "22003";
    /// A text that is no date or time.
    pub const INVALID_TIME: &str = "22007";
    /// The bytes of a parameter are no value of its type.
    pub const INVALID_BINARY: &str = "22P03";
    /// The data of a COPY is no rows.
    pub const BAD_COPY: &str = "22P04";
    /// There is no such column.
    pub const NO_COLUMN: &str = "42703";
    /// There is no cast from the type of a parameter to that of its column.
    pub const DATATYPE: &str = "42804";
    /// There is no such table.
    pub const NO_TABLE: &str = "42P01";
    /// A type was dropped.
    pub const LOOKUP: &str = "XX000";
    /// The client broke the protocol.
    pub const PROTOCOL: &str = "08P01";
    /// The password is wrong.
    pub const PASSWORD: &str = "28P01";
}

/// The function that reports an error. Only this and the code identify some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Routine {
    /// The plan is stale.
    Plan,
    /// There are not so many columns as formats.
    Formats,
}

impl Routine {
    pub(super) fn name(self) -> &'static str {
        match self {
            Routine::Plan => "RevalidateCachedQuery",
            Routine::Formats => "PortalSetResultFormat",
        }
    }
}

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
        code::OUT_OF_RANGE => "value is out of range",
        code::INVALID_TIME => "invalid input syntax for a date or time",
        code::INVALID_BINARY => "incorrect binary data format",
        code::BAD_COPY => "unexpected data of a COPY",
        code::NO_COLUMN => "column does not exist",
        code::DATATYPE => "column is of one type but expression is of another",
        code::NO_TABLE => "relation does not exist",
        code::LOOKUP => "cache lookup failed for type",
        _ => "protocol violation",
    };
    ServerError {
        severity: severity.to_owned(),
        code: code.to_owned(),
        message: op.map_or_else(|| what.to_owned(), |op| format!("op={op}: {what}")),
        routine: (code == code::STALE).then(|| Routine::Plan.name().to_owned()),
        ..ServerError::default()
    }
}

/// The message of a server that is shut down: an ErrorResponse of severity FATAL, whole.
pub fn fatal() -> BytesMut {
    let mut out = BytesMut::new();
    error("FATAL", code::SHUTDOWN, None).encode_error(&mut out).expect("there is no NUL in it");
    out
}
