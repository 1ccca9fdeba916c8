//! COPY TO STDOUT in the binary format, row by row.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_core::Stream;
use postgres_types::Type;

use super::Progress;
use super::binary_in::{SIGNATURE, TRAILER};
use super::copy_out::CopyOut;
use crate::error::{MALFORMED_REPLY, RESULT_TOO_LARGE};
use crate::rows::Columns;
use crate::{Column, Error, Kind, Outcome, Row};

/// Reads the rows of a COPY TO STDOUT in the binary format, as the same types of values as those of
/// a query.
///
/// ```no_run
/// # use onetrip::types::Type;
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let copy = client.copy_out("copy item (id, name) to stdout (format binary)").await?;
/// let mut rows = onetrip::BinaryCopyOut::new(copy, &[Type::INT4, Type::TEXT])?;
/// while let Some(row) = rows.try_next().await? {
///     println!("{} {}", row.get::<i32>(0), row.get::<&str>(1));
/// }
/// # Ok(()) }
/// ```
///
/// The columns are named by their numbers from 1, since a COPY does not send their names. Nor does
/// it send their types: the types given here are not checked.
pub struct BinaryCopyOut<'a> {
    copy: CopyOut<'a>,
    columns: Columns,
    /// Bytes that were received and not used yet.
    chunk: Bytes,
    /// The part that has come of a row in several pieces.
    gathered: BytesMut,
    begun: bool,
    ended: bool,
}

impl std::fmt::Debug for BinaryCopyOut<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.copy.fmt(f)
    }
}

impl<'a> BinaryCopyOut<'a> {
    /// Reads the rows of a COPY whose statement says `(format binary)`, with columns of these
    /// types.
    ///
    /// # Errors
    /// The data is not binary, or has another number of columns. Then the COPY is dropped.
    pub fn new(copy: CopyOut<'a>, types: &[Type]) -> Result<BinaryCopyOut<'a>, Error> {
        if !copy.is_binary() || copy.columns() != types.len() {
            let form = if copy.is_binary() { "binary" } else { "not binary" };
            let message = format!(
                "the data of the COPY is {form} and has {} columns, where {} binary ones were expected",
                copy.columns(),
                types.len()
            );
            return Err(Error::new(Kind::Misuse, Outcome::Applied, "copy_format", message));
        }
        let columns =
            types.iter().enumerate().map(|(number, type_)| Column::of_type(number, type_));
        Ok(BinaryCopyOut {
            copy,
            columns: columns.collect(),
            chunk: Bytes::new(),
            gathered: BytesMut::new(),
            begun: false,
            ended: false,
        })
    }

    /// The progress of the COPY; see [`CopyOut::progress`].
    pub fn progress(&self) -> Progress {
        self.copy.progress()
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The next row; `None` once the COPY has ended successfully. Cancel safe.
    ///
    /// # Errors
    /// The COPY failed, or the connection was lost; then the data is over. A row longer than
    /// `result_bytes_max` ends it, too: read such data from the [`CopyOut`] itself.
    pub async fn try_next(&mut self) -> Result<Option<Row>, Error> {
        std::future::poll_fn(|cx| self.poll_row(cx)).await
    }

    fn poll_row(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Row>, Error>> {
        let row = ready!(self.poll_next_row(cx)).map_err(|error| match error.code() {
            MALFORMED_REPLY => self.copy.messages.inflow.of_broken(error),
            _ => error,
        });
        if !matches!(row, Ok(Some(_))) {
            self.copy.give_back_at_end();
        }
        Poll::Ready(row)
    }

    fn poll_next_row(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Row>, Error>> {
        loop {
            if let Some(piece) = self.next_whole()? {
                if !self.begun {
                    self.begun = true;
                } else if piece.get(..2) == Some(&TRAILER.to_be_bytes()[..]) {
                    self.ended = true;
                } else {
                    return Poll::Ready(Ok(Some(Row::new(self.columns.clone(), piece))));
                }
                continue;
            }
            match ready!(self.copy.poll_data(cx))? {
                Some(chunk) => self.chunk = chunk,
                None if self.ended && self.gathered.is_empty() => return Poll::Ready(Ok(None)),
                None => return Poll::Ready(Err(Error::malformed("the copy data ends too early"))),
            }
        }
    }

    /// The header, the next row or the trailer, once it is complete.
    fn next_whole(&mut self) -> Result<Option<Bytes>, Error> {
        if self.chunk.is_empty() {
            return Ok(None);
        }
        if self.ended {
            return Err(Error::malformed("copy data behind its end"));
        }
        if self.gathered.is_empty() {
            if let Some(len) = self.len_of(&self.chunk)? {
                return Ok(Some(self.chunk.split_to(len)));
            }
            self.gathered.extend_from_slice(&self.chunk);
        } else {
            self.gathered.extend_from_slice(&self.chunk);
        }
        self.chunk.clear();
        let max = self.copy.lease.connection.context.options.result_bytes_max;
        match self.len_of(&self.gathered)? {
            Some(len) => {
                let mut gathered = std::mem::take(&mut self.gathered).freeze();
                let whole = gathered.split_to(len);
                self.chunk = gathered;
                Ok(Some(whole))
            }
            None if self.gathered.len() > max => {
                let message =
                    format!("a row of the COPY is longer than {max} bytes (result_bytes_max)");
                Err(Error::new(Kind::Misuse, Outcome::Applied, RESULT_TOO_LARGE, message))
            }
            None => Ok(None),
        }
    }

    /// The length of the element at the front, if it is complete.
    fn len_of(&self, data: &[u8]) -> Result<Option<usize>, Error> {
        match self.begun {
            false => header_len(data),
            true => tuple_len(data, self.columns.len()),
        }
    }
}

impl Stream for BinaryCopyOut<'_> {
    type Item = Result<Row, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_row(cx).map(Result::transpose)
    }
}

/// The length of signature, flags and extension.
fn header_len(data: &[u8]) -> Result<Option<usize>, Error> {
    let start = &data[..data.len().min(SIGNATURE.len())];
    if !SIGNATURE.starts_with(start) {
        return Err(Error::malformed("the copy data has no header"));
    }
    let Some(mut rest) = data.get(SIGNATURE.len()..).filter(|rest| rest.len() >= 8) else {
        return Ok(None);
    };
    let (flags, extension) = (rest.get_u32(), rest.get_u32() as usize);
    // The upper half has the flags that a reader must understand. Bit 16, "with object numbers",
    // was used up to PostgreSQL 11.
    if flags >> 16 != 0 {
        return Err(Error::malformed("the version of the copy data is not supported"));
    }
    let len = SIGNATURE.len() + 8 + extension;
    Ok((data.len() >= len).then_some(len))
}

#[cold]
fn misfit() -> Error {
    Error::malformed("a row of the COPY does not fit its columns")
}

/// The length of a row. It has the form of a DataRow: the number of columns, and each value with
/// its length.
fn tuple_len(data: &[u8], columns: usize) -> Result<Option<usize>, Error> {
    let Some(count) = data.first_chunk() else { return Ok(None) };
    let count = i16::from_be_bytes(*count);
    if count == TRAILER {
        return Ok(Some(2));
    }
    if usize::try_from(count) != Ok(columns) {
        return Err(misfit());
    }
    let mut at = 2;
    for _ in 0..columns {
        let Some(len) = data.get(at..).and_then(|rest| rest.first_chunk()) else { return Ok(None) };
        at += 4 + match i32::from_be_bytes(*len) {
            -1 => 0,
            len => usize::try_from(len).map_err(|_| misfit())?,
        };
        if at > data.len() {
            return Ok(None);
        }
    }
    Ok(Some(at))
}
