//! Rows one after the other, any number of them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use onetrip_engine::Feed;
use onetrip_postgres::Expect;
use onetrip_postgres::message::{SYNC, tag::backend};

use super::flow::{Inflow, Outbound};
use super::lease::Lease;
use super::messages::{Messages, Whole};
use super::pieces::RowPieces;
use crate::error::RESULT_TOO_LARGE;
use crate::executor::Unready;
use crate::first_use::{FirstUse, lacks_binary_form};
use crate::metadata::Metadata;
use crate::params::Params;
use crate::reply::Text;
use crate::rows::{Asked, Columns, check_row, columns_of, learned_columns};
use crate::statement::{Source, ToStatement};
use crate::{Column, Error, Kind, Outcome, Row};

/// The rows of one statement as they come, in bounded memory; made by `query_stream` of a client, a
/// session or a transaction.
///
/// About 1 MiB is read ahead; then the connection is not read until rows were taken. Meanwhile the
/// server may hold locks and a snapshot, and its `statement_timeout` runs.
///
/// Rows are *provisional* until the stream has ended successfully: a statement may fail after any
/// number of rows, and then has no effect. As always, [`Error::outcome`] says so. `request_timeout`
/// does not apply, since the reader decides how long a stream takes.
///
/// While it is open, a pipeline of the same session or transaction is refused (`stream_open`): it
/// would wait for the end of the stream.
///
/// Of types that are not built in, only those that were learned before are known. Preparing the
/// statement learns them.
///
/// Once it has ended, or failed, a connection that was opened for it alone goes back to the client,
/// also while the stream is still named. Dropping it early disturbs nobody. The server is asked to stop, unless that would make a
/// transaction fail. The rest is read and dropped, and the next statement of the session or
/// transaction comes after that. If the connection was opened for the stream alone and more than 1
/// MiB would have to be read, the connection is closed instead.
///
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let mut rows = client.query_stream("select id, name from item where price > $1", &[&9]).await?;
/// while let Some(row) = rows.try_next().await? {
///     println!("{} {}", row.get::<i32>(0), row.get::<&str>(1));
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RowStream<'a> {
    pub(super) messages: Messages,
    pub(super) columns: Columns,
    lease: Lease<'a>,
    /// The part of a row's number of columns that has come, if the head of a row was read.
    count: Option<BytesMut>,
}

impl<'a> RowStream<'a> {
    /// Sends a statement, and waits for its columns, and for its first row or its end.
    pub(crate) async fn open(
        lease: Lease<'a>,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Result<RowStream<'a>, Error> {
        let mut sending = Sending::encode(&lease, statement.to_statement(), params).await?;
        loop {
            let inflow = sending.submit(&lease)?;
            let max = lease.connection.context.options.result_bytes_max;
            let mut messages = Messages::new(inflow, max);
            match described(&mut messages).await {
                Ok(columns) => {
                    sending.learned(&lease, &columns);
                    let types = &lease.executor.context.types;
                    let columns = learned_columns(&columns, types).unwrap_or(columns);
                    return Ok(RowStream { messages, columns, lease, count: None });
                }
                Err(error) => {
                    let error = lease.executor.explained(error);
                    sending = sending.again(&lease, error).await?;
                }
            }
        }
    }

    /// The columns; empty for a statement that returns no rows.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The next row; `None` once the statement has ended and its effects stand (in a transaction:
    /// when that commits). Cancel safe.
    ///
    /// # Errors
    /// The statement failed, or the connection was lost; then the stream is over. A row that is
    /// longer than `result_bytes_max` is skipped with the code `result_too_large` and the outcome
    /// `Applied`, and the next call returns the row behind it: use
    /// [`next_in_pieces`](Self::next_in_pieces) for such rows.
    pub async fn try_next(&mut self) -> Result<Option<Row>, Error> {
        std::future::poll_fn(|cx| self.poll_row(cx)).await
    }

    /// The next row, to be read piece by piece: for values that should not be in memory whole.
    /// Values that are not read are skipped. Cancel safe.
    ///
    /// # Errors
    /// As [`try_next`](Self::try_next), without its limit.
    pub async fn next_in_pieces(&mut self) -> Result<Option<RowPieces<'_>>, Error> {
        // If an earlier call was dropped after it had read the head of a row, this one goes on
        // there.
        while self.count.is_none() {
            let head = std::future::poll_fn(|cx| self.messages.poll_head(cx)).await;
            self.give_back_at_end();
            match head? {
                None => return Ok(None),
                Some(backend::DATA_ROW) => self.count = Some(BytesMut::new()),
                Some(_) => {}
            }
        }
        std::future::poll_fn(|cx| self.poll_count(cx)).await?;
        self.count = None;
        Ok(Some(RowPieces::begin(self)))
    }

    /// Reads the number of columns, with which a row begins.
    fn poll_count(&mut self, cx: &Context<'_>) -> Poll<Result<(), Error>> {
        let Some(count) = &mut self.count else { return Poll::Ready(Ok(())) };
        while count.len() < COUNT_LEN {
            match ready!(self.messages.poll_piece(COUNT_LEN - count.len(), cx))? {
                Some(piece) => count.extend_from_slice(&piece),
                None => {
                    let error = self.messages.inflow.broken("a row ends too early");
                    return Poll::Ready(Err(error));
                }
            }
        }
        if count[..] != (self.columns.len() as u16).to_be_bytes() {
            let error = self.messages.inflow.broken("a row does not fit its columns");
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(()))
    }

    /// The connection is free once the reply has ended, also while the stream is still named.
    fn give_back_at_end(&mut self) {
        if self.messages.inflow.is_over() {
            self.lease.give_back();
        }
    }

    #[inline]
    fn poll_row(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Row>, Error>> {
        if let Some(count) = self.count.take() {
            self.messages.resume(backend::DATA_ROW, count);
        }
        loop {
            let whole = ready!(self.messages.poll_whole(cx));
            if !matches!(whole, Ok(Some(_))) {
                self.give_back_at_end();
            }
            match whole? {
                None => return Poll::Ready(Ok(None)),
                Some(Whole::Message(backend::DATA_ROW, body)) => {
                    let checked = check_row(&body, Some(self.columns.len()));
                    checked.map_err(|error| self.messages.inflow.of_broken(error))?;
                    return Poll::Ready(Ok(Some(Row::new(self.columns.clone(), body))));
                }
                Some(Whole::Message(..)) => {}
                Some(Whole::TooLong) => return Poll::Ready(Err(self.row_too_large())),
            }
        }
    }

    fn row_too_large(&self) -> Error {
        let max = self.lease.connection.context.options.result_bytes_max;
        let message = format!(
            "a row is longer than {max} bytes (result_bytes_max): read it by next_in_pieces, or raise \
             the limit"
        );
        Error::new(Kind::Misuse, Outcome::Applied, RESULT_TOO_LARGE, message)
    }
}

/// The length of a row's number of columns (PostgreSQL documentation, "Message Formats").
const COUNT_LEN: usize = 2;

/// As [`RowStream::try_next`]. After an error, or the end, the stream is over.
impl Stream for RowStream<'_> {
    type Item = Result<Row, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_row(cx).map(Result::transpose)
    }
}

/// Reads the columns, and waits for the message behind them: only then does the server report that
/// a column has no binary form.
async fn described(messages: &mut Messages) -> Result<Columns, Error> {
    let columns = loop {
        match std::future::poll_fn(|cx| messages.poll_whole(cx)).await? {
            Some(Whole::Message(backend::ROW_DESCRIPTION, body)) => {
                let columns = columns_of(&body, Asked::Portal);
                let unreadable = "the columns of the result can't be read";
                break columns.ok_or_else(|| Error::unreadable(unreadable))?;
            }
            Some(Whole::Message(backend::NO_DATA, _)) | None => break Columns::default(),
            Some(_) => {}
        }
    };
    std::future::poll_fn(|cx| messages.poll_next_is_there(cx)).await?;
    Ok(columns)
}

/// A statement that is sent for a stream.
struct Sending {
    bytes: Bytes,
    expect: Expect,
    text: Text,
}

impl Sending {
    async fn encode(
        lease: &Lease<'_>,
        source: Source<'_>,
        params: Params<'_>,
    ) -> Result<Sending, Error> {
        let mut out = BytesMut::new();
        match lease.executor.encode_unnamed(source, params, &mut out) {
            Err(Unready::Error(error)) => Err(error),
            Err(Unready::Ask(first_use)) => Sending::asked(lease, *first_use).await,
            Ok(encoded) => {
                out.extend_from_slice(&SYNC);
                let (expect, text) = (encoded.expect, encoded.text);
                Ok(Sending { bytes: out.freeze(), expect, text })
            }
        }
    }

    /// Asks the server for the types of the parameters.
    async fn asked(lease: &Lease<'_>, first_use: FirstUse) -> Result<Sending, Error> {
        lease.executor.lead_now()?;
        let description = lease.executor.ask_first(&first_use)?.await?;
        let (metadata, mut out) =
            first_use.answered(&description, &lease.executor.context.types)?;
        out.extend_from_slice(&SYNC);
        let expect = first_use.expect;
        Ok(Sending { bytes: out.freeze(), expect, text: Text::Unseen(metadata) })
    }

    fn submit(&self, lease: &Lease<'_>) -> Result<Inflow, Error> {
        let (expect, bytes, feed) = (self.expect, &self.bytes, Feed::Whole);
        let outbound = Outbound { expect, bytes, feed, metered: true };
        let opened = lease.connection.submit_flow(&lease.executor, &outbound)?;
        Ok(Inflow::new(lease, opened))
    }

    /// The server accepted the statement: remembers its metadata.
    fn learned(&mut self, lease: &Lease<'_>, columns: &Columns) {
        let metadata_cache = &lease.executor.context.metadata_cache;
        let outdated = |metadata: &Arc<Metadata>| {
            metadata.any_text() && metadata.formats().len() != columns.len()
        };
        match std::mem::take(&mut self.text) {
            Text::New(first_use) => metadata_cache.remember(first_use.metadata),
            Text::Unseen(metadata) => metadata_cache.remember(metadata),
            Text::Known(metadata) if outdated(&metadata) => metadata_cache.forget(&metadata),
            _ => {}
        }
    }

    /// The statement failed before its first row. If a column has no binary form, it is sent once
    /// more.
    async fn again(self, lease: &Lease<'_>, error: Error) -> Result<Sending, Error> {
        match self.text {
            Text::New(mut first_use) if lacks_binary_form(&error) => {
                first_use.lacks_binary_form = true;
                Sending::asked(lease, *first_use).await
            }
            Text::Known(metadata) => {
                lease.executor.context.metadata_cache.failed(&metadata, &error);
                Err(error)
            }
            _ => Err(error),
        }
    }
}
