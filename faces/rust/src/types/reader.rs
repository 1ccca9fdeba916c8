//! Reads the binary form of a value. A length from the server is accepted only if there are as many
//! bytes.

use super::ValueError;

/// The rest of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

const TOO_SHORT: ValueError = ValueError::new("it ends too early");
const TOO_LONG: ValueError = ValueError::new("bytes stand behind its end");

impl<'a> Reader<'a> {
    pub(super) fn new(raw: &'a [u8]) -> Reader<'a> {
        Reader(raw)
    }

    pub(super) fn u8(&mut self) -> Result<u8, ValueError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, ValueError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Result<i16, ValueError> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, ValueError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, ValueError> {
        self.array().map(i64::from_be_bytes)
    }

    /// A value, with its length in front; `None` is NULL.
    pub(super) fn value(&mut self) -> Result<Option<&'a [u8]>, ValueError> {
        let Ok(len) = usize::try_from(self.i32()?) else { return Ok(None) };
        let (value, rest) = self.0.split_at_checked(len).ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(Some(value))
    }

    /// A number of elements, each of which takes at least `len_min` bytes. So the number is never
    /// much larger than the value.
    pub(super) fn count(&mut self, len_min: usize) -> Result<usize, ValueError> {
        let count = self.i32()?;
        self.room_for(i64::from(count), len_min)
    }

    /// The same for a number that was read already.
    pub(super) fn room_for(&self, count: i64, len_min: usize) -> Result<usize, ValueError> {
        let count =
            usize::try_from(count).map_err(|_| ValueError::new("it holds a negative number"))?;
        if count > self.0.len() / len_min { Err(TOO_SHORT) } else { Ok(count) }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Fails if bytes are left.
    pub(super) fn end(self) -> Result<(), ValueError> {
        if self.0.is_empty() { Ok(()) } else { Err(TOO_LONG) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ValueError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(*array)
    }
}
