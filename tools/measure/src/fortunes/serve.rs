//! The web server.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use onetrip::{Client, Kind, Rows, Statement};
use tokio::net::TcpListener;
use tokio::sync::oneshot::Receiver;

use super::write;

/// How the statement of a request is sent to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Over a connection of the request's own, from a pool.
    Pool,
    /// Over connections that all requests share, with a Sync of its own.
    Shared,
    /// Over connections that all requests share, where neighbouring requests share a Sync too. This
    /// breaks TechEmpower's rules.
    Repeatable,
}

impl Mode {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Mode; 3] = [Mode::Pool, Mode::Shared, Mode::Repeatable];

    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Pool => "pool",
            Mode::Shared => "shared",
            Mode::Repeatable => "repeatable",
        }
    }

    /// A description in one line.
    pub fn description(self) -> &'static str {
        match self {
            Mode::Pool => "a connection of its own per request, from a pool",
            Mode::Shared => "shared connections, one Sync per request",
            Mode::Repeatable => {
                "shared connections, neighbouring requests share a Sync \
                 (outside of TechEmpower's rules)"
            }
        }
    }
}

/// What a request needs.
pub(super) struct Site {
    pub(super) client: Client,
    pub(super) statement: Statement,
    pub(super) mode: Mode,
}

impl Site {
    async fn fortunes(&self) -> Result<Rows, onetrip::Error> {
        match self.mode {
            Mode::Pool => self.client.session().await?.query(&self.statement, &[]).await,
            Mode::Shared => self.client.query(&self.statement, &[]).await,
            Mode::Repeatable => self.client.repeatable().query(&self.statement, &[]).await,
        }
    }
}

/// The path of the page.
pub(super) const PATH: &str = "/fortunes";

/// Answers requests until `stop` receives a message or is closed. Requests already begun are still
/// answered.
pub(super) async fn serve(listener: TcpListener, site: Site, stop: Receiver<()>) {
    let router = Router::new().route(PATH, get(page)).with_state(Arc::new(site));
    // A page is one write, which should leave at once. If this option can't be set, it may be
    // delayed.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let stopped = async { drop(stop.await) };
    // It never fails: an error of a connection ends only that connection.
    let _ = axum::serve(listener, router).with_graceful_shutdown(stopped).await;
}

async fn page(State(site): State<Arc<Site>>) -> Response {
    match site.fortunes().await.and_then(|rows| write::page(&rows)) {
        Ok(page) => (HEADERS, page).into_response(),
        Err(error) => (status(&error), error.to_string()).into_response(),
    }
}

/// The specification asks for a name of the server. The date is set by hyper.
const HEADERS: [(header::HeaderName, HeaderValue); 2] = [
    (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
    (header::SERVER, HeaderValue::from_static("onetrip")),
];

fn status(error: &onetrip::Error) -> StatusCode {
    match error.kind() {
        _ if error.is_connection_lost() => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Transport | Kind::Timeout => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
