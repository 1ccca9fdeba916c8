//! Describe: asks for the types of a statement or a portal.

use bytes::BytesMut;

use super::{EncodeError, Target, Violation, tag};

/// Answered by ParameterDescription (statements only) and then RowDescription or NoData.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Describe<'a> {
    /// What it is about.
    pub target: Target<'a>,
}

impl<'a> Describe<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Neither a statement nor a portal.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        Target::decode("Describe", body).map(|target| Describe { target })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// A NUL in the name, or a name of about 10,000 bytes: the server would close the connection.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        self.target.encode(tag::frontend::DESCRIBE, out)
    }
}
