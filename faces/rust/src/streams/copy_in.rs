//! COPY FROM STDIN: bytes to the server, as fast as it takes them.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use onetrip_engine::{Feed, Token};
use onetrip_postgres::client::copy::{self, Direction, MESSAGE_LEN};
use onetrip_postgres::message::{Header, Query, empty, tag};
use onetrip_postgres::sql;

use super::flow::{Open, Outbound};
use super::lease::Lease;
use super::{OnProgress, Progress};
use crate::executor::Sent;
use crate::params::unencodable;
use crate::{Error, Kind, Outcome, Reply};

/// Sends the data of a COPY FROM STDIN; made by `copy_in` of a client, a session or a transaction.
///
/// The statement leaves with the first data, and no answer is awaited before, so a COPY takes one
/// trip. Data is collected to 64 KiB and then written. While 256 KiB are unwritten, because the
/// server or the network takes no more, [`send`](Self::send) waits. `request_timeout` and
/// `stall_timeout` do not apply.
///
/// While it is open, a pipeline of the same session or transaction is refused (`stream_open`): it
/// would wait for the end of the COPY.
///
/// If the COPY fails on the server, the next `send` or `finish` returns the error; then the COPY
/// had no effect. If it is dropped or [aborted](Self::abort) before [`finish`](Self::finish), it
/// fails with the SQLSTATE 57014, or was never sent: nothing of it stands, and the connection can
/// be used further. In a transaction, a failed COPY fails the transaction, as any statement does.
///
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let mut copy = client.copy_in("copy item (id, name) from stdin").await?;
/// copy.send("1\tnail\n").await?;
/// copy.send("2\tbolt\n").await?;
/// assert_eq!(copy.finish().await?, 2);
/// # Ok(()) }
/// ```
#[must_use = "a COPY that is dropped is given up: finish it"]
pub struct CopyIn<'a> {
    stage: Stage,
    /// The message that is being put together, with room for its header.
    pub(super) message: BytesMut,
    /// The data of a `send` that was dropped while it waited.
    pending: Bytes,
    pub(super) progress: Progress,
    on_progress: Option<OnProgress>,
    /// Whether the last data was submitted.
    finished: bool,
    lease: Lease<'a>,
}

impl<'a> CopyIn<'a> {
    pub(crate) async fn begin(lease: Lease<'a>, sql: &str) -> Result<CopyIn<'a>, Error> {
        let query = encode_copy(sql, Direction::In)?;
        // A request of the simple protocol is not skipped if the lead in front of it fails.
        lease.executor.lead_known().await?;
        Ok(CopyIn {
            stage: Stage::Unsent { query },
            message: new_message(),
            pending: Bytes::new(),
            progress: Progress::default(),
            on_progress: None,
            finished: false,
            lease,
        })
    }

    /// Calls `f` with the progress of the COPY whenever data was submitted. It runs in the task
    /// that sends.
    pub fn on_progress(mut self, f: impl FnMut(Progress) + Send + Sync + 'static) -> CopyIn<'a> {
        self.on_progress = Some(Box::new(f));
        self
    }

    /// The progress of the COPY.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Adds data in the format that the statement names; it may be split at any byte. Data is kept
    /// until there are 64 KiB; then this waits while the server takes no more.
    ///
    /// Cancel safe: the data of a `send` that was dropped is sent all the same, before that of the
    /// next one.
    ///
    /// # Errors
    /// The COPY has failed. It takes no more data, and nothing of it stands.
    pub async fn send(&mut self, data: impl Into<Bytes>) -> Result<(), Error> {
        self.settle_pending().await?;
        self.pending = data.into();
        self.settle_pending().await
    }

    /// Sends the data that is kept for a larger message.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.settle_pending().await?;
        std::future::poll_fn(|cx| self.poll_flush_message(cx)).await
    }

    /// Ends the data, waits for the server's answer, and returns how many rows were copied.
    ///
    /// # Errors
    /// The COPY failed. If the connection is lost meanwhile, the outcome is `Unknown`.
    ///
    /// If the future is dropped, the COPY may be finished or given up.
    pub async fn finish(mut self) -> Result<u64, Error> {
        self.settle_pending().await?;
        if let Stage::Unsent { .. } = self.stage {
            self.finished = true;
            self.submit(Feed::Whole)?;
        } else {
            self.flush().await?;
            std::future::poll_fn(|cx| self.poll_room(cx)).await?;
            self.finished = true;
            if let Stage::Sent { token, .. } = self.stage {
                self.lease.connection.finish_copy(token);
            }
        }
        std::future::poll_fn(|cx| self.poll_end(cx)).await
    }

    /// Gives the COPY up, and waits until the server has ended it. The server writes the reason to
    /// its log, cut off after 1,000 characters.
    ///
    /// # Errors
    /// The connection was lost. (Nothing of the COPY stands in any case.)
    pub async fn abort(mut self, reason: &str) -> Result<(), Error> {
        self.finished = true;
        let Stage::Sent { token, .. } = self.stage else { return Ok(()) };
        if !self.lease.connection.fail_copy(token, reason) {
            return Ok(());
        }
        let end = std::future::poll_fn(|cx| self.poll_end(cx)).await;
        match end {
            Err(error) if error.outcome() != Outcome::Rejected => Err(error),
            _ => Ok(()),
        }
    }

    async fn settle_pending(&mut self) -> Result<(), Error> {
        std::future::poll_fn(|cx| self.poll_pending(cx)).await
    }

    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while !self.pending.is_empty() {
            let len = self.pending.len().min(Header::LEN + MESSAGE_LEN - self.message.len());
            self.message.put((&mut self.pending).take(len));
            if self.message.len() >= Header::LEN + MESSAGE_LEN {
                ready!(self.poll_flush_message(cx))?;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Submits the current message once there is room for it.
    pub(super) fn poll_flush_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.message.len() <= Header::LEN {
            return Poll::Ready(Ok(()));
        }
        if let Stage::Unsent { .. } = self.stage {
            self.submit(Feed::Messages)?;
        } else {
            ready!(self.poll_room(cx))?;
            let message = whole_message(&mut self.message);
            if let Stage::Sent { token, .. } = self.stage {
                self.lease.connection.feed(token, |out| out.extend_from_slice(message));
            }
        }
        self.told();
        Poll::Ready(Ok(()))
    }

    /// Sends the statement, and the data that there is.
    fn submit(&mut self, feed: Feed) -> Result<(), Error> {
        let Stage::Unsent { query } = &mut self.stage else { return Ok(()) };
        if self.message.len() > Header::LEN {
            query.extend_from_slice(whole_message(&mut self.message));
        }
        if feed == Feed::Whole {
            query.extend_from_slice(&empty::COPY_DONE);
        }
        let (expect, bytes) = (Direction::In.expect(), &query[..]);
        let outbound = Outbound { expect, bytes, feed, metered: false };
        let connection = &self.lease.connection;
        let submitted = connection.submit_flow(&self.lease.executor, &outbound);
        let (token, open) = submitted.inspect_err(|_| self.stage = Stage::Ended)?;
        let reply = Reply::of(Sent::here(connection, token));
        self.stage = Stage::Sent { token, reply, _open: open };
        if feed == Feed::Whole {
            self.told();
        }
        Ok(())
    }

    /// The current message was submitted: reports progress.
    fn told(&mut self) {
        self.progress.bytes += (self.message.len() - Header::LEN) as u64;
        self.message.truncate(Header::LEN);
        if let Some(on_progress) = &mut self.on_progress {
            on_progress(self.progress);
        }
    }

    /// Waits until the connection takes more, or the COPY has failed.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match self.poll_end(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(_)) => Poll::Ready(Err(ended_early())),
            Poll::Pending => match self.stage {
                Stage::Sent { token, .. } => self.lease.connection.poll_feedable(token).map(Ok),
                _ => Poll::Ready(Ok(())),
            },
        }
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Error>> {
        let Stage::Sent { reply, .. } = &mut self.stage else {
            return Poll::Ready(Err(Error::misuse("copy_ended", "the COPY has failed before")));
        };
        let end = ready!(Pin::new(reply).poll(cx));
        self.stage = Stage::Ended;
        let finished = self.finished;
        Poll::Ready(end.map_err(|error| {
            let outcome = copy::outcome(error.outcome(), finished);
            error.with_outcome(outcome)
        }))
    }
}

/// The stages of a COPY.
enum Stage {
    /// The statement leaves with the first data.
    Unsent {
        query: BytesMut,
    },
    Sent {
        token: Token,
        reply: Reply<u64>,
        _open: Open,
    },
    /// It has failed, or is finished.
    Ended,
}

impl Drop for CopyIn<'_> {
    fn drop(&mut self) {
        if let Stage::Sent { token, .. } = self.stage
            && !self.finished
        {
            self.lease.connection.fail_copy(token, "the COPY was dropped before its end");
        }
    }
}

impl fmt::Debug for CopyIn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyIn").field("progress", &self.progress).finish_non_exhaustive()
    }
}

/// The query of a COPY, if the text is a COPY in this direction.
pub(super) fn encode_copy(sql: &str, direction: Direction) -> Result<BytesMut, Error> {
    if !direction.is_of(sql::classify(sql)) {
        return Err(Error::misuse(
            "no_copy",
            "copy_in takes one COPY … FROM STDIN, and copy_out one COPY … TO STDOUT",
        ));
    }
    let mut query = BytesMut::new();
    Query { sql }.encode(&mut query).map_err(unencodable)?;
    Ok(query)
}

/// An empty message of copy data; its length is filled in when it is sent.
fn new_message() -> BytesMut {
    let mut message = BytesMut::with_capacity(Header::LEN + MESSAGE_LEN + MESSAGE_LEN / 4);
    message.put_slice(&[tag::frontend::COPY_DATA, 0, 0, 0, 0]);
    message
}

/// Fills the length in.
fn whole_message(message: &mut BytesMut) -> &[u8] {
    let len = message.len() - 1;
    message[1..Header::LEN].copy_from_slice(&(len as u32).to_be_bytes());
    message
}

fn ended_early() -> Error {
    Error::new(
        Kind::Protocol,
        Outcome::Unknown,
        "copy_ended",
        "the server ended the COPY before its data ended",
    )
}
