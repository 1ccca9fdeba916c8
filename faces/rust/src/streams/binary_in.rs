//! COPY FROM STDIN in the binary format, row by row.

use bytes::{BufMut, BytesMut};
use onetrip_postgres::client::copy::MESSAGE_LEN;
use postgres_types::{IsNull, ToSql, Type};

use super::copy_in::CopyIn;
use super::copy_row::{Columns, CopyRow, Refused};
use super::{Lease, Progress};
use crate::params::{self, Column, Params};
use crate::{Error, Kind, Outcome};

/// Writes rows to a COPY FROM STDIN in the binary format, from the same types of values as
/// parameters.
///
/// ```no_run
/// # use onetrip::types::Type;
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let copy = client.copy_in("copy item (id, name) from stdin (format binary)").await?;
/// let mut rows = onetrip::BinaryCopyIn::new(copy, &[Type::INT4, Type::TEXT]);
/// rows.row(&[&1, &"nail"]).await?;
/// rows.row(&[&2, &"bolt"]).await?;
/// assert_eq!(rows.finish().await?, 2);
/// # Ok(()) }
/// ```
///
/// The types must be those of the columns: the server does not convert binary data, and may take
/// one type for another of the same length. `copy_in_rows` asks the server for them.
#[must_use = "a COPY that is dropped is given up: finish it"]
#[derive(Debug)]
pub struct BinaryCopyIn<'a> {
    copy: CopyIn<'a>,
    columns: Columns,
    /// The names of the columns, if they are known.
    names: Box<[Box<str>]>,
}

impl<'a> BinaryCopyIn<'a> {
    /// Begins the data of a COPY whose statement says `(format binary)`, with columns of these
    /// types.
    pub fn new(mut copy: CopyIn<'a>, types: &[Type]) -> BinaryCopyIn<'a> {
        copy.message.put_slice(SIGNATURE);
        // Flags, and the length of the header's extension.
        copy.message.put_u64(0);
        let columns = types.iter().map(|type_| (type_.clone(), Column::of(type_))).collect();
        BinaryCopyIn { copy, columns: Columns(columns), names: Box::default() }
    }

    /// Asks for the types of a table's columns, and begins a COPY into them.
    pub(crate) async fn into_table(
        lease: Lease<'a>,
        table: &str,
        columns: &[&str],
    ) -> Result<BinaryCopyIn<'a>, Error> {
        let table = table.split('.').map(quoted).collect::<Vec<_>>().join(".");
        let list = columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        let question = format!("select {list} from {table}");
        let described = lease.executor.prepare(&question, &[]).await?;
        let types: Vec<Type> = described.columns().iter().map(|it| it.type_().clone()).collect();
        let sql = format!("copy {table} ({list}) from stdin (format binary)");
        let copy = CopyIn::begin(lease, &sql).await?;
        let names = columns.iter().map(|name| Box::from(*name)).collect();
        Ok(BinaryCopyIn { names, ..BinaryCopyIn::new(copy, &types) })
    }

    /// Adds a row. Rows are kept until there are 64 KiB; then this waits while the server takes no
    /// more. If the future is dropped, the row may or may not be included.
    ///
    /// # Errors
    /// The number of values is not that of the columns, or a value does not convert to the type of
    /// its column (`NotSent`): the row is left out, and the COPY goes on. Or the COPY has failed.
    pub async fn row(&mut self, values: Params<'_>) -> Result<(), Error> {
        if self.copy.message.len() >= MESSAGE_LEN {
            self.send_message().await?;
        }
        self.write(values)
    }

    /// Adds a row from a tuple. The same as [`row`](Self::row), for less: the types of the values
    /// are known when the program is compiled, so the common ones are written without a question.
    ///
    /// ```no_run
    /// # async fn f(mut rows: onetrip::BinaryCopyIn<'_>) -> Result<(), onetrip::Error> {
    /// for number in 0..1_000_i32 {
    ///     rows.row_of((number, "nail", Some(0.25))).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As of [`row`](Self::row).
    pub async fn row_of<R: CopyRow>(&mut self, row: R) -> Result<(), Error> {
        if self.copy.message.len() >= MESSAGE_LEN {
            self.send_message().await?;
        }
        self.check_count(R::LEN)?;
        let start = self.copy.message.len();
        self.copy.message.put_u16(R::LEN as u16);
        if let Err(Refused { number, value, source }) =
            row.put(&mut self.columns, &mut self.copy.message)
        {
            self.copy.message.truncate(start);
            return Err(self.unencodable(number, value, source));
        }
        self.copy.progress.rows += 1;
        Ok(())
    }

    /// Calls `f` with the progress of the COPY; see [`CopyIn::on_progress`].
    pub fn on_progress(self, f: impl FnMut(Progress) + Send + Sync + 'static) -> BinaryCopyIn<'a> {
        BinaryCopyIn { copy: self.copy.on_progress(f), ..self }
    }

    /// The progress of the COPY.
    pub fn progress(&self) -> Progress {
        self.copy.progress()
    }

    /// Sends the rows that are kept; see [`CopyIn::flush`].
    ///
    /// # Errors
    /// The COPY has failed.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.copy.flush().await
    }

    /// Ends the data, waits for the server's answer, and returns how many rows were copied; see
    /// [`CopyIn::finish`].
    ///
    /// # Errors
    /// The COPY failed.
    pub async fn finish(mut self) -> Result<u64, Error> {
        self.copy.message.put_i16(TRAILER);
        self.copy.finish().await
    }

    /// Gives the COPY up; see [`CopyIn::abort`].
    ///
    /// # Errors
    /// The connection was lost.
    pub async fn abort(self, reason: &str) -> Result<(), Error> {
        self.copy.abort(reason).await
    }

    /// Sends a message that is full, once the server takes more.
    async fn send_message(&mut self) -> Result<(), Error> {
        std::future::poll_fn(|cx| self.copy.poll_flush_message(cx)).await
    }

    #[inline]
    fn check_count(&self, given: usize) -> Result<(), Error> {
        let count = self.columns.0.len();
        if given == count {
            return Ok(());
        }
        let message = format!("the COPY has {count} columns, but {given} values were given");
        Err(Error::misuse("column_count", message))
    }

    /// Adds a row to the current message, or leaves the message as it was.
    fn write(&mut self, values: Params<'_>) -> Result<(), Error> {
        self.check_count(values.len())?;
        let start = self.copy.message.len();
        self.copy.message.put_u16(values.len() as u16);
        for (number, value) in values.iter().enumerate() {
            let (type_, column) = &mut self.columns.0[number];
            if let Err(source) = put_value(*value, (type_, column), &mut self.copy.message) {
                self.copy.message.truncate(start);
                return Err(self.unencodable(number, *value, source));
            }
        }
        self.copy.progress.rows += 1;
        Ok(())
    }

    #[cold]
    fn unencodable(&self, number: usize, value: &(dyn ToSql + Sync), source: Source) -> Error {
        let name = self.names.get(number).map_or_else(String::new, |name| format!(" ({name})"));
        let what = format!("column {number}{name}");
        if source.is::<TooLong>() {
            let code = "unencodable";
            return Error::new(Kind::Misuse, Outcome::NotSent, code, format!("{what}: {source}"));
        }
        let of = params::of_rust_type(value);
        params::unconvertible(format_args!("{what}{of}"), &self.columns.0[number].0, source)
    }
}

/// A name as a quoted identifier of SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Why a value does not convert.
pub(super) type Source = Box<dyn std::error::Error + Sync + Send>;

/// Appends a value with its length.
#[inline]
pub(super) fn put_value(
    value: &(dyn ToSql + Sync),
    (type_, column): (&Type, &mut Column),
    out: &mut BytesMut,
) -> Result<(), Source> {
    let at = out.len();
    out.put_i32(-1);
    match column.encode(value, type_, out)? {
        IsNull::Yes => out.truncate(at + 4),
        IsNull::No => {
            let len = out.len() - at - 4;
            if len > VALUE_LEN_MAX {
                return Err(Box::new(TooLong));
            }
            out[at..at + 4].copy_from_slice(&(len as u32).to_be_bytes());
        }
    }
    Ok(())
}

/// The server's largest allocation (MaxAllocSize in memutils.h), which limits a value.
const VALUE_LEN_MAX: usize = 0x3fff_ffff;

#[derive(Debug)]
struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value is longer than 1 GiB")
    }
}

impl std::error::Error for TooLong {}

/// The signature of binary data ("Binary Format" of COPY in PostgreSQL's documentation).
pub(super) const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// Stands in place of a row's number of columns at the end of the data.
pub(super) const TRAILER: i16 = -1;
