//! One connection of a listener: the engine on a stream, with one request at a time.

use std::task::{Context, Poll};

use bytes::Bytes;
use onetrip_engine::{CloseReason, Limits, Output, Request, Time, Token};
use onetrip_postgres::message::{ErrorResponse, Header, Query, ServerError};
use onetrip_postgres::{Expect, Postgres};

use crate::connect::Opened;
use crate::core::Engine;
use crate::open::Route;
use crate::params::unencodable;
use crate::parting::hear_out;
use crate::socket::{Received, Stream};
use crate::{Error, Kind, Outcome};

/// An open connection.
#[derive(Debug)]
pub(super) struct Link {
    engine: Engine,
    stream: Stream,
    route: Route,
}

/// The only request that is ever in flight.
const REQUEST: Token = Token(0);

/// What a link received.
#[derive(Debug)]
pub(super) enum News {
    Notification(Bytes),
    Notice(Bytes),
    /// The request was answered.
    Answered(Result<(), Error>),
    /// The connection is gone, and with it the request, if there was one.
    Lost(Error),
}

impl Link {
    pub(super) fn new(opened: Opened, now: Time) -> Link {
        let Opened { mut stream, ready, route, .. } = opened;
        let mut engine = Engine::new(now, Postgres::new(ready.status), Limits::default());
        // Bytes that came together with the end of the startup.
        engine.handle_bytes(now, &mut stream.input);
        Link { engine, stream, route }
    }

    /// Submits a text of one or more statements; it leaves with the next `poll`.
    pub(super) fn submit(&mut self, now: Time, sql: &str) -> Result<(), Error> {
        let request = Request::isolated(REQUEST, Expect::simple());
        let submitted = self.engine.submit(now, request, |out| Query { sql }.encode(out));
        match submitted {
            Ok(_) => Ok(()),
            Err(onetrip_engine::SubmitError::Encode(error)) => Err(unencodable(error)),
            Err(_) => Err(self.lost("it takes no more requests")),
        }
    }

    /// Whether a request is unanswered.
    pub(super) fn is_busy(&self) -> bool {
        !self.engine.is_idle()
    }

    /// Writes what is unwritten and, if `reads`, reads. Resolves when something came. Cancel safe.
    pub(super) fn poll(&mut self, now: Time, reads: bool, cx: &mut Context<'_>) -> Poll<Vec<News>> {
        loop {
            let news = self.take();
            if !news.is_empty() {
                return Poll::Ready(news);
            }
            if let Err(error) = self.write(now, cx) {
                let lost = self.lost(&format!("writing failed: {error}")).with_source(error);
                return Poll::Ready(self.end(lost));
            }
            if !reads {
                return Poll::Pending;
            }
            let Stream { reader, writer, input } = &mut self.stream;
            input.reserve(READ_MIN);
            let Poll::Ready(read) = reader.poll_read(cx, input) else { return Poll::Pending };
            let Received { bytes, end } = writer.receive(read, reader, input);
            if bytes > 0 {
                self.engine.handle_bytes(now, input);
            }
            if let Some(end) = end {
                // If the server's last message says why it closed, that is the reason, and not the
                // closed socket.
                let mut news = self.take();
                let error = end.into_error(|why| self.lost(why));
                news.extend(self.end(error));
                return Poll::Ready(news);
            }
        }
    }

    fn write(&mut self, now: Time, cx: &mut Context<'_>) -> std::io::Result<()> {
        while !self.engine.transmit().is_empty() {
            match self.stream.writer.poll_write(cx, self.engine.transmit()) {
                Poll::Ready(bytes) => self.engine.handle_written(now, bytes?),
                Poll::Pending => return Ok(()),
            }
        }
        match self.stream.writer.poll_flush(cx) {
            Poll::Ready(result) => result,
            Poll::Pending => Ok(()),
        }
    }

    /// Takes the outputs of the engine.
    fn take(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        while let Some(output) = self.engine.poll_output() {
            news.extend(match output {
                Output::Event { event: onetrip_postgres::Event::Notification, block } => {
                    Some(News::Notification(block))
                }
                Output::Event { event: onetrip_postgres::Event::Notice, block } => {
                    Some(News::Notice(block))
                }
                Output::Ended { end: onetrip_engine::End::Failed(failure), block, .. } => {
                    // A request that ended with the connection is made again on the next one.
                    let error = server_error(&block);
                    let outcome = failure.outcome;
                    error.map(|error| News::Answered(Err(Error::server_error(error, outcome))))
                }
                Output::Ended { .. } => Some(News::Answered(Ok(()))),
                Output::Closed(reason) => Some(News::Lost(self.ended(reason))),
                _ => None,
            });
        }
        news
    }

    fn end(&mut self, error: Error) -> Vec<News> {
        if self.engine.is_closed() {
            return Vec::new();
        }
        self.engine.handle_closed();
        self.take();
        vec![News::Lost(error)]
    }

    fn ended(&self, reason: CloseReason) -> Error {
        match reason {
            CloseReason::Server(block) => match server_error(&block) {
                Some(error) => Error::server_error(error, Outcome::Unknown)
                    .about(format_args!("{} ended the session", self.route))
                    .with_code(crate::error::CONNECTION_LOST),
                None => self.lost("the server ended the session"),
            },
            CloseReason::Violation(violation) => self.lost(&violation.to_string()),
            CloseReason::Unusable(why) => self.lost(why),
            CloseReason::Host
            | CloseReason::Stalled
            | CloseReason::Silent
            | CloseReason::NoMemory => self.lost("it was closed"),
        }
    }

    pub(super) fn lost(&self, why: &str) -> Error {
        let message = format!("the listening connection to {} was lost: {why}", self.route);
        Error::new(Kind::Transport, Outcome::Unknown, crate::error::CONNECTION_LOST, message)
    }

    /// Writes the goodbye as far as the socket takes it at once, and reads what the server still
    /// sends.
    pub(super) async fn say_goodbye(&mut self, now: Time) {
        self.engine.terminate(now);
        let Stream { reader, writer, .. } = &mut self.stream;
        let said = writer.try_write(self.engine.transmit());
        if said.is_ok() {
            hear_out(reader, |cx| writer.poll_shut_down(cx)).await;
        }
    }
}

/// Room for a read: notifications are short, or rare.
const READ_MIN: usize = 4 << 10;

fn server_error(block: &[u8]) -> Option<ServerError> {
    let error = ErrorResponse::decode(block.get(Header::LEN..)?).ok()?;
    Some(ServerError::from(error.fields))
}
