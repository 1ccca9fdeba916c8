//! NotificationResponse: a NOTIFY, delivered to sessions that LISTEN.

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, put_c_str, tagged};
use super::{EncodeError, Violation, tag};

/// A notification. It belongs to no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotificationResponse<'a> {
    /// The process that sent it.
    pub process_id: i32,
    /// The channel.
    pub channel: &'a str,
    /// The payload, possibly empty.
    pub payload: &'a str,
}

impl<'a> NotificationResponse<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Fields that differ from the bytes that are there.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("NotificationResponse", body);
        let notification = NotificationResponse {
            process_id: reader.i32()?,
            channel: reader.c_str()?,
            payload: reader.c_str()?,
        };
        reader.end()?;
        Ok(notification)
    }

    /// Appends the message.
    ///
    /// # Errors
    /// A NUL in a string.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        tagged(out, tag::backend::NOTIFICATION_RESPONSE, |out| {
            out.put_i32(self.process_id);
            put_c_str(out, self.channel)?;
            put_c_str(out, self.payload)
        })
    }
}
