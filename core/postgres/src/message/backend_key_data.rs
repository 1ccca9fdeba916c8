//! BackendKeyData: the data for a CancelRequest.

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, put_bytes, tagged};
use super::{CANCEL_KEY_LEN, EncodeError, Secret, Violation, tag};

/// Identifies the session for CancelRequest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendKeyData<'a> {
    /// The process number of the server; a pooler makes one up.
    pub process_id: i32,
    /// The key: 4 bytes in protocol 3.0, up to 256 in 3.2.
    pub secret_key: Secret<'a>,
}

impl<'a> BackendKeyData<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// The key has fewer than 4 or more than 256 bytes.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("BackendKeyData", body);
        let process_id = reader.i32()?;
        let key = reader.rest();
        if !CANCEL_KEY_LEN.contains(&key.len()) {
            return Err(reader.fail("its key has fewer than 4 or more than 256 bytes"));
        }
        Ok(BackendKeyData { process_id, secret_key: Secret(key) })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// The key has fewer than 4 or more than 256 bytes.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        if !CANCEL_KEY_LEN.contains(&self.secret_key.0.len()) {
            return Err(EncodeError::KeyLength);
        }
        tagged(out, tag::backend::BACKEND_KEY_DATA, |out| {
            out.put_i32(self.process_id);
            put_bytes(out, self.secret_key.0)
        })
    }
}
