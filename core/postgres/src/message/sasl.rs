//! SASLInitialResponse and SASLResponse: the client's side of a SASL exchange.
//!
//! Both share their type with PasswordMessage. The server knows which one it asked for.

use bytes::BytesMut;

use super::buffer::{Reader, put_bytes, put_c_str, put_value, tagged};
use super::{EncodeError, Secret, Violation, tag};

/// Chooses a mechanism, and may carry its first data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaslInitialResponse<'a> {
    /// One of the mechanisms that AuthenticationSASL offered.
    pub mechanism: &'a str,
    /// `None` if the server begins.
    pub data: Option<Secret<'a>>,
}

impl<'a> SaslInitialResponse<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// A length that differs from the bytes that are there.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("SASLInitialResponse", body);
        let mechanism = reader.c_str()?;
        let data = match reader.i32()? {
            -1 => None,
            len @ 0.. => Some(Secret(reader.bytes(len as usize)?)),
            _ => return Err(reader.fail("its data has a negative length")),
        };
        reader.end()?;
        Ok(SaslInitialResponse { mechanism, data })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// A NUL in the mechanism.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        tagged(out, tag::frontend::PASSWORD, |out| {
            put_c_str(out, self.mechanism)?;
            put_value(out, self.data.map(|data| data.0))
        })
    }
}

/// Further data of the mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaslResponse<'a> {
    /// The whole body.
    pub data: Secret<'a>,
}

impl<'a> SaslResponse<'a> {
    /// Takes a body.
    pub fn decode(body: &'a [u8]) -> Self {
        SaslResponse { data: Secret(body) }
    }

    /// Appends the message.
    ///
    /// # Errors
    /// More than 1 GiB.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        tagged(out, tag::frontend::PASSWORD, |out| put_bytes(out, self.data.0))
    }
}
