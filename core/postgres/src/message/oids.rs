//! A counted list of type oids, in Parse and ParameterDescription.

use std::fmt;

use super::Violation;
use super::buffer::Reader;

/// Type oids in the order of the parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Oids<'a> {
    /// Four bytes each.
    rest: &'a [u8],
}

impl<'a> Oids<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Violation> {
        let count = reader.u16()?;
        Ok(Oids { rest: reader.bytes(4 * usize::from(count))? })
    }
}

impl Iterator for Oids<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (oid, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_be_bytes(*oid))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest.len() / 4, Some(self.rest.len() / 4))
    }
}

impl fmt::Debug for Oids<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl ExactSizeIterator for Oids<'_> {}
