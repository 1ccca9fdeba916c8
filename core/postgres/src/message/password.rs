//! PasswordMessage: the answer to AuthenticationCleartextPassword and AuthenticationMD5Password.

use bytes::BytesMut;

use super::buffer::{Reader, put_c_bytes, tagged};
use super::{EncodeError, Secret, Violation, tag};

/// A password, in clear text or hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordMessage<'a> {
    /// Without the NUL that ends it on the wire.
    pub password: Secret<'a>,
}

impl<'a> PasswordMessage<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// No NUL, or bytes behind it.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("PasswordMessage", body);
        let password = Secret(reader.c_bytes()?);
        reader.end()?;
        Ok(PasswordMessage { password })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// A NUL in the password.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        tagged(out, tag::frontend::PASSWORD, |out| put_c_bytes(out, self.password.0))
    }
}
