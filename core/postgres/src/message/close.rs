//! Close: forgets a prepared statement or a portal.

use bytes::BytesMut;

use super::{EncodeError, Target, Violation, tag};

/// Answered by CloseComplete, even if the name does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// What to close.
    pub target: Target<'a>,
}

impl<'a> Close<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// The target is neither a statement nor a portal.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        Target::decode("Close", body).map(|target| Close { target })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// The name contains a NUL, or is about 10,000 bytes long, for which the server would close the
    /// connection.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        self.target.encode(tag::frontend::CLOSE, out)
    }
}
