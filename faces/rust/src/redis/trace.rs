//! Events and spans of the feature `tracing`, named as for PostgreSQL.

use std::sync::Arc;

use super::link::Link;
use crate::Error;

/// The span of a command, from its call until its reply is taken or dropped.
#[cfg(feature = "tracing")]
#[derive(Debug)]
pub(crate) struct Span(tracing::Span);

#[cfg(feature = "tracing")]
impl Span {
    pub(crate) fn of(name: &str) -> Span {
        use tracing::field::Empty;
        let span = tracing::debug_span!(
            target: "onetrip",
            "command",
            otel.kind = "client",
            db.system.name = "redis",
            db.operation.name = Empty,
            server.address = Empty,
            server.port = Empty,
            db.response.status_code = Empty,
            error.type = Empty,
        );
        span.record("db.operation.name", name);
        Span(span)
    }

    /// Notes the connection on which it was sent.
    pub(crate) fn on(&self, link: &Link) {
        if self.0.is_disabled() {
            return;
        }
        let core = link.lock();
        let (address, port) = core.route.server();
        self.0.record("server.address", address);
        if let Some(port) = port {
            self.0.record("server.port", port);
        }
    }

    pub(crate) fn failed(&self, error: &Error) {
        if let Some(code) = error.redis_code() {
            self.0.record("db.response.status_code", code);
        }
        self.0.record("error.type", error.redis_code().unwrap_or(error.code()));
    }
}

/// Stands in for the span without the feature.
#[cfg(not(feature = "tracing"))]
#[derive(Debug)]
pub(crate) struct Span;

#[cfg(not(feature = "tracing"))]
impl Span {
    pub(crate) fn of(_: &str) -> Span {
        Span
    }

    pub(crate) fn on(&self, _: &Link) {}

    pub(crate) fn failed(&self, _: &Error) {}
}

pub(crate) fn opened(link: &Arc<Link>) {
    #[cfg(feature = "tracing")]
    {
        let core = link.lock();
        let (address, port) = core.route.server();
        tracing::debug!(target: "onetrip", { server.address = address, server.port = port }, "connected");
    }
    let _ = link;
}

pub(crate) fn open_failed(error: &Error) {
    crate::trace::open_failed(error);
}

pub(crate) fn ended(why: Option<&Error>) {
    match why {
        Some(error) => crate::trace::lost(error),
        None => crate::trace::closed(),
    }
}
