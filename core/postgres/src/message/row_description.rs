//! RowDescription: names and types of result columns.

use std::fmt;

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, put_c_str, put_count, tagged};
use super::{EncodeError, Format, Violation, tag};

const NAME: &str = "RowDescription";

/// The columns of the rows to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowDescription<'a> {
    /// The columns in order.
    pub fields: Fields<'a>,
}

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name, not necessarily unique.
    pub name: &'a str,
    /// The table that it comes from, or 0.
    pub table_oid: u32,
    /// The number of the column in its table, or 0.
    pub column_id: i16,
    /// The type.
    pub type_oid: u32,
    /// The size of the type in bytes; negative for types of variable size.
    pub type_size: i16,
    /// A number whose meaning depends on the type, or -1.
    pub type_modifier: i32,
    /// The format of the values. In the answer to a Describe of a statement it is always text,
    /// since the real format is not known yet.
    pub format: Format,
}

/// An iterator over columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fields<'a> {
    /// How many are still to come. `rest` holds exactly that many, as `decode` has checked.
    left: u16,
    rest: &'a [u8],
}

impl<'a> RowDescription<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// A count that differs from the columns that are there, or a column that is not well-formed.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new(NAME, body);
        let left = reader.u16()?;
        let rest = reader.peek();
        for _ in 0..left {
            Field::read(&mut reader)?;
        }
        reader.end()?;
        Ok(RowDescription { fields: Fields { left, rest } })
    }
}

/// Appends a RowDescription.
///
/// # Errors
/// A NUL in a name, or more than 65,535 columns.
pub fn write<'f>(
    out: &mut BytesMut,
    fields: impl ExactSizeIterator<Item = Field<'f>>,
) -> Result<(), EncodeError> {
    tagged(out, tag::backend::ROW_DESCRIPTION, |out| {
        put_count(out, fields.len())?;
        for field in fields {
            field.put(out)?;
        }
        Ok(())
    })
}

impl<'a> Field<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Violation> {
        Ok(Field {
            name: reader.c_str()?,
            table_oid: reader.u32()?,
            column_id: reader.i16()?,
            type_oid: reader.u32()?,
            type_size: reader.i16()?,
            type_modifier: reader.i32()?,
            format: Format::from_code(reader.i16()?)
                .ok_or_else(|| reader.fail("a format code is neither 0 nor 1"))?,
        })
    }

    fn put(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_c_str(out, self.name)?;
        out.put_u32(self.table_oid);
        out.put_i16(self.column_id);
        out.put_u32(self.type_oid);
        out.put_i16(self.type_size);
        out.put_i32(self.type_modifier);
        out.put_i16(self.format.code());
        Ok(())
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        self.left = self.left.checked_sub(1)?;
        let mut reader = Reader::new(NAME, self.rest);
        let field = Field::read(&mut reader).ok()?;
        self.rest = reader.rest();
        Some(field)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.into(), Some(self.left.into()))
    }
}

impl fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl ExactSizeIterator for Fields<'_> {}
