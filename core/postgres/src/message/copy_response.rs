//! CopyInResponse, CopyOutResponse and CopyBothResponse: a COPY begins. They differ only in their
//! type.

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, tagged};
use super::{EncodeError, Format, FormatCodes, Formats, Violation, tag};

/// Who sends copy data from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// CopyInResponse: the client.
    In,
    /// CopyOutResponse: the server.
    Out,
    /// CopyBothResponse: both, in streaming replication only.
    Both,
}

impl CopyDirection {
    /// The type of the message.
    pub fn tag(self) -> u8 {
        match self {
            CopyDirection::In => tag::backend::COPY_IN_RESPONSE,
            CopyDirection::Out => tag::backend::COPY_OUT_RESPONSE,
            CopyDirection::Both => tag::backend::COPY_BOTH_RESPONSE,
        }
    }
}

/// The form of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyResponse<'a> {
    /// The format of the copy as a whole: rows with delimiters, or binary.
    pub format: Format,
    /// The format of each column.
    pub columns: FormatCodes<'a>,
}

impl<'a> CopyResponse<'a> {
    /// Reads a body. The type of the message tells the direction.
    ///
    /// # Errors
    /// An unknown format, or a count that differs from the formats that are there.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("CopyResponse", body);
        let format = Format::from_code(reader.u8()?.into())
            .ok_or_else(|| reader.fail("its format is neither 0 nor 1"))?;
        let columns = FormatCodes::read(&mut reader)?;
        reader.end()?;
        Ok(CopyResponse { format, columns })
    }
}

/// Appends one of the three messages, with one format per column.
///
/// # Errors
/// More than 65,535 columns.
pub fn write(
    out: &mut BytesMut,
    direction: CopyDirection,
    format: Format,
    columns: &[Format],
) -> Result<(), EncodeError> {
    tagged(out, direction.tag(), |out| {
        out.put_u8(format.code() as u8);
        Formats::Each(columns).put(out)
    })
}
