//! The error of every call: whose fault it is, what is known of the effect, and one clear line.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use onetrip_engine::Outcome;
use onetrip_engine::pool::{Cause, Limits};
use onetrip_postgres::client::said;
use onetrip_postgres::message::ServerError;

use crate::fate::Fate;

/// Why a call failed. Cheap to clone.
///
/// `Display` is one line. For an error of the server it is the server's message and the SQLSTATE.
/// Everything else that may hold values is behind getters ([`detail`](Error::detail),
/// [`hint`](Error::hint), [`where_`](Error::where_), [`server`](Error::server),
/// [`conversion`](Error::conversion)), and appears neither in `Debug` nor among the sources. The
/// server writes the message itself, and some messages quote a value (`invalid input syntax for
/// type integer: "x"`).
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: Kind,
    outcome: Outcome,
    code: &'static str,
    message: Cow<'static, str>,
    server: Option<ServerError>,
    redis_code: Option<Box<str>>,
    source: Option<Source>,
    conversion: Option<Source>,
    /// The transaction of the statement, if what becomes of that says more.
    part_of: Option<Arc<Fate>>,
}

type Source = Arc<dyn std::error::Error + Send + Sync>;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The server refused the statement, or ended the session.
    Server,
    /// The peer broke its protocol.
    Protocol,
    /// The call can't be made like this; the message says what to do instead. Mostly nothing was
    /// sent, but not always: see [`Error::outcome`].
    Misuse,
    /// The network or the operating system.
    Transport,
    /// A deadline passed.
    Timeout,
    /// The caller cancelled it.
    Cancelled,
    /// A value could not be converted to or from its PostgreSQL type.
    Conversion,
}

impl Error {
    /// Whose fault the error is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What is known of the effect of the statement.
    ///
    /// `Applied` in a transaction says that the statement took effect in it, `NotSent` that it was not
    /// sent there, and `Unknown` that its answer did not come. Once the transaction was rolled back,
    /// or has ended with its connection, the same error says `Rejected`: so does the one that leaves
    /// [`run`](crate::Client::run). (If nothing of the transaction was sent, `NotSent` stays.)
    pub fn outcome(&self) -> Outcome {
        match &self.0.part_of {
            Some(fate) => fate.of(self.0.outcome),
            None => self.0.outcome,
        }
    }

    /// A stable name of the error, for programs: `server_error`, `connection_lost`, `timeout`, …
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// The SQLSTATE, if the server sent one.
    pub fn sqlstate(&self) -> Option<&str> {
        self.0.server.as_ref().map(|server| server.code.as_str())
    }

    /// The first word of an error of Redis: `WRONGTYPE`, `ERR`, `MOVED`, …
    pub fn redis_code(&self) -> Option<&str> {
        self.0.redis_code.as_deref()
    }

    /// All fields of the server's error. They may hold values.
    pub fn server(&self) -> Option<&ServerError> {
        self.0.server.as_ref()
    }

    /// The server's detail, which mostly quotes values:
    /// `Key (id)=(5) already exists.`
    pub fn detail(&self) -> Option<&str> {
        self.0.server.as_ref()?.detail.as_deref()
    }

    /// The server's hint on what to do.
    pub fn hint(&self) -> Option<&str> {
        self.0.server.as_ref()?.hint.as_deref()
    }

    /// The server's context of the error: a call stack, one line each, which may quote statements
    /// and values.
    pub fn where_(&self) -> Option<&str> {
        self.0.server.as_ref()?.where_.as_deref()
    }

    /// The error of the code that converts the value: `postgres-types`, another crate, or your own
    /// type. It may quote the value.
    pub fn conversion(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.0.conversion.as_deref()
    }

    /// Whether no byte of the call can have reached the server, so that the same call may be made
    /// again without a risk that it takes effect twice. (A `Rejected` call has no effect either,
    /// but would mostly be rejected again.)
    pub fn is_retry_safe(&self) -> bool {
        matches!(self.0.outcome, Outcome::NotSent)
    }

    /// Whether the connection is gone, so that no further call on it can succeed.
    pub fn is_connection_lost(&self) -> bool {
        matches!(self.0.code, CONNECTION_LOST | CLOSED)
    }

    pub(crate) fn new(
        kind: Kind,
        outcome: Outcome,
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Error {
        let message = message.into();
        Error(Arc::new(Inner {
            kind,
            outcome,
            code,
            message,
            server: None,
            redis_code: None,
            source: None,
            conversion: None,
            part_of: None,
        }))
    }

    /// The error of calls on a client that was closed.
    pub(crate) fn client_closed() -> Error {
        Error::unserved(Cause::Closed, &Limits::default())
    }

    /// The error of a call that gets no connection of a pool.
    pub(crate) fn unserved(cause: Cause, limits: &Limits) -> Error {
        let kind = match cause {
            Cause::LineFull => Kind::Misuse,
            Cause::Deadline => Kind::Timeout,
            Cause::OpenFailed | Cause::Closed => Kind::Transport,
        };
        Error::new(kind, Outcome::NotSent, cause.code(), cause.told(limits))
    }

    pub(crate) fn config(error: crate::config::ConfigError) -> Error {
        Error::misuse("config", error.to_string())
    }

    pub(crate) fn misuse(code: &'static str, message: impl Into<Cow<'static, str>>) -> Error {
        Error::new(Kind::Misuse, Outcome::NotSent, code, message)
    }

    /// A deadline passed before anything was sent.
    pub(crate) fn late(message: &'static str) -> Error {
        Error::new(Kind::Timeout, Outcome::NotSent, "timeout", message)
    }

    /// The reply to a statement that took effect can't be read.
    pub(crate) fn unreadable(message: impl Into<Cow<'static, str>>) -> Error {
        Error::new(Kind::Conversion, Outcome::Applied, "unreadable_reply", message)
    }

    /// The reply to a statement that took effect breaks the protocol. Nothing more that this
    /// connection delivers can be trusted, so whoever makes this error closes it.
    pub(crate) fn malformed(message: impl Into<Cow<'static, str>>) -> Error {
        Error::new(Kind::Protocol, Outcome::Applied, MALFORMED_REPLY, message)
    }

    pub(crate) fn server_error(server: ServerError, outcome: Outcome) -> Error {
        let message = match crate::advice::on(&server) {
            Some(advice) => format!("{server}: {advice}"),
            None => server.to_string(),
        };
        let error = Error::new(Kind::Server, outcome, SERVER_ERROR, message);
        error.change(|inner| inner.server = Some(server))
    }

    pub(crate) fn with_source(
        self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        let source = Some(Arc::from(source.into()));
        self.change(|inner| inner.source = source)
    }

    pub(crate) fn with_conversion(
        self,
        conversion: Box<dyn std::error::Error + Send + Sync>,
    ) -> Error {
        self.change(|inner| inner.conversion = Some(Arc::from(conversion)))
    }

    pub(crate) fn with_outcome(self, outcome: Outcome) -> Error {
        if self.0.outcome == outcome && self.0.part_of.is_none() {
            return self;
        }
        self.change(|inner| (inner.outcome, inner.part_of) = (outcome, None))
    }

    /// The same error of a statement of this transaction, if what becomes of that says more of it.
    pub(crate) fn part_of(self, fate: Option<&Arc<Fate>>) -> Error {
        match fate.filter(|_| self.0.outcome != Outcome::Rejected) {
            Some(fate) => self.change(|inner| inner.part_of = Some(fate.clone())),
            None => self,
        }
    }

    pub(crate) fn with_redis_code(self, code: String) -> Error {
        self.change(|inner| inner.redis_code = Some(code.into()))
    }

    pub(crate) fn with_code(self, code: &'static str) -> Error {
        self.change(|inner| inner.code = code)
    }

    pub(crate) fn with_message(self, message: String) -> Error {
        self.change(|inner| inner.message = Cow::Owned(message))
    }

    /// Puts the subject of the error in front of its message.
    pub(crate) fn about(self, what: impl fmt::Display) -> Error {
        let message = format!("{what}: {}", self.0.message);
        self.change(|inner| inner.message = Cow::Owned(message))
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) -> Error {
        let old = &*self.0;
        let mut inner = Inner {
            kind: old.kind,
            outcome: old.outcome,
            code: old.code,
            message: old.message.clone(),
            server: old.server.clone(),
            redis_code: old.redis_code.clone(),
            source: old.source.clone(),
            conversion: old.conversion.clone(),
            part_of: old.part_of.clone(),
        };
        change(&mut inner);
        Error(Arc::new(inner))
    }
}

pub(crate) const SERVER_ERROR: &str = "server_error";
pub(crate) const RESULT_TOO_LARGE: &str = "result_too_large";
pub(crate) const MALFORMED_REPLY: &str = "malformed_reply";
pub(crate) const ABORTED: &str = said::ABORTED.code;
pub(crate) const CONNECTION_LOST: &str = "connection_lost";
/// It was closed by this program.
pub(crate) const CLOSED: &str = "closed";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("outcome", &self.outcome())
            .field("code", &self.0.code)
            .field("message", &self.0.message)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}
