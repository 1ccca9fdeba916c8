//! Rows of a batch as bytes: many Binds and Executes of one statement, one behind the other.

use std::sync::Arc;

use bytes::BytesMut;
use onetrip_postgres::message::bind::Front;
use onetrip_postgres::message::{Format, Formats, SYNC, execute};

use super::ParameterSet;
use crate::Error;
use crate::executor::check_count;
use crate::params::{format_of, unencodable, write_value};
use crate::shapes::Shape;

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
    shape: Arc<Shape>,
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
    pub(super) fn new(shape: &Arc<Shape>, statement: &str, isolated: bool) -> Encoder {
        Encoder {
            shape: shape.clone(),
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
        let types = &self.shape.types;
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
