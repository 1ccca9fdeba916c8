//! A row whose values are read piece by piece, in order.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use postgres_types::FromSqlOwned;
use tokio::io::{AsyncRead, ReadBuf};

use super::messages::Messages;
use super::rows::RowStream;
use crate::rows::Columns;
use crate::{Column, Error, Row};

/// A row of which only the value that is being read is in memory; made by
/// [`RowStream::next_in_pieces`]. Columns are read in their order, each whole or in pieces. Values
/// that are not read are skipped.
///
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let sql = "select name, content from file where id = $1";
/// let mut rows = client.query_stream(sql, &[&7]).await?;
/// while let Some(mut row) = rows.next_in_pieces().await? {
///     let name: String = row.value().await?;
///     let mut file = tokio::io::sink(); // A file of that name, perhaps.
///     if let Some(mut content) = row.pieces().await? {
///         tokio::io::copy(&mut content, &mut file).await?;
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RowPieces<'s> {
    messages: &'s mut Messages,
    columns: &'s Columns,
    /// The number of the column that is read next.
    next: usize,
    /// How many bytes of the previous column are still to come.
    left: usize,
    /// A number of which not all bytes have come yet.
    number: BytesMut,
}

impl<'s> RowPieces<'s> {
    /// Begins behind the row's number of columns.
    pub(super) fn begin<'a: 's>(stream: &'s mut RowStream<'a>) -> RowPieces<'s> {
        let RowStream { messages, columns, .. } = stream;
        RowPieces { messages, columns, next: 0, left: 0, number: BytesMut::new() }
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        self.columns
    }

    /// The next column's value, whole.
    ///
    /// # Errors
    /// As [`Row::try_get`]; or there are no more columns, or the connection was lost.
    pub async fn value<T: FromSqlOwned>(&mut self) -> Result<T, Error> {
        let number = self.next;
        let len = self.begin_value().await?;
        // Read as a row with NULLs in front of the value, so that there is one way to read a value.
        let mut body = BytesMut::from(&(self.columns.len() as u16).to_be_bytes()[..]);
        (0..number).for_each(|_| body.extend_from_slice(&(-1i32).to_be_bytes()));
        body.extend_from_slice(&len.to_be_bytes());
        while let Some(piece) = std::future::poll_fn(|cx| self.poll_piece(cx)).await? {
            body.extend_from_slice(&piece);
        }
        Row::new(self.columns.clone(), body.freeze()).try_get(number)
    }

    /// The next column's value, in pieces; `None` for NULL. The bytes are as the server sends them:
    /// for `bytea`, and the text of `text`, `varchar`, `json` and `xml`, they are the value itself.
    ///
    /// # Errors
    /// There are no more columns, or the connection was lost.
    pub async fn pieces(&mut self) -> Result<Option<ValuePieces<'_, 's>>, Error> {
        let len = self.begin_value().await?;
        Ok(usize::try_from(len).ok().map(|len| ValuePieces { row: self, len, rest: Bytes::new() }))
    }

    /// Skips the rest of the last value, and reads the length of the next.
    async fn begin_value(&mut self) -> Result<i32, Error> {
        while std::future::poll_fn(|cx| self.poll_piece(cx)).await?.is_some() {}
        if self.next >= self.columns.len() {
            return Err(Error::unreadable(format!("the row has {} columns", self.columns.len())));
        }
        let len = std::future::poll_fn(|cx| self.poll_number(4, cx)).await? as i32;
        self.left = usize::try_from(len).unwrap_or(0);
        self.next += 1;
        let (of_row, is_last) = (self.messages.left(), self.next == self.columns.len());
        if len < -1 || self.left > of_row || (is_last && self.left != of_row) {
            return Err(self.messages.inflow.broken("a row does not fit its columns"));
        }
        Ok(len)
    }

    fn poll_number(&mut self, len: usize, cx: &Context<'_>) -> Poll<Result<u32, Error>> {
        while self.number.len() < len {
            let missing = len - self.number.len();
            match ready!(self.messages.poll_piece(missing, cx))? {
                Some(piece) => self.number.extend_from_slice(&piece),
                None => {
                    return Poll::Ready(Err(self.messages.inflow.broken("a row ends too early")));
                }
            }
        }
        let number = self.number.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        self.number.clear();
        Poll::Ready(Ok(number))
    }

    fn poll_piece(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        if self.left == 0 {
            return Poll::Ready(Ok(None));
        }
        let piece = ready!(self.messages.poll_piece(self.left, cx))?;
        self.left -= piece.as_ref().map_or(0, Bytes::len);
        Poll::Ready(Ok(piece))
    }
}

/// One value, piece by piece, of any length in constant memory; made by [`RowPieces::pieces`]. It
/// is also an [`AsyncRead`], whose errors contain the [`Error`].
pub struct ValuePieces<'r, 's> {
    row: &'r mut RowPieces<'s>,
    len: usize,
    /// Bytes for which a reader had no room.
    rest: Bytes,
}

impl std::fmt::Debug for ValuePieces<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValuePieces").field("len", &self.len).finish_non_exhaustive()
    }
}

impl ValuePieces<'_, '_> {
    /// The length of the whole value in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the value is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The next piece, as it was read from the connection; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// The connection was lost.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if !self.rest.is_empty() {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        std::future::poll_fn(|cx| self.row.poll_piece(cx)).await
    }
}

impl AsyncRead for ValuePieces<'_, '_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.rest.is_empty() {
            let piece = ready!(self.row.poll_piece(cx)).map_err(std::io::Error::other)?;
            self.rest = piece.unwrap_or_default();
        }
        let len = self.rest.len().min(out.remaining());
        out.put_slice(&self.rest.split_to(len));
        Poll::Ready(Ok(()))
    }
}
