//! CommandComplete: a statement has ended.

use bytes::BytesMut;

use super::buffer::{Reader, put_c_str, tagged};
use super::{EncodeError, Violation, tag};

/// A statement has ended. Whether it was committed is only known at ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandComplete<'a> {
    /// The command, mostly with a number of rows: `SELECT 5`, `INSERT 0 1`, `COMMIT`.
    pub tag: &'a str,
}

impl<'a> CommandComplete<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Not exactly one string in UTF-8.
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("CommandComplete", body);
        let tag = reader.c_str()?;
        reader.end()?;
        Ok(CommandComplete { tag })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// A NUL in the tag.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        tagged(out, tag::backend::COMMAND_COMPLETE, |out| put_c_str(out, self.tag))
    }

    /// The number of rows that the tag ends with, for the commands that count rows.
    pub fn rows(&self) -> Option<u64> {
        self.tag.rsplit_once(' ')?.1.parse().ok()
    }
}
