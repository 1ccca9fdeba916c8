//! Rows of a batch as bytes: many Binds and Executes of one statement, one behind the other.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use onetrip_postgres::message::bind::Front;
use onetrip_postgres::message::tag::frontend;
use onetrip_postgres::message::{Format, Formats, Header, SYNC, execute};

use super::ParameterSet;
use crate::Error;
use crate::metadata::Metadata;
use crate::params::check_count;
use crate::params::{format_of, unencodable, write_value};

/// The rows that were not sent yet, with their numbers.
pub(super) struct Rows<I: Iterator> {
    rows: I,
    /// The first row, which was taken to see its types.
    first: Option<I::Item>,
    /// The number of the next row.
    pub(super) index: u64,
}

/// Writes rows.
pub(super) struct Encoder {
    metadata: Arc<Metadata>,
    statement: String,
    formats: Vec<Format>,
    /// Made for these formats.
    front: Option<Front>,
    /// Whether each row has a Sync of its own.
    isolated: bool,
}

/// How much belongs into one request.
#[derive(Clone, Copy)]
pub(super) struct ChunkMax {
    pub(super) rows: u32,
    pub(super) bytes: usize,
}

/// Why no more rows were written.
pub(super) enum Pause {
    Full,
    /// The row with this number can't be written.
    Refused(u64, Error),
    Exhausted,
}

impl<I: Iterator> Rows<I> {
    /// The rows, and the first of them for a look; none if there is none.
    pub(super) fn of(mut rows: I) -> Option<Rows<I>> {
        let first = Some(rows.next()?);
        Some(Rows { rows, first, index: 0 })
    }

    pub(super) fn first(&self) -> Option<&I::Item> {
        self.first.as_ref()
    }

    fn next(&mut self) -> Option<I::Item> {
        let next = self.first.take().or_else(|| self.rows.next());
        self.index += u64::from(next.is_some());
        next
    }
}

impl Encoder {
    pub(super) fn new(metadata: &Arc<Metadata>, statement: &str, isolated: bool) -> Encoder {
        Encoder {
            metadata: metadata.clone(),
            statement: statement.to_owned(),
            formats: Vec::new(),
            front: None,
            isolated,
        }
    }

    /// Writes rows until there are enough of them. Says how many, and why not more.
    pub(super) fn fill<I>(
        &mut self,
        rows: &mut Rows<I>,
        max: ChunkMax,
        out: &mut BytesMut,
    ) -> (u32, Pause)
    where
        I: Iterator,
        I::Item: ParameterSet,
    {
        let mut count = 0;
        while count < max.rows && out.len() < max.bytes {
            let Some(row) = rows.next() else { return (count, Pause::Exhausted) };
            if let Err(error) = self.write(&row, out) {
                return (count, Pause::Refused(rows.index - 1, error));
            }
            count += 1;
        }
        (count, Pause::Full)
    }

    fn write(&mut self, row: &impl ParameterSet, out: &mut BytesMut) -> Result<(), Error> {
        let types = &self.metadata.types;
        check_count(row.count(), types.len())?;
        let format = |number: usize| format_of(row.parameter(number), &types[number]);
        let fits = (0..types.len()).all(|it| self.formats.get(it) == Some(&format(it)));
        let front = match &mut self.front {
            Some(front) if fits => front,
            front => {
                self.formats = (0..types.len()).map(format).collect();
                let formats = Formats::Each(&self.formats);
                let new = Front::new("", &self.statement, formats, types.len());
                front.insert(new.map_err(unencodable)?)
            }
        };
        front.write(out, |number, out| {
            write_value(number, row.parameter(number), &types[number], out)
        })?;
        out.extend_from_slice(&execute::UNNAMED_ALL);
        if self.isolated {
            out.extend_from_slice(&SYNC);
        }
        Ok(())
    }
}

/// The same rows for a connection on which the statement has another name. The name is the second
/// string of a Bind, behind that of the unnamed portal (PostgreSQL documentation, "Message
/// Formats").
pub(super) fn renamed(rows: &[u8], old: &str, new: &str) -> BytesMut {
    let mut out = BytesMut::with_capacity(rows.len());
    let mut left = rows;
    while let Ok(Some(header)) = Header::peek(left) {
        let (message, behind) = left.split_at(Header::LEN + header.len as usize);
        left = behind;
        if header.tag != frontend::BIND {
            out.extend_from_slice(message);
            continue;
        }
        let values = &message[Header::LEN + 1 + old.len()..];
        out.put_u8(frontend::BIND);
        out.put_u32((LENGTH_LEN + 1 + new.len() + values.len()) as u32);
        out.put_u8(0);
        out.extend_from_slice(new.as_bytes());
        out.extend_from_slice(values);
    }
    out
}

/// The length of a message counts itself.
const LENGTH_LEN: usize = 4;

#[cfg(test)]
mod tests {
    use postgres_types::Type;

    use super::*;

    fn rows(name: &str) -> BytesMut {
        let traits = onetrip_postgres::sql::classify("insert");
        let types = vec![Type::INT4, Type::TEXT];
        let metadata = Metadata::new("insert".into(), types, traits, Vec::new());
        let rows = Rows::of([(1, "a"), (2, ""), (3, "onetrip_1")].into_iter());
        let mut rows = rows.expect("there are three");
        let mut out = BytesMut::new();
        let max = ChunkMax { rows: 64, bytes: 1 << 14 };
        Encoder::new(&metadata, name, true).fill(&mut rows, max, &mut out);
        out
    }

    #[test]
    fn renamed_rows_are_those_that_were_written_with_that_name() {
        for (old, new) in [("onetrip_1", "onetrip_1"), ("onetrip_1", "onetrip_1234"), ("ab", "")] {
            assert_eq!(renamed(&rows(old), old, new), rows(new));
        }
    }
}
