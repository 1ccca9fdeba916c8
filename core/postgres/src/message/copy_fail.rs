//! CopyFail: the client gives up a COPY.

use bytes::BytesMut;

use super::buffer::{Reader, check_small, put_c_str, tagged};
use super::{EncodeError, Violation, tag};

/// Makes the COPY fail; the server answers with an ErrorResponse that quotes the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyFail<'a> {
    /// The reason.
    pub reason: &'a str,
}

impl<'a> CopyFail<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Text that is not UTF-8 or does not end with the body.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("CopyFail", body);
        let reason = reader.c_str()?;
        reader.end()?;
        Ok(CopyFail { reason })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// A NUL in the reason, or more than 10,000 bytes: the server would close the connection.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        check_small(self.reason.len() + 1)?;
        tagged(out, tag::frontend::COPY_FAIL, |out| put_c_str(out, self.reason))
    }
}
