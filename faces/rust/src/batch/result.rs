//! The results of a batch.

use std::fmt;
use std::sync::Arc;

use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{CommandComplete, Header};

use crate::fate::Fate;
use crate::rows::Blocks;
use crate::{Error, Outcome};

/// For each row of a batch, in order: how many rows the statement inserted, updated, deleted or
/// returned.
///
/// Neighbours with the same count are stored as one, so that ten million inserts take a few bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affected {
    runs: Vec<Run>,
    total: u64,
}

/// Rows with the same count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// The number of the last row, plus one.
    end: u64,
    count: u64,
}

impl Affected {
    /// The sum over all rows.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The number of rows of the batch.
    pub fn len(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.end)
    }

    /// Whether the batch had no rows.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The count of one row, by its number from 0.
    pub fn get(&self, index: u64) -> Option<u64> {
        let run = self.runs.partition_point(|run| run.end <= index);
        self.runs.get(run).map(|run| run.count)
    }

    /// The counts of all rows.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let mut start = 0;
        self.runs.iter().flat_map(move |run| {
            let rows = start..run.end;
            start = run.end;
            rows.map(|_| run.count)
        })
    }

    /// Adds the count of the next row.
    #[inline]
    pub(super) fn push(&mut self, count: u64) {
        self.total = self.total.saturating_add(count);
        match self.runs.last_mut() {
            Some(run) if run.count == count => run.end += 1,
            _ => self.runs.push(Run { end: self.len() + 1, count }),
        }
    }

    /// Adds the counts of all statements that a reply completed.
    pub(super) fn take(&mut self, reply: &Blocks) {
        let mut last: (&[u8], u64) = (&[], 0);
        for (tag, body) in reply.messages() {
            match tag {
                // Most tags are equal to the one before.
                backend::COMMAND_COMPLETE if body == last.0 => self.push(last.1),
                backend::COMMAND_COMPLETE => {
                    last = (body, count_of(body));
                    self.push(last.1);
                }
                backend::EMPTY_QUERY_RESPONSE => self.push(0),
                _ => {}
            }
        }
    }
}

/// The number of rows in the body of a CommandComplete; 0 if it has none.
pub(super) fn count_of(body: &[u8]) -> u64 {
    CommandComplete::decode(body).ok().and_then(|complete| complete.rows()).unwrap_or(0)
}

/// The error of the server in the body of a message.
pub(super) fn error_of(body: &[u8], outcome: Outcome) -> Error {
    let mut message = vec![0; Header::LEN];
    message.extend_from_slice(body);
    match crate::core::server_error(&message) {
        Some(error) => Error::server_error(error, outcome),
        None => Error::unreadable("an error of the server could not be read").with_outcome(outcome),
    }
}

/// Why a batch, or a row of it, failed. Converts into an [`Error`] whose message names the row.
///
/// Messages count rows from 1, for people; [`index`](Self::index) counts them from 0, for programs.
#[derive(Clone, Debug)]
pub struct BatchError {
    index: Option<u64>,
    error: Error,
}

impl BatchError {
    pub(super) fn at(index: u64, error: Error) -> BatchError {
        BatchError { index: Some(index), error }
    }

    /// The index of the row that failed, from 0. `None` if it was not a row that failed, but the
    /// statement, the commit or the connection.
    pub fn index(&self) -> Option<u64> {
        self.index
    }

    /// The error. Its outcome is that of the whole batch if the batch is atomic, and of this row if
    /// the rows are isolated.
    pub fn error(&self) -> &Error {
        &self.error
    }

    pub(super) fn with_outcome(self, outcome: Outcome) -> BatchError {
        BatchError { error: self.error.with_outcome(outcome), ..self }
    }

    pub(super) fn part_of(self, fate: Option<&Arc<Fate>>) -> BatchError {
        BatchError { error: self.error.part_of(fate), ..self }
    }
}

impl From<Error> for BatchError {
    fn from(error: Error) -> BatchError {
        BatchError { index: None, error }
    }
}

impl From<BatchError> for Error {
    fn from(error: BatchError) -> Error {
        match error.index {
            Some(index) => error.error.about(format_args!("row {} of the batch", index + 1)),
            None => error.error,
        }
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "row {} of the batch: {}", index + 1, self.error),
            None => self.error.fmt(f),
        }
    }
}

impl std::error::Error for BatchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// The result of an isolated batch.
#[must_use = "rows that failed are in the report only"]
#[derive(Clone, Debug, Default)]
pub struct BatchReport {
    pub(super) affected: Affected,
    pub(super) errors: Vec<BatchError>,
    pub(super) stopped: Option<Error>,
}

impl BatchReport {
    /// The counts of the rows that were taken from the iterator; 0 for those that failed.
    pub fn affected(&self) -> &Affected {
        &self.affected
    }

    /// The rows that failed, in order. Each error has an index, and the outcome of its row.
    pub fn errors(&self) -> &[BatchError] {
        &self.errors
    }

    /// Why no further rows were taken, if there may have been more.
    pub fn stopped(&self) -> Option<&Error> {
        self.stopped.as_ref()
    }

    /// The counts, if no row failed.
    ///
    /// # Errors
    /// The error of the first row that failed; otherwise why no further rows were taken.
    pub fn into_result(self) -> Result<Affected, BatchError> {
        match (self.errors.into_iter().next(), self.stopped) {
            (Some(error), _) => Err(error),
            (None, Some(stopped)) => Err(stopped.into()),
            (None, None) => Ok(self.affected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_in_runs_and_read_by_row() {
        let counts = [1, 1, 1, 0, 0, 5, 1, 1];
        let mut affected = Affected::default();
        assert!(affected.is_empty() && affected.get(0).is_none());
        counts.iter().for_each(|count| affected.push(*count));
        assert_eq!((affected.total(), affected.len(), affected.runs.len()), (10, 8, 4));
        assert_eq!(affected.iter().collect::<Vec<_>>(), counts);
        for (index, count) in counts.iter().enumerate() {
            assert_eq!(affected.get(index as u64), Some(*count));
        }
        assert_eq!(affected.get(8), None);
    }
}
