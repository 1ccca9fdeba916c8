//! A list of values with lengths: the columns of a DataRow, the parameters of a Bind.

use std::fmt;

use super::Violation;
use super::buffer::Reader;

/// The values of a row or of a Bind in order, `None` for NULL. They borrow from the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Values<'a> {
    /// How many are still to come. `rest` holds exactly that many, as `read` has checked.
    left: u16,
    rest: &'a [u8],
}

impl<'a> Values<'a> {
    /// Reads a count and as many values. All lengths are checked here, so the iterator needs no
    /// errors.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Violation> {
        let left = reader.u16()?;
        let rest = reader.peek();
        for _ in 0..left {
            match reader.i32()? {
                -1 => {}
                len @ 0.. => _ = reader.bytes(len as usize)?,
                _ => return Err(reader.fail("a value has a negative length")),
            }
        }
        let used = rest.len() - reader.peek().len();
        Ok(Values { left, rest: &rest[..used] })
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        // `read` has checked every length. The slices are still checked, since that costs next to
        // nothing.
        self.left = self.left.checked_sub(1)?;
        let (len, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        let Ok(len) = usize::try_from(i32::from_be_bytes(*len)) else { return Some(None) };
        let (value, rest) = rest.split_at_checked(len)?;
        self.rest = rest;
        Some(Some(value))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.into(), Some(self.left.into()))
    }
}

impl ExactSizeIterator for Values<'_> {}

impl fmt::Debug for Values<'_> {
    /// Shows the number of values only, since they belong to the user.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values", self.left)
    }
}
