//! NegotiateProtocolVersion: the server offers an older version, or does not know some options.

use std::fmt;

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, put_c_str, tagged};
use super::{EncodeError, Violation, tag};

const NAME: &str = "NegotiateProtocolVersion";

/// The parts of the startup packet's request that the server does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiateProtocolVersion<'a> {
    /// The newest version that the server speaks, major and minor (SendNegotiateProtocolVersion in
    /// backend_startup.c sends both, although the specification speaks of the minor only).
    pub version: u32,
    /// Protocol options (`_pq_.…`) that the server does not know.
    pub unknown_options: Options<'a>,
}

/// Names of protocol options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Options<'a> {
    /// How many are still to come. `rest` holds exactly that many, as `decode` has checked.
    left: u32,
    rest: &'a [u8],
}

impl<'a> NegotiateProtocolVersion<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// A count that differs from the names that are there.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new(NAME, body);
        let version = reader.u32()?;
        let left = reader.u32()?;
        let rest = reader.peek();
        // Each name takes a byte of the body, so this ends at the end of the body at the latest.
        for _ in 0..left {
            reader.c_str()?;
        }
        reader.end()?;
        Ok(NegotiateProtocolVersion { version, unknown_options: Options { left, rest } })
    }
}

/// Appends a NegotiateProtocolVersion.
///
/// # Errors
/// A NUL in a name.
pub fn write(
    out: &mut BytesMut,
    version: u32,
    unknown_options: &[&str],
) -> Result<(), EncodeError> {
    tagged(out, tag::backend::NEGOTIATE_PROTOCOL_VERSION, |out| {
        let count = u32::try_from(unknown_options.len()).map_err(|_| EncodeError::TooMany)?;
        out.put_u32(version);
        out.put_u32(count);
        unknown_options.iter().try_for_each(|name| put_c_str(out, name))
    })
}

impl<'a> Iterator for Options<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.left = self.left.checked_sub(1)?;
        let mut reader = Reader::new(NAME, self.rest);
        let name = reader.c_str().ok()?;
        self.rest = reader.rest();
        Some(name)
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}
