//! Execute: runs a portal.

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, check_small, put_c_str, tagged};
use super::{EncodeError, Violation, tag};

/// Execute of the unnamed portal without a row limit, as nearly every request has it.
pub const UNNAMED_ALL: [u8; 10] = [tag::frontend::EXECUTE, 0, 0, 0, 9, 0, 0, 0, 0, 0];

/// Runs a portal to its end or for a number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    /// The portal; empty for the unnamed one.
    pub portal: &'a str,
    /// The most rows to return; 0 for all. The server takes negative numbers as all, too.
    pub rows_max: i32,
}

impl<'a> Execute<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Fields that differ from the bytes that are there.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("Execute", body);
        let execute = Execute { portal: reader.c_str()?, rows_max: reader.i32()? };
        reader.end()?;
        Ok(execute)
    }

    /// Appends the message.
    ///
    /// # Errors
    /// A NUL in the name, or a name of about 10,000 bytes: the server would close the connection.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        check_small(self.portal.len() + 5)?;
        tagged(out, tag::frontend::EXECUTE, |out| {
            put_c_str(out, self.portal)?;
            out.put_i32(self.rows_max);
            Ok(())
        })
    }
}

/// Bytes that make the server fail at this point: the Execute of a portal that does not exist.
pub fn failing() -> BytesMut {
    let mut out = BytesMut::new();
    let execute = Execute { portal: "onetrip: a pipeline was given up", rows_max: 0 };
    // Encoding can't fail: the name holds no NUL and is short.
    let _ = execute.encode(&mut out);
    out
}
