//! What a failed statement means for the run: a retry, an error to count, or the end.

use crate::error::Error;
use crate::load::Tally;
use crate::sqlstate::{is_conflict, is_fatal};

/// Why a run of a script failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The same run may succeed the next time.
    Conflict(String),
    /// The server refused a statement. It is counted, and the next run begins.
    Counted(String),
    /// The error would repeat each time, so the measurement ends.
    Fatal(Error),
}

impl Failure {
    /// The failure of a statement; `place` is its script and line.
    pub(super) fn of(error: &onetrip::Error, place: &str) -> Failure {
        match error.sqlstate() {
            Some(code) if is_conflict(code) => Failure::Conflict(code.to_owned()),
            Some(code) if !is_fatal(code) && !error.is_connection_lost() => {
                Failure::Counted(code.to_owned())
            }
            _ => Failure::Fatal(Error::from(error.clone()).context(place)),
        }
    }

    /// Counts it in the tally, unless it ends the measurement.
    pub(super) fn count(self, tally: &mut Tally) -> Result<(), Error> {
        match self {
            Failure::Conflict(code) | Failure::Counted(code) => {
                tally.failed(&code);
                Ok(())
            }
            Failure::Fatal(error) => Err(error),
        }
    }
}
