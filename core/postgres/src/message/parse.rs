//! Parse: makes a prepared statement.

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, put_c_str, put_count, tagged};
use super::{EncodeError, Oids, Violation, tag};

/// Prepares one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// The name to prepare it under; empty for the unnamed statement.
    pub statement: &'a str,
    /// The text.
    pub sql: &'a str,
    /// The types that are given; 0 leaves one to the server.
    pub parameter_types: Oids<'a>,
}

impl<'a> Parse<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Fields that differ from the bytes that are there.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("Parse", body);
        let statement = reader.c_str()?;
        let sql = reader.c_str()?;
        let parameter_types = Oids::read(&mut reader)?;
        reader.end()?;
        Ok(Parse { statement, sql, parameter_types })
    }
}

/// Appends a Parse. Fewer types than parameters may be given; 0 leaves one to the server.
///
/// # Errors
/// A NUL, more than 65,535 types, or more than 1 GiB.
pub fn write(
    out: &mut BytesMut,
    statement: &str,
    sql: &str,
    parameter_types: &[u32],
) -> Result<(), EncodeError> {
    tagged(out, tag::frontend::PARSE, |out| {
        put_c_str(out, statement)?;
        put_c_str(out, sql)?;
        put_count(out, parameter_types.len())?;
        parameter_types.iter().for_each(|oid| out.put_u32(*oid));
        Ok(())
    })
}
