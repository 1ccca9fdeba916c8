//! Cuts the byte stream into messages, without looking into them.

use super::{STARTUP_LEN_MAX, Violation};

/// The first five bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type of the message.
    pub tag: u8,
    /// The length of the body, without the type and the length field.
    pub len: u32,
}

impl Header {
    /// Bytes of a header on the wire.
    pub const LEN: usize = 5;

    /// Reads the header at the start of `input`; `None` while it is incomplete.
    ///
    /// # Errors
    /// A length below 4, which is the length of the length field itself.
    #[inline]
    pub fn peek(input: &[u8]) -> Result<Option<Header>, Violation> {
        let Some(&[tag, a, b, c, d]) = input.first_chunk() else { return Ok(None) };
        match u32::from_be_bytes([a, b, c, d]).checked_sub(4) {
            Some(len) => Ok(Some(Header { tag, len })),
            None => Err(Violation::ShortLength { tag }),
        }
    }

    /// The bytes of the whole message on the wire.
    #[inline]
    pub fn message_len(self) -> usize {
        Header::LEN + self.len as usize
    }
}

/// One whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The type of the message.
    pub tag: u8,
    /// The body.
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// The bytes of the whole message on the wire, for the caller to remove from its buffer.
    #[inline]
    pub fn message_len(self) -> usize {
        Header::LEN + self.body.len()
    }
}

/// The first message in `input`; `None` while it is incomplete. `max_len_of` gives the limit for
/// each type: [`super::max_len`] for a server's messages, [`super::frontend_max_len`] for a
/// client's, or a stricter function.
///
/// # Errors
/// A type without a limit is unknown, and refused at its first byte. A length below 4 or above the
/// limit is refused without waiting for the body.
#[inline]
pub fn frame(
    input: &[u8],
    max_len_of: impl Fn(u8) -> Option<u32>,
) -> Result<Option<Frame<'_>>, Violation> {
    let Some(&tag) = input.first() else { return Ok(None) };
    let Some(max) = max_len_of(tag) else { return Err(Violation::UnknownTag(tag)) };
    let Some(header) = Header::peek(input)? else { return Ok(None) };
    if header.len > max {
        return Err(Violation::TooLong { tag });
    }
    Ok(input.get(Header::LEN..header.message_len()).map(|body| Frame { tag, body }))
}

/// The body of the first packet of a connection, which has a length but no type; `None` while it is
/// incomplete. Decode it with [`super::InitialMessage::decode`], and remove its length and four
/// more bytes from the buffer.
///
/// # Errors
/// The length is below 8 or above 10,000, which the server refuses as well (ProcessStartupPacket in
/// backend_startup.c).
pub fn frame_initial(input: &[u8]) -> Result<Option<&[u8]>, Violation> {
    let Some(&len) = input.first_chunk() else { return Ok(None) };
    let len = u32::from_be_bytes(len);
    if !(8..=STARTUP_LEN_MAX).contains(&len) {
        return Err(Violation::Malformed {
            message: "StartupMessage",
            reason: "its length is not from 8 to 10000",
        });
    }
    Ok(input.get(4..len as usize))
}
