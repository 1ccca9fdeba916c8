//! Query: the simple protocol, where one string may hold many statements.

use bytes::BytesMut;

use super::buffer::{Reader, put_c_str, tagged};
use super::{EncodeError, Violation, tag};

/// Runs a text, and ends with ReadyForQuery without a Sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// The text.
    pub sql: &'a str,
}

impl<'a> Query<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Text that is not UTF-8 or does not end with the body.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("Query", body);
        let sql = reader.c_str()?;
        reader.end()?;
        Ok(Query { sql })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// A NUL in the text, or more than 1 GiB.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        tagged(out, tag::frontend::QUERY, |out| put_c_str(out, self.sql))
    }
}
