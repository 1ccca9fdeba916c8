//! A field that `Debug` does not show.

use std::fmt;

/// Borrowed bytes (a password, a proof, a cancel key) whose `Debug` prints `***`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret<'a>(pub &'a [u8]);

impl fmt::Debug for Secret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
