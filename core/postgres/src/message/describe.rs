//! Describe: asks for the types of a statement or a portal.

use bytes::BytesMut;

use super::{EncodeError, Target, Violation, tag};

/// Answered by ParameterDescription (statements only) and then RowDescription or NoData.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Describe<'a> {
    /// What to describe.
    pub target: Target<'a>,
}

impl<'a> Describe<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// The target is neither a statement nor a portal.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        Target::decode("Describe", body).map(|target| Describe { target })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// The name contains a NUL, or is about 10,000 bytes long, for which the server would close the
    /// connection.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        self.target.encode(tag::frontend::DESCRIBE, out)
    }
}
