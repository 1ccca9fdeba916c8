//! ParameterStatus: the value of a setting that the server reports at login and whenever it
//! changes.

use bytes::BytesMut;

use super::buffer::{Reader, put_c_str, tagged};
use super::{EncodeError, Violation, tag};

/// A reported setting. It can come at any time, even between the messages of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterStatus<'a> {
    /// The name.
    pub name: &'a str,
    /// The value.
    pub value: &'a str,
}

impl<'a> ParameterStatus<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Not exactly two strings in UTF-8.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("ParameterStatus", body);
        let status = ParameterStatus { name: reader.c_str()?, value: reader.c_str()? };
        reader.end()?;
        Ok(status)
    }

    /// Appends the message.
    ///
    /// # Errors
    /// A NUL in a string.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        tagged(out, tag::backend::PARAMETER_STATUS, |out| {
            put_c_str(out, self.name)?;
            put_c_str(out, self.value)
        })
    }
}
