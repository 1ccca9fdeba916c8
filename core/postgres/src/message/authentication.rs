//! The Authentication family: one type of message, told apart by a code.

use std::fmt;

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, put_bytes, put_c_str, tagged};
use super::{EncodeError, Violation, tag};

const NAME: &str = "Authentication";

/// A demand of the server, or its consent. The codes are AUTH_REQ_* in
/// src/include/libpq/protocol.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authentication<'a> {
    /// Code 0: the client is authenticated.
    Ok,
    /// Code 3: the password in clear text.
    CleartextPassword,
    /// Code 5: the password hashed with a salt.
    Md5Password {
        /// The salt.
        salt: [u8; 4],
    },
    /// Code 10: a SASL exchange may begin.
    Sasl(Mechanisms<'a>),
    /// Code 11: data of the mechanism.
    SaslContinue(&'a [u8]),
    /// Code 12: the last data of the mechanism.
    SaslFinal(&'a [u8]),
    /// A code that this crate does not support (Kerberos, GSSAPI, SSPI and later ones).
    Unsupported {
        /// The code.
        code: u32,
    },
}

/// The names of SASL mechanisms, in the server's order of preference.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mechanisms<'a> {
    /// Whole, non-empty C strings in UTF-8, as `read` has checked.
    rest: &'a [u8],
}

impl<'a> Mechanisms<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Violation> {
        let all = reader.peek();
        loop {
            let left = reader.peek().len();
            if reader.c_str()?.is_empty() {
                return Ok(Mechanisms { rest: &all[..all.len() - left] });
            }
        }
    }
}

impl<'a> Iterator for Mechanisms<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let mut reader = Reader::new(NAME, self.rest);
        let name = reader.c_str().ok()?;
        self.rest = reader.rest();
        Some(name)
    }
}

impl fmt::Debug for Mechanisms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl<'a> Authentication<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// The fields don't match the length of the body.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new(NAME, body);
        let message = match reader.u32()? {
            0 => Authentication::Ok,
            3 => Authentication::CleartextPassword,
            5 => Authentication::Md5Password { salt: reader.array()? },
            10 => Authentication::Sasl(Mechanisms::read(&mut reader)?),
            11 => Authentication::SaslContinue(reader.rest()),
            12 => Authentication::SaslFinal(reader.rest()),
            code => {
                reader.rest();
                Authentication::Unsupported { code }
            }
        };
        reader.end()?;
        Ok(message)
    }

    /// Appends the message. [`write_sasl`] makes an offer of mechanisms from names.
    ///
    /// # Errors
    /// More than 1 GiB.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        tagged(out, tag::backend::AUTHENTICATION, |out| match *self {
            Authentication::Ok => put(out, 0, &[]),
            Authentication::CleartextPassword => put(out, 3, &[]),
            Authentication::Md5Password { salt } => put(out, 5, &salt),
            Authentication::Sasl(mechanisms) => {
                put(out, 10, mechanisms.rest)?;
                put_bytes(out, &[0])
            }
            Authentication::SaslContinue(data) => put(out, 11, data),
            Authentication::SaslFinal(data) => put(out, 12, data),
            Authentication::Unsupported { code } => put(out, code, &[]),
        })
    }
}

fn put(out: &mut BytesMut, code: u32, data: &[u8]) -> Result<(), EncodeError> {
    out.put_u32(code);
    put_bytes(out, data)
}

/// Appends AuthenticationSASL with these mechanisms.
///
/// # Errors
/// An empty name or a NUL in one.
pub fn write_sasl(out: &mut BytesMut, mechanisms: &[&str]) -> Result<(), EncodeError> {
    tagged(out, tag::backend::AUTHENTICATION, |out| {
        out.put_u32(10);
        for name in mechanisms {
            if name.is_empty() {
                return Err(EncodeError::EmptyName);
            }
            put_c_str(out, name)?;
        }
        out.put_u8(0);
        Ok(())
    })
}
