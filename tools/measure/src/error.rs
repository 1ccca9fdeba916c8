//! The error of a run, as one readable line.

use std::fmt;

/// One line: what failed, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

/// Of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Makes the error from a text; several lines are joined to one.
    pub fn new(line: impl AsRef<str>) -> Error {
        let lines: Vec<&str> = line.as_ref().lines().map(str::trim).collect();
        Error(lines.join(" "))
    }

    /// The same, with what was being done in front.
    #[must_use]
    pub fn context(self, doing: &str) -> Error {
        Error(format!("{doing}: {}", self.0))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<onetrip::Error> for Error {
    fn from(error: onetrip::Error) -> Error {
        Error::new(error.to_string())
    }
}

impl From<String> for Error {
    fn from(line: String) -> Error {
        Error::new(line)
    }
}
