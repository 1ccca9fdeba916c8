//! ParameterDescription: the types of a statement's parameters.

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, put_count, tagged};
use super::{EncodeError, Oids, Violation, tag};

/// Answers Describe of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterDescription<'a> {
    /// The type of each parameter.
    pub types: Oids<'a>,
}

impl<'a> ParameterDescription<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// A count that differs from the types that are there.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("ParameterDescription", body);
        let types = Oids::read(&mut reader)?;
        reader.end()?;
        Ok(ParameterDescription { types })
    }
}

/// Appends a ParameterDescription.
///
/// # Errors
/// More than 65,535 types.
pub fn write(out: &mut BytesMut, types: &[u32]) -> Result<(), EncodeError> {
    tagged(out, tag::backend::PARAMETER_DESCRIPTION, |out| {
        put_count(out, types.len())?;
        types.iter().for_each(|oid| out.put_u32(*oid));
        Ok(())
    })
}
