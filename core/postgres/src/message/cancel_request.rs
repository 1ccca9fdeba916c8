//! CancelRequest, which is sent alone on a connection of its own.

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, put_bytes, untagged};
use super::{CANCEL_KEY_LEN, EncodeError, Secret, Violation};

/// CANCEL_REQUEST_CODE in src/include/libpq/pqcomm.h: version 1234.5678.
pub const CODE: u32 = 1234 << 16 | 5678;

/// Asks the server to cancel what another connection runs. It is never answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelRequest<'a> {
    /// From BackendKeyData.
    pub process_id: i32,
    /// From BackendKeyData: 4 bytes in protocol 3.0, up to 256 in 3.2.
    pub secret_key: Secret<'a>,
}

impl<'a> CancelRequest<'a> {
    /// Reads what follows the code; [`super::InitialMessage::decode`] calls it.
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("CancelRequest", body);
        let process_id = reader.i32()?;
        let key = reader.rest();
        if !CANCEL_KEY_LEN.contains(&key.len()) {
            return Err(reader.fail("its key has fewer than 4 or more than 256 bytes"));
        }
        Ok(CancelRequest { process_id, secret_key: Secret(key) })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// The key has fewer than 4 or more than 256 bytes.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        if !CANCEL_KEY_LEN.contains(&self.secret_key.0.len()) {
            return Err(EncodeError::KeyLength);
        }
        untagged(out, |out| {
            out.put_u32(CODE);
            out.put_i32(self.process_id);
            put_bytes(out, self.secret_key.0)
        })
    }
}
