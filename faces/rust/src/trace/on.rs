//! Spans and events. Fields are named as in OpenTelemetry's conventions for databases.

use std::sync::Arc;
use std::time::Duration;

use tracing::field::Empty;
use tracing::{debug, debug_span, warn};

use crate::Error;
use crate::config::{LogStatements, Resolved};
use crate::core::{Connection, Context};
use crate::notice::Notice;
use crate::statement::Source;

/// The settings that spans show.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    texts: bool,
    namespace: Arc<str>,
}

impl Options {
    pub(crate) fn new(resolved: &Resolved) -> Options {
        Options {
            texts: resolved.settings().log_statements == LogStatements::Text,
            namespace: resolved.dbname().into(),
        }
    }
}

/// The span of a statement, from its call until its reply is taken or dropped.
#[derive(Debug)]
pub(crate) struct Span(tracing::Span);

impl Default for Span {
    fn default() -> Span {
        Span(tracing::Span::none())
    }
}

impl Span {
    pub(crate) fn of(context: &Context, source: Source<'_>) -> Span {
        let span = debug_span!(
            target: "onetrip",
            "statement",
            otel.kind = "client",
            db.system.name = "postgresql",
            db.namespace = Empty,
            db.operation.name = Empty,
            db.query.text = Empty,
            server.address = Empty,
            server.port = Empty,
            db.response.status_code = Empty,
            error.type = Empty,
        );
        if span.is_disabled() {
            return Span::default();
        }
        let options = &context.options.trace;
        span.record("db.namespace", &*options.namespace);
        let text = match source {
            Source::Text(text) | Source::Unprepared(text) => text,
            Source::Prepared(statement) => &statement.0.metadata.sql,
        };
        if let Some(operation) = operation(text) {
            span.record("db.operation.name", operation);
        }
        if options.texts {
            span.record("db.query.text", text);
        }
        Span(span)
    }

    /// Notes the connection on which the statement was answered, or failed.
    pub(crate) fn on(&self, connection: &Connection) {
        if self.0.is_disabled() {
            return;
        }
        let (address, port) = server(connection);
        self.0.record("server.address", address);
        if let Some(port) = port {
            self.0.record("server.port", port);
        }
    }

    pub(crate) fn failed(&self, error: &Error) {
        if let Some(code) = error.sqlstate() {
            self.0.record("db.response.status_code", code);
        }
        self.0.record("error.type", error.sqlstate().unwrap_or(error.code()));
    }
}

/// The first word of a statement, if it is a known one: an unknown word might be a value.
fn operation(text: &str) -> Option<&'static str> {
    let text = text.trim_start();
    let word = text.split(|c: char| !c.is_ascii_alphabetic()).next()?;
    OPERATIONS.iter().find(|operation| operation.eq_ignore_ascii_case(word)).copied()
}

const OPERATIONS: [&str; 26] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "MERGE",
    "WITH",
    "VALUES",
    "TABLE",
    "CALL",
    "DO",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT",
    "RELEASE",
    "SET",
    "CREATE",
    "ALTER",
    "DROP",
    "TRUNCATE",
    "COPY",
    "LOCK",
    "EXPLAIN",
    "VACUUM",
    "LISTEN",
    "NOTIFY",
];

/// Notices that came while the lock was held.
#[derive(Debug, Default)]
pub(crate) struct Untold(Vec<(Notice, bool)>);

impl Untold {
    pub(crate) fn notice(&mut self, context: &Context, block: &[u8]) {
        if tracing::enabled!(target: "onetrip", tracing::Level::DEBUG) {
            self.0.extend(Notice::read(block).map(|notice| (notice, context.options.trace.texts)));
        }
    }

    pub(crate) fn take(&mut self) -> Untold {
        std::mem::take(self)
    }

    pub(crate) fn tell(self) {
        for (notice, with_text) in self.0 {
            let (severity, code) = (notice.severity(), notice.code());
            match with_text {
                true => {
                    let text = notice.message();
                    debug!(target: "onetrip", severity, code, text, "notice");
                }
                false => debug!(target: "onetrip", severity, code, "notice"),
            }
        }
    }
}

pub(crate) fn notice(context: &Context, block: &[u8]) {
    let mut untold = Untold::default();
    untold.notice(context, block);
    untold.tell();
}

pub(crate) fn opened(result: Result<&Arc<Connection>, &Error>) {
    match result {
        Ok(connection) => {
            let (address, port) = server(connection);
            debug!(target: "onetrip", { server.address = address, server.port = port }, "connected");
        }
        Err(error) => open_failed(error),
    }
}

pub(crate) fn open_failed(error: &Error) {
    warn!(target: "onetrip", { error.type = error.code(), %error }, "connecting failed");
}

/// A connection has ended: it was lost, or closed from this side.
pub(crate) fn ended(connection: &Connection) {
    let why = connection.lock().why_lost();
    match why {
        Some(error) => lost(&error),
        None => closed(),
    }
}

pub(crate) fn closed() {
    debug!(target: "onetrip", "connection closed");
}

pub(crate) fn lost(error: &Error) {
    warn!(target: "onetrip", { error.type = error.code(), %error }, "connection lost");
}

/// A session changed the state of its connection, so the connection is reset.
pub(crate) fn reset() {
    debug!(target: "onetrip", "a connection came back changed, and is reset");
}

pub(crate) fn waits() {
    debug!(target: "onetrip", "a caller waits for a connection");
}

pub(crate) fn waited(time: Duration) {
    debug!(target: "onetrip", seconds = time.as_secs_f64(), "a caller has waited for a connection");
}

fn server(connection: &Connection) -> (String, Option<u16>) {
    let core = connection.lock();
    let (address, port) = core.route().server();
    (address.to_owned(), port)
}

#[cfg(test)]
mod tests {
    use super::operation;

    #[test]
    fn only_known_words_are_operations() {
        assert_eq!(operation("  select 1"), Some("SELECT"));
        assert_eq!(operation("Update t set a = 1"), Some("UPDATE"));
        assert_eq!(operation("secret"), None);
        assert_eq!(operation(""), None);
        assert_eq!(operation("/* select */ insert"), None);
    }
}
