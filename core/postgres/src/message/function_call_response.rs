//! FunctionCallResponse: the answer to the obsolete FunctionCall, which this crate never sends.

use bytes::BytesMut;

use super::buffer::{Reader, put_value, tagged};
use super::{EncodeError, Violation, tag};

/// The result of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionCallResponse<'a> {
    /// `None` for NULL.
    pub value: Option<&'a [u8]>,
}

impl<'a> FunctionCallResponse<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// A length that differs from the bytes that are there.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("FunctionCallResponse", body);
        let value = match reader.i32()? {
            -1 => None,
            len @ 0.. => Some(reader.bytes(len as usize)?),
            _ => return Err(reader.fail("its value has a negative length")),
        };
        reader.end()?;
        Ok(FunctionCallResponse { value })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// More than 1 GiB.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        tagged(out, tag::backend::FUNCTION_CALL_RESPONSE, |out| put_value(out, self.value))
    }
}
