//! ErrorResponse and NoticeResponse: fields with a letter each. [`super::ServerError`] is the owned
//! form.

use std::fmt;

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, put_c_bytes, tagged};
use super::{EncodeError, Violation, tag};

/// The letters of the fields: PG_DIAG_* in src/include/postgres_ext.h.
pub mod field {
    /// Severity, possibly translated.
    pub const SEVERITY: u8 = b'S';
    /// Severity, never translated (since 9.6).
    pub const SEVERITY_NONLOCALIZED: u8 = b'V';
    /// SQLSTATE.
    pub const CODE: u8 = b'C';
    /// The message.
    pub const MESSAGE: u8 = b'M';
    /// More about the problem.
    pub const DETAIL: u8 = b'D';
    /// What to do about it.
    pub const HINT: u8 = b'H';
    /// Where in the text of the query, in characters from 1.
    pub const POSITION: u8 = b'P';
    /// Where in the text of the internal query.
    pub const INTERNAL_POSITION: u8 = b'p';
    /// A query that the server made itself.
    pub const INTERNAL_QUERY: u8 = b'q';
    /// The context: a call stack, one line each.
    pub const WHERE: u8 = b'W';
    /// Schema of the object.
    pub const SCHEMA: u8 = b's';
    /// Table.
    pub const TABLE: u8 = b't';
    /// Column.
    pub const COLUMN: u8 = b'c';
    /// Data type.
    pub const DATA_TYPE: u8 = b'd';
    /// Constraint.
    pub const CONSTRAINT: u8 = b'n';
    /// File of the server's source.
    pub const FILE: u8 = b'F';
    /// Line of that file.
    pub const LINE: u8 = b'L';
    /// Function of the server's source.
    pub const ROUTINE: u8 = b'R';
}

/// An error. The server skips the rest of the segment, up to the next Sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorResponse<'a> {
    /// The fields in the order in which they were sent.
    pub fields: ErrorFields<'a>,
}

/// A notice or warning. It ends nothing and can come at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticeResponse<'a> {
    /// The fields in the order in which they were sent.
    pub fields: ErrorFields<'a>,
}

impl<'a> ErrorResponse<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Fields that don't end, or bytes behind their end.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        ErrorFields::read(Reader::new("ErrorResponse", body)).map(|fields| ErrorResponse { fields })
    }
}

impl<'a> NoticeResponse<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Fields that don't end, or bytes behind their end.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        ErrorFields::read(Reader::new("NoticeResponse", body))
            .map(|fields| NoticeResponse { fields })
    }
}

/// An iterator over letters and values, also of letters that this crate does not know.
///
/// Values are bytes: until the session knows its client_encoding, a server may send texts in an
/// encoding of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ErrorFields<'a> {
    /// Whole fields: `read` has walked them.
    rest: &'a [u8],
}

impl<'a> ErrorFields<'a> {
    fn read(mut reader: Reader<'a>) -> Result<Self, Violation> {
        let all = reader.peek();
        loop {
            let left = reader.peek().len();
            if reader.u8()? == 0 {
                reader.end()?;
                return Ok(ErrorFields { rest: &all[..all.len() - left] });
            }
            reader.c_bytes()?;
        }
    }

    /// The value of the first field with this letter (see [`field`]).
    pub fn value(&self, letter: u8) -> Option<&'a [u8]> {
        let mut fields = *self;
        fields.find_map(|(each, value)| (each == letter).then_some(value))
    }
}

impl<'a> Iterator for ErrorFields<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = Reader::new("ErrorResponse", self.rest);
        let field = (reader.u8().ok()?, reader.c_bytes().ok()?);
        self.rest = reader.rest();
        Some(field)
    }
}

impl fmt::Debug for ErrorFields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(
                self.map(|(letter, value)| (char::from(letter), String::from_utf8_lossy(value))),
            )
            .finish()
    }
}

/// Appends an ErrorResponse. [`super::ServerError::encode_error`] makes one from the owned form.
///
/// # Errors
/// A letter 0, a NUL in a value, or more than 1 GiB.
pub fn write<'f>(
    out: &mut BytesMut,
    fields: impl IntoIterator<Item = (u8, &'f [u8])>,
) -> Result<(), EncodeError> {
    write_as(out, tag::backend::ERROR_RESPONSE, fields)
}

/// Appends a NoticeResponse.
///
/// # Errors
/// As [`write()`].
pub fn write_notice<'f>(
    out: &mut BytesMut,
    fields: impl IntoIterator<Item = (u8, &'f [u8])>,
) -> Result<(), EncodeError> {
    write_as(out, tag::backend::NOTICE_RESPONSE, fields)
}

fn write_as<'f>(
    out: &mut BytesMut,
    tag: u8,
    fields: impl IntoIterator<Item = (u8, &'f [u8])>,
) -> Result<(), EncodeError> {
    tagged(out, tag, |out| {
        for (letter, value) in fields {
            if letter == 0 {
                return Err(EncodeError::EmptyName);
            }
            out.put_u8(letter);
            put_c_bytes(out, value)?;
        }
        out.put_u8(0);
        Ok(())
    })
}
