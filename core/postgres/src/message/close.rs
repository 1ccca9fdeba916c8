//! Close: forgets a prepared statement or a portal.

use bytes::BytesMut;

use super::{EncodeError, Target, Violation, tag};

/// Answered by CloseComplete, also where nothing has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// What it is about.
    pub target: Target<'a>,
}

impl<'a> Close<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Neither a statement nor a portal.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        Target::decode("Close", body).map(|target| Close { target })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// A NUL in the name, or a name of about 10,000 bytes: the server would close the connection.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        self.target.encode(tag::frontend::CLOSE, out)
    }
}
