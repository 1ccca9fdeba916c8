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
use crate::statements::parse_of;

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
    /// The start of a Bind for the current formats of the parameters.
    front: Option<Front>,
    /// What is written in front of each row: its Parse, if the statement has no name.
    parse: BytesMut,
    /// What is written behind each row: its Sync, if the row is a transaction of its own.
    sync: &'static [u8],
}

/// How much goes into one request.
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
    /// The rows; the first one was taken to look at it. `None` if there are no rows.
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
    /// For rows that share a sync point, of a statement with this name.
    pub(super) fn new(metadata: &Arc<Metadata>, statement: &str) -> Encoder {
        Encoder {
            metadata: metadata.clone(),
            statement: statement.to_owned(),
            formats: Vec::new(),
            front: None,
            parse: BytesMut::new(),
            sync: &[],
        }
    }

    /// For rows that are transactions of their own. If the statement has no name, each row carries
    /// the text.
    pub(super) fn isolated(
        metadata: &Arc<Metadata>,
        statement: Option<&str>,
    ) -> Result<Encoder, Error> {
        let mut parse = BytesMut::new();
        if statement.is_none() {
            parse_of(metadata)(&mut parse, "").map_err(unencodable)?;
        }
        Ok(Encoder { parse, sync: &SYNC, ..Encoder::new(metadata, statement.unwrap_or_default()) })
    }

    /// Writes rows until the request is full. Returns how many, and why it stopped.
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
        let start = out.len();
        out.extend_from_slice(&self.parse);
        let written = front.write(out, |number, out| {
            write_value(number, row.parameter(number), &types[number], out)
        });
        written.inspect_err(|_| out.truncate(start))?;
        out.extend_from_slice(&execute::UNNAMED_ALL);
        out.extend_from_slice(self.sync);
        Ok(())
    }

    /// Rows that `writer` wrote, as this encoder would have written them. The name is the second
    /// string of a Bind, behind that of the unnamed portal (PostgreSQL documentation, "Message
    /// Formats").
    pub(super) fn rewrite(&self, rows: &[u8], writer: &Encoder) -> BytesMut {
        let (old, new) = (&writer.statement, &self.statement);
        let mut out = BytesMut::with_capacity(rows.len());
        let mut left = rows;
        while let Ok(Some(header)) = Header::peek(left) {
            let (message, behind) = left.split_at(Header::LEN + header.len as usize);
            left = behind;
            match header.tag {
                frontend::PARSE => continue,
                frontend::BIND => out.extend_from_slice(&self.parse),
                _ => {
                    out.extend_from_slice(message);
                    continue;
                }
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
}

/// The length of a message includes these bytes.
const LENGTH_LEN: usize = 4;

#[cfg(test)]
mod tests {
    use postgres_types::Type;

    use super::*;

    fn rows(name: Option<&str>) -> (Encoder, BytesMut) {
        let traits = onetrip_postgres::sql::classify("insert");
        let types = vec![Type::INT4, Type::TEXT];
        let metadata = Metadata::new("insert".into(), types, traits, Vec::new());
        let rows = Rows::of([(1, "a"), (2, ""), (3, "onetrip_1")].into_iter());
        let mut rows = rows.expect("there are three");
        let mut out = BytesMut::new();
        let max = ChunkMax { rows: 64, bytes: 1 << 14 };
        let mut encoder = Encoder::isolated(&metadata, name).expect("the text has no NUL");
        encoder.fill(&mut rows, max, &mut out);
        (encoder, out)
    }

    #[test]
    fn rewritten_rows_are_those_that_were_written_so() {
        let ways = [None, Some("onetrip_1"), Some("onetrip_1234")];
        for (old, new) in ways.iter().flat_map(|old| ways.map(|new| (*old, new))) {
            let ((writer, written), (encoder, wanted)) = (rows(old), rows(new));
            assert_eq!(encoder.rewrite(&written, &writer), wanted, "{old:?} {new:?}");
        }
    }
}
