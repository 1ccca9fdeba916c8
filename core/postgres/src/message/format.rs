//! Format codes of parameters and columns.

use std::fmt;

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, put_count};
use super::{EncodeError, Violation};

/// How a value is represented on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Code 0: what the type's output function prints.
    #[default]
    Text,
    /// Code 1: what the type's send function makes.
    Binary,
}

impl Format {
    /// The number on the wire.
    #[inline]
    pub fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }

    /// The format with this number.
    #[inline]
    pub fn from_code(code: i16) -> Option<Format> {
        match code {
            0 => Some(Format::Text),
            1 => Some(Format::Binary),
            _ => None,
        }
    }
}

/// The formats of a list of values, for sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Formats<'a> {
    /// All are text: no code on the wire.
    #[default]
    AllText,
    /// All are binary: one code on the wire.
    AllBinary,
    /// One code each. For results, a single one stands for all; for parameters, their number is
    /// checked.
    Each(&'a [Format]),
}

impl Formats<'_> {
    #[inline]
    pub(crate) fn put(self, out: &mut BytesMut) -> Result<(), EncodeError> {
        match self {
            Formats::AllText => out.put_u16(0),
            Formats::AllBinary => out.put_slice(&[0, 1, 0, 1]),
            Formats::Each(formats) => {
                put_count(out, formats.len())?;
                formats.iter().for_each(|format| out.put_i16(format.code()));
            }
        }
        Ok(())
    }
}

/// The formats of a list of values, as received: an iterator over the codes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FormatCodes<'a> {
    /// Two bytes each, all of them 0 or 1.
    codes: &'a [u8],
}

impl<'a> FormatCodes<'a> {
    /// Reads a count and as many codes. All are checked here, so the iterator needs no errors.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Violation> {
        let count = reader.u16()?;
        let codes = reader.bytes(2 * usize::from(count))?;
        if codes.chunks_exact(2).any(|code| !matches!(code, [0, 0 | 1])) {
            return Err(reader.fail("a format code is neither 0 nor 1"));
        }
        Ok(FormatCodes { codes })
    }

    /// The format of the value at `index`, by the rule of Bind: no code means text, one code means
    /// all.
    pub fn of(&self, index: usize) -> Option<Format> {
        let mut codes = *self;
        match codes.len() {
            0 => Some(Format::Text),
            1 => codes.next(),
            _ => codes.nth(index),
        }
    }
}

impl Iterator for FormatCodes<'_> {
    type Item = Format;

    fn next(&mut self) -> Option<Format> {
        let ([_, code], rest) = self.codes.split_first_chunk()?;
        self.codes = rest;
        Some(if *code == 0 { Format::Text } else { Format::Binary })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.codes.len() / 2, Some(self.codes.len() / 2))
    }
}

impl fmt::Debug for FormatCodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl ExactSizeIterator for FormatCodes<'_> {}
