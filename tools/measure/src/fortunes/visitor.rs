//! One HTTP connection that asks for the page again and again.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::serve::PATH;
use crate::error::{Error, Result};
use crate::load::{Operation, Tally};

/// Keeps its connection as long as it can, and opens another one when it is lost.
pub(super) struct Visitor {
    server: SocketAddr,
    connection: Option<SendRequest<Empty<Bytes>>>,
    request: Request<Empty<Bytes>>,
    body: Vec<u8>,
}

/// The page as it has to be, to the byte.
pub(super) const EXPECTED: &str = include_str!("expected.html").trim_ascii_end();

/// The time limit of a request. It is longer than a database takes to fail by itself.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Why one request failed; others may succeed.
enum Failure {
    Status(StatusCode),
    Lost,
}

impl Visitor {
    /// Connects in advance, so that the first request does not include it.
    pub(super) async fn connect(server: SocketAddr) -> Result<Visitor> {
        let request = Request::get(PATH).header(header::HOST, server.to_string());
        let request = request.body(Empty::new()).expect("a path and a host are a request");
        let mut visitor = Visitor { server, connection: None, request, body: Vec::new() };
        visitor.connected().await?;
        Ok(visitor)
    }

    async fn connected(&mut self) -> Result<()> {
        if self.connection.as_ref().is_some_and(|connection| !connection.is_closed()) {
            return Ok(());
        }
        let failed = |why: String| {
            Error::new(format!("can't connect to the page's own server {}: {why}", self.server))
        };
        let stream = TcpStream::connect(self.server).await.map_err(|it| failed(it.to_string()))?;
        stream.set_nodelay(true).map_err(|it| failed(it.to_string()))?;
        let opened = handshake(TokioIo::new(stream)).await;
        let (connection, io) = opened.map_err(|it| failed(it.to_string()))?;
        // It ends with the connection. Errors are reported by the requests on it.
        tokio::spawn(async { drop(io.await) });
        self.connection = Some(connection);
        Ok(())
    }

    async fn visit(&mut self) -> std::result::Result<(), Failure> {
        let connection = self.connection.as_mut().ok_or(Failure::Lost)?;
        connection.ready().await.map_err(|_| Failure::Lost)?;
        let sent = connection.send_request(self.request.clone()).await;
        let response = sent.map_err(|_| Failure::Lost)?;
        let status = response.status();
        self.read(response.into_body()).await?;
        if status == StatusCode::OK { Ok(()) } else { Err(Failure::Status(status)) }
    }

    async fn read(&mut self, mut body: Incoming) -> std::result::Result<(), Failure> {
        self.body.clear();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(|_| Failure::Lost)?.into_data() {
                self.body.extend_from_slice(&data);
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.body == EXPECTED.as_bytes() {
            return Ok(());
        }
        let same =
            self.body.iter().zip(EXPECTED.as_bytes()).take_while(|(is, should)| is == should);
        Err(Error::new(format!(
            "the page differs at byte {} from what it should be ({} bytes, not {}): \
             did anybody change the table fortune?",
            same.count(),
            self.body.len(),
            EXPECTED.len()
        )))
    }
}

impl Operation for Visitor {
    /// One request. Each page is compared as a whole, which takes less than a tenth of a
    /// microsecond.
    async fn run(&mut self, tally: &mut Tally) -> Result<()> {
        self.connected().await?;
        let code = match timeout(ANSWER_MAX, self.visit()).await {
            Ok(Ok(())) => return self.check(),
            Ok(Err(Failure::Status(status))) => {
                tally.failed(status.as_str());
                return Ok(());
            }
            Ok(Err(Failure::Lost)) => "lost",
            Err(_) => "timeout",
        };
        tally.failed(code);
        self.connection = None;
        Ok(())
    }
}
