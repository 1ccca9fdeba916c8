//! The error of our own values.

use std::error::Error;
use std::fmt;

/// Why a value could not be converted, or a text not be read as one. It is made of fixed words, so
/// that it never shows the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueError(&'static str);

impl ValueError {
    pub(crate) const fn new(reason: &'static str) -> ValueError {
        ValueError(reason)
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for ValueError {}

/// What `ToSql` and `FromSql` want for an error.
pub(super) type BoxError = Box<dyn Error + Sync + Send>;
