//! A parameter that is read while it is sent, in constant memory.
//!
//! A message begins with its length, so one that was begun has to be completed. If the value ends
//! early, only the end of the connection takes the message back. Then the server never sees an
//! Execute.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use onetrip_engine::{Feed, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::message::{Format, SYNC, bind, execute};
use postgres_types::Type;
use tokio::io::AsyncRead;

use super::flow::{Open, Outbound};
use super::lease::Lease;
use crate::executor::Sent;
use crate::params::{self, Params, unencodable, write_value};
use crate::statement::{Source, Statement, ToStatement};
use crate::statements::write_parse;
use crate::{Error, Kind, Outcome, Reply};

/// How many bytes of the value are read and submitted at a time.
const PIECE_LEN: usize = 64 << 10;

/// Runs a statement whose last parameter is `len` bytes of `value`.
pub(crate) async fn execute_large(
    lease: Lease<'_>,
    statement: &(impl ToStatement + ?Sized),
    params: Params<'_>,
    len: usize,
    value: impl AsyncRead,
) -> Result<u64, Error> {
    let statement = match statement.to_statement() {
        Source::Prepared(statement) => statement.clone(),
        Source::Text(sql) | Source::Unprepared(sql) => lease.executor.prepare(sql, &[]).await?,
    };
    let head = encode_head(&statement, params, len)?;
    lease.executor.lead_known().await?;
    let mut sending = Sending::begin(&lease, &head)?;
    let mut value = pin!(value);
    let mut left = len;
    let mut buffer = vec![0; PIECE_LEN.min(len)];
    while left > 0 {
        std::future::poll_fn(|cx| sending.poll_room(cx)).await?;
        let want = left.min(PIECE_LEN);
        let read = std::future::poll_fn(|cx| poll_read(value.as_mut(), &mut buffer[..want], cx));
        let read = match read.await {
            Ok(0) => return Err(ended_early(len, left)),
            Ok(read) => read,
            Err(error) => return Err(ended_early(len, left).with_source(error)),
        };
        lease.connection.feed(sending.token, |out| out.extend_from_slice(&buffer[..read]));
        left -= read;
    }
    sending.end().await
}

/// Parse, and the Bind up to the value.
fn encode_head(statement: &Statement, params: Params<'_>, len: usize) -> Result<Bytes, Error> {
    let metadata = &statement.0.metadata;
    let types = &metadata.types;
    if types.len() != params.len() + 1 {
        return Err(Error::misuse(
            "parameter_count",
            format!(
                "the statement has {} parameters, but {} and the large one were given",
                types.len(),
                params.len()
            ),
        ));
    }
    let format = |number: usize| match params.get(number) {
        Some(value) => params::format_of(*value, &types[number]),
        None if types[number] == Type::BYTEA => Format::Binary,
        None => Format::Text,
    };
    let formats: Vec<Format> = (0..types.len()).map(format).collect();
    let mut out = BytesMut::new();
    write_parse(&mut out, "", &metadata.sql, types).map_err(unencodable)?;
    let write = |number: usize, out: &mut BytesMut| {
        write_value(number, params[number], &types[number], out)
    };
    bind::write_open(&mut out, &formats, write, len)?;
    Ok(out.freeze())
}

/// A statement that is being sent. It is sent completely, or its connection is closed.
struct Sending<'l> {
    lease: &'l Lease<'l>,
    token: Token,
    reply: Reply<u64>,
    ended: bool,
    _open: Open,
}

impl<'l> Sending<'l> {
    fn begin(lease: &'l Lease<'l>, head: &[u8]) -> Result<Sending<'l>, Error> {
        let (expect, feed) = (Expect::sync().parse().bind().execute(), Feed::Message);
        let outbound = Outbound { expect, bytes: head, feed, metered: false };
        let (token, open) = lease.connection.submit_flow(&lease.executor, &outbound)?;
        let reply = Reply::of(Sent::here(&lease.connection, token));
        Ok(Sending { lease, token, reply, ended: false, _open: open })
    }

    /// Waits until the connection takes more.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match Pin::new(&mut self.reply).poll(cx) {
            Poll::Pending => self.lease.connection.poll_feedable(self.token).map(Ok),
            Poll::Ready(result) => {
                self.ended = true;
                // Without its end the server has not run it.
                let error = result.map_or_else(|error| error, |_| answered_early());
                Poll::Ready(Err(match error.outcome() {
                    Outcome::Unknown => error.with_outcome(Outcome::Rejected),
                    _ => error,
                }))
            }
        }
    }

    /// Sends the end, and waits for the answer.
    async fn end(mut self) -> Result<u64, Error> {
        std::future::poll_fn(|cx| self.poll_room(cx)).await?;
        self.lease.connection.feed_last(self.token, |out| {
            out.extend_from_slice(&bind::NO_RESULT_FORMATS);
            out.extend_from_slice(&execute::UNNAMED_ALL);
            out.extend_from_slice(&SYNC);
        });
        self.ended = true;
        (&mut self.reply).await
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.lease.connection.break_off(self.token);
        }
    }
}

fn poll_read(
    value: Pin<&mut impl AsyncRead>,
    buffer: &mut [u8],
    cx: &mut Context<'_>,
) -> Poll<std::io::Result<usize>> {
    let mut buffer = tokio::io::ReadBuf::new(buffer);
    ready!(value.poll_read(cx, &mut buffer))?;
    Poll::Ready(Ok(buffer.filled().len()))
}

fn ended_early(len: usize, left: usize) -> Error {
    let message = format!(
        "the value ended {left} bytes before its {len}, so the connection was closed: the statement has \
         not run"
    );
    Error::new(Kind::Misuse, Outcome::Rejected, "value_ended", message)
}

fn answered_early() -> Error {
    let message = "the server answered a statement before its end";
    Error::new(Kind::Protocol, Outcome::Unknown, "protocol", message)
}
