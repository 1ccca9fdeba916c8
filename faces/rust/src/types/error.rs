//! The error of this crate's own value types.

use std::error::Error;
use std::fmt;
use std::str::Utf8Error;

use postgres_types::{WasNull, WrongType};

/// Why a value could not be converted, or a text could not be read as one. The text is fixed, so it
/// never shows the value.
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

/// The error type of `ToSql` and `FromSql`.
pub(super) type BoxError = Box<dyn Error + Sync + Send>;

/// The text of a conversion error, if it is known not to quote the value. Other text may quote it,
/// and so may the errors of other crates.
pub(crate) fn plain_reason(error: &(dyn Error + Send + Sync + 'static)) -> Option<String> {
    if error.is::<WasNull>() {
        return Some("a part of it is NULL".to_owned());
    }
    let is_plain = error.is::<ValueError>() || error.is::<WrongType>() || error.is::<Utf8Error>();
    is_plain.then(|| error.to_string())
}
