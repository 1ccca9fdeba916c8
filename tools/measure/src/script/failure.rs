//! What a failed statement means for the run: another try, an error to count, or the end.

use crate::error::Error;
use crate::load::Tally;
use crate::sqlstate::{is_conflict, is_fatal};

/// Why a script did not come to its end.
#[derive(Debug)]
pub(super) enum Failure {
    /// The same run may succeed the next time.
    Conflict(String),
    /// The server refused a statement: counted, and the next run goes on.
    Counted(String),
    /// Nothing that comes would be worth measuring.
    Fatal(Error),
}

impl Failure {
    /// Of a statement; `place` is its script and line.
    pub(super) fn of(error: &onetrip::Error, place: &str) -> Failure {
        match error.sqlstate() {
            Some(code) if is_conflict(code) => Failure::Conflict(code.to_owned()),
            Some(code) if !is_fatal(code) && !error.is_connection_lost() => {
                Failure::Counted(code.to_owned())
            }
            _ => Failure::Fatal(Error::from(error.clone()).context(place)),
        }
    }

    /// Tells the tally, unless it is the end.
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
