//! What a failed statement means for the run: another try, an error to count, or the end.

use crate::error::Error;
use crate::load::Tally;

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
            Some(code @ ("40001" | "40P01")) => Failure::Conflict(code.to_owned()),
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

/// Whether an error comes again with each run: the connection (class 08), a statement's name (26),
/// the login (28), a database or schema that isn't there (3D, 3F), what is wrong with a statement
/// (42), an operator or a server that goes down (57P).
fn is_fatal(code: &str) -> bool {
    ["08", "26", "28", "3D", "3F", "42", "57P"].iter().any(|class| code.starts_with(class))
}
