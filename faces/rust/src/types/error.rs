//! The error of our own values.

use std::error::Error;
use std::fmt;
use std::str::Utf8Error;

use postgres_types::{WasNull, WrongType};

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

/// What a conversion said, where it is known not to quote the value: any text may, and so may the
/// errors of other crates.
pub(crate) fn plain_reason(error: &(dyn Error + Send + Sync + 'static)) -> Option<String> {
    if error.is::<WasNull>() {
        return Some("a part of it is NULL".to_owned());
    }
    let is_plain = error.is::<ValueError>() || error.is::<WrongType>() || error.is::<Utf8Error>();
    is_plain.then(|| error.to_string())
}
