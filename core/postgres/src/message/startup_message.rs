//! StartupMessage, with protocol version and parameters, and the choice among the untyped first
//! packets.

use std::fmt;

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, put_c_str, untagged};
use super::{CancelRequest, EncodeError, STARTUP_LEN_MAX, Violation, cancel_request, ssl_request};

const NAME: &str = "StartupMessage";

/// The first packet of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartupMessage<'a> {
    /// Major version in the upper, minor version in the lower 16 bits.
    pub version: u32,
    /// The parameters in the order in which they were sent.
    pub parameters: Parameters<'a>,
}

/// Names and values of a startup packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Parameters<'a> {
    /// Whole pairs of C strings in UTF-8, as `decode` has checked.
    rest: &'a [u8],
}

impl<'a> Iterator for Parameters<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = Reader::new(NAME, self.rest);
        let pair = (reader.c_str().ok()?, reader.c_str().ok()?);
        self.rest = reader.rest();
        Some(pair)
    }
}

impl fmt::Debug for Parameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

/// The kinds of a first packet of a connection. It has no type; its version tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialMessage<'a> {
    /// A session is requested.
    Startup(StartupMessage<'a>),
    /// TLS is requested; a startup packet follows.
    SslRequest,
    /// GSSAPI encryption is requested; a startup packet follows.
    GssEncRequest,
    /// A statement of another connection shall be cancelled.
    Cancel(CancelRequest<'a>),
}

impl<'a> InitialMessage<'a> {
    /// Reads what [`super::frame_initial`] cut out.
    ///
    /// # Errors
    /// The body is none of the four.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new(NAME, body);
        let version = reader.u32()?;
        match version {
            ssl_request::CODE | ssl_request::GSSENC_CODE => {
                reader.end()?;
                let ssl = version == ssl_request::CODE;
                Ok(if ssl { InitialMessage::SslRequest } else { InitialMessage::GssEncRequest })
            }
            cancel_request::CODE => {
                CancelRequest::decode(reader.rest()).map(InitialMessage::Cancel)
            }
            _ => read_parameters(reader)
                .map(|parameters| InitialMessage::Startup(StartupMessage { version, parameters })),
        }
    }
}

/// Checks the parameters once, so that their iterator needs no errors.
fn read_parameters(mut reader: Reader<'_>) -> Result<Parameters<'_>, Violation> {
    let all = reader.peek();
    loop {
        let left = reader.peek().len();
        if reader.c_str()?.is_empty() {
            reader.end()?;
            return Ok(Parameters { rest: &all[..all.len() - left] });
        }
        reader.c_str()?;
    }
}

/// Appends a StartupMessage.
///
/// # Errors
/// A NUL, an empty name, or more than 10,000 bytes in all.
pub fn write<'p>(
    out: &mut BytesMut,
    version: u32,
    parameters: impl IntoIterator<Item = (&'p str, &'p str)>,
) -> Result<(), EncodeError> {
    untagged(out, |out| {
        let start = out.len() - 4;
        out.put_u32(version);
        for (name, value) in parameters {
            if name.is_empty() {
                return Err(EncodeError::EmptyName);
            }
            put_c_str(out, name)?;
            put_c_str(out, value)?;
        }
        out.put_u8(0);
        if out.len() - start > STARTUP_LEN_MAX as usize {
            return Err(EncodeError::TooLong);
        }
        Ok(())
    })
}
