//! What a Describe or Close refers to.

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, check_small, put_c_str, tagged};
use super::{EncodeError, Violation};

/// A prepared statement or a portal, by name; an empty name is the unnamed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A prepared statement.
    Statement(&'a str),
    /// A portal.
    Portal(&'a str),
}

impl<'a> Target<'a> {
    pub(crate) fn decode(message: &'static str, body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new(message, body);
        let kind = reader.u8()?;
        let name = reader.c_str()?;
        reader.end()?;
        match kind {
            b'S' => Ok(Target::Statement(name)),
            b'P' => Ok(Target::Portal(name)),
            _ => Err(reader.fail("it names neither a statement nor a portal")),
        }
    }

    pub(crate) fn encode(self, tag: u8, out: &mut BytesMut) -> Result<(), EncodeError> {
        let (kind, name) = match self {
            Target::Statement(name) => (b'S', name),
            Target::Portal(name) => (b'P', name),
        };
        check_small(name.len() + 2)?;
        tagged(out, tag, |out| {
            out.put_u8(kind);
            put_c_str(out, name)
        })
    }
}
