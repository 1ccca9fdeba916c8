//! CopyData: a piece of a COPY, in both directions. CopyDone is in [`super::empty`].

use bytes::BytesMut;

use super::buffer::{put_bytes, tagged};
use super::{EncodeError, tag};

/// A piece of a COPY. From the server it is one row; the pieces of a client may be split anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyData<'a> {
    /// The whole body.
    pub data: &'a [u8],
}

impl<'a> CopyData<'a> {
    /// Takes a body.
    #[inline]
    pub fn decode(body: &'a [u8]) -> Self {
        CopyData { data: body }
    }

    /// Appends the message.
    ///
    /// # Errors
    /// More than 1 GiB.
    #[inline]
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        tagged(out, tag::frontend::COPY_DATA, |out| put_bytes(out, self.data))
    }
}
