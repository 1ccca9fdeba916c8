//! A password that `Debug` does not print.

use std::fmt;

/// A password. `Debug` prints `***`, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Box<str>);

impl Password {
    /// The password itself, to send or hash it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Box<str>>> From<T> for Password {
    fn from(password: T) -> Self {
        Password(password.into())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
