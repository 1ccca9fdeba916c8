//! COPY TO STDOUT: bytes from the server, as fast as they are taken.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use onetrip_engine::Feed;
use onetrip_postgres::client::copy::Direction;
use onetrip_postgres::message::{CopyResponse, Format, tag::backend};
use tokio::io::{AsyncRead, ReadBuf};

use super::copy_in::encode_copy;
use super::flow::{Inflow, Outbound};
use super::lease::Lease;
use super::messages::Messages;
use super::{OnProgress, Progress};
use crate::Error;

/// The data of a COPY TO STDOUT as it comes, in bounded memory; made by `copy_out` of a client, a
/// session or a transaction. It is a [`Stream`] of [`Bytes`] and an [`AsyncRead`].
///
/// The rules of [`RowStream`](crate::RowStream) apply: about 1 MiB is read ahead, `request_timeout`
/// does not apply, data is provisional until the end, and dropping it early disturbs nobody.
///
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut copy = client.copy_out("copy item to stdout (format csv)").await?;
/// let mut file = tokio::io::sink(); // A file, perhaps.
/// tokio::io::copy(&mut copy, &mut file).await?;
/// # Ok(()) }
/// ```
pub struct CopyOut<'a> {
    pub(super) messages: Messages,
    format: Format,
    columns: usize,
    progress: Progress,
    on_progress: Option<OnProgress>,
    /// Bytes for which a reader had no room.
    rest: Bytes,
    pub(super) lease: Lease<'a>,
}

impl<'a> CopyOut<'a> {
    /// Sends a COPY, and waits until it begins.
    pub(crate) async fn begin(lease: Lease<'a>, sql: &str) -> Result<CopyOut<'a>, Error> {
        let query = encode_copy(sql, Direction::Out)?;
        lease.executor.lead_known().await?;
        let (expect, bytes, feed) = (Direction::Out.expect(), &query[..], Feed::Whole);
        let outbound = Outbound { expect, bytes, feed, metered: true };
        let opened = lease.connection.submit_flow(&lease.executor, &outbound)?;
        let inflow = Inflow::new(&lease, opened);
        let mut messages = Messages::new(inflow, usize::MAX);
        let begun = std::future::poll_fn(|cx| poll_begun(&mut messages, cx)).await?;
        let (format, columns) = begun;
        let (progress, rest) = (Progress::default(), Bytes::new());
        Ok(CopyOut { messages, format, columns, progress, on_progress: None, rest, lease })
    }

    /// Whether the data is binary.
    pub fn is_binary(&self) -> bool {
        self.format == Format::Binary
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Calls `f` with the progress of the COPY for each piece that is taken. It runs in the task
    /// that takes them.
    pub fn on_progress(mut self, f: impl FnMut(Progress) + Send + Sync + 'static) -> CopyOut<'a> {
        self.on_progress = Some(Box::new(f));
        self
    }

    /// The progress of the COPY. A header counts as a row, and so does the trailer.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The next piece of data: a row as the server sends it, or a part of a row that is longer than
    /// 128 KiB. `None` once the COPY has ended successfully. Cancel safe.
    ///
    /// # Errors
    /// The COPY failed, or the connection was lost; then the data is over.
    pub async fn try_next(&mut self) -> Result<Option<Bytes>, Error> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// The next data. At the end a connection that was opened for the COPY alone is free, also
    /// while the COPY is still named.
    fn poll_chunk(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        let data = ready!(self.poll_data(cx));
        self.give_back_at_end();
        Poll::Ready(data)
    }

    pub(super) fn give_back_at_end(&mut self) {
        if self.messages.inflow.is_over() {
            self.lease.give_back();
        }
    }

    pub(super) fn poll_data(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.rest))));
        }
        loop {
            if let Some(piece) = ready!(self.messages.poll_piece(usize::MAX, cx))? {
                self.count(piece.len());
                return Poll::Ready(Ok(Some(piece)));
            }
            loop {
                match ready!(self.messages.poll_head(cx))? {
                    None => return Poll::Ready(Ok(None)),
                    Some(backend::COPY_DATA) => break,
                    Some(_) => {}
                }
            }
        }
    }

    fn count(&mut self, bytes: usize) {
        self.progress.bytes += bytes as u64;
        self.progress.rows += u64::from(self.messages.left() == 0);
        if let Some(on_progress) = &mut self.on_progress {
            on_progress(self.progress);
        }
    }
}

impl Stream for CopyOut<'_> {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_chunk(cx).map(Result::transpose)
    }
}

/// Its errors contain the [`Error`].
impl AsyncRead for CopyOut<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let piece = ready!(self.poll_chunk(cx)).map_err(std::io::Error::other)?;
        let mut piece = piece.unwrap_or_default();
        out.put_slice(&piece.split_to(piece.len().min(out.remaining())));
        self.rest = piece;
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for CopyOut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyOut").field("progress", &self.progress).finish_non_exhaustive()
    }
}

/// Reads up to the beginning of the data: an error comes before that.
fn poll_begun(messages: &mut Messages, cx: &Context<'_>) -> Poll<Result<(Format, usize), Error>> {
    use super::messages::Whole;
    loop {
        match ready!(messages.poll_whole(cx))? {
            Some(Whole::Message(backend::COPY_OUT_RESPONSE, body)) => {
                let response = CopyResponse::decode(&body);
                return Poll::Ready(match response {
                    Ok(response) => Ok((response.format, response.columns.count())),
                    Err(error) => Err(Error::unreadable(error.to_string())),
                });
            }
            None => return Poll::Ready(Ok((Format::Text, 0))),
            Some(_) => {}
        }
    }
}
