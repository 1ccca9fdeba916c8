//! An error of the server in place of a reply.

use std::fmt;

/// An error of the server: a code, by which programs distinguish errors, and a message for people.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ErrorReply<'a> {
    text: &'a [u8],
}

impl<'a> ErrorReply<'a> {
    pub(crate) fn new(text: &'a [u8]) -> ErrorReply<'a> {
        ErrorReply { text }
    }

    /// Its first word: `ERR`, `WRONGTYPE`, `MOVED` and others.
    #[must_use]
    pub fn code(&self) -> &'a [u8] {
        self.text.split(|&byte| byte == b' ').next().unwrap_or_default()
    }

    /// The text after the code, which may quote arguments of the command.
    #[must_use]
    pub fn message(&self) -> &'a [u8] {
        self.text.get(self.code().len() + 1..).unwrap_or_default()
    }

    /// Code and message, as received.
    #[must_use]
    pub fn text(&self) -> &'a [u8] {
        self.text
    }
}

/// Shows the code only: the message may hold secrets.
impl fmt::Debug for ErrorReply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrorReply({})", self.code().escape_ascii())
    }
}
