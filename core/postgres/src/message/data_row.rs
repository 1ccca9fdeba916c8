//! DataRow: the values of one row. Large results consist mostly of these.

use bytes::BytesMut;

use super::buffer::{Reader, put_count, put_value, tagged};
use super::{EncodeError, Values, Violation, tag};

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRow<'a> {
    /// The values in order, `None` for NULL; they borrow from the body.
    pub values: Values<'a>,
}

impl<'a> DataRow<'a> {
    /// Reads a body. All lengths are checked here, so the values need no errors.
    ///
    /// # Errors
    /// A count that differs from the values that are there, or a value that runs past the end.
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("DataRow", body);
        let values = Values::read(&mut reader)?;
        reader.end()?;
        Ok(DataRow { values })
    }
}

/// Appends a DataRow.
///
/// # Errors
/// More than 65,535 values, or more than 1 GiB.
pub fn write<'v>(
    out: &mut BytesMut,
    values: impl ExactSizeIterator<Item = Option<&'v [u8]>>,
) -> Result<(), EncodeError> {
    tagged(out, tag::backend::DATA_ROW, |out| {
        put_count(out, values.len())?;
        for value in values {
            put_value(out, value)?;
        }
        Ok(())
    })
}
