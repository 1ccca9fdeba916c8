//! The tools of every codec: [`Reader`] reads a body, [`tagged`] and [`untagged`] write a message.

use std::ffi::CStr;

use bytes::{BufMut, BytesMut};

use super::{EncodeError, LARGE_LEN_MAX, SMALL_LEN_MAX, Violation};

/// A cursor over the body of one message. Each step checks that the bytes are there; nothing is
/// allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    message: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(message: &'static str, body: &'a [u8]) -> Self {
        Reader { message, rest: body }
    }

    #[inline]
    pub(crate) fn fail(&self, reason: &'static str) -> Violation {
        Violation::Malformed { message: self.message, reason }
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Violation> {
        match self.rest.split_first_chunk() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(*head)
            }
            None => Err(self.fail("it ends in the middle of a field")),
        }
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Violation> {
        self.array().map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, Violation> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i16(&mut self) -> Result<i16, Violation> {
        self.array().map(i16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Violation> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i32(&mut self) -> Result<i32, Violation> {
        self.array().map(i32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Violation> {
        match self.rest.split_at_checked(len) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.fail("a value runs past the end of the message")),
        }
    }

    /// The bytes up to the next NUL, which is consumed and left out.
    pub(crate) fn c_bytes(&mut self) -> Result<&'a [u8], Violation> {
        // CStr searches by words, `position` by bytes.
        let text = CStr::from_bytes_until_nul(self.rest)
            .map_err(|_| self.fail("a string has no end"))?
            .to_bytes();
        self.rest = &self.rest[text.len() + 1..];
        Ok(text)
    }

    /// The next C string. With client_encoding = UTF8 the server checks everything that it sends,
    /// even from an SQL_ASCII database (pg_server_to_any in src/backend/utils/mb/mbutils.c). Only
    /// error texts early in startup may be in another encoding.
    pub(crate) fn c_str(&mut self) -> Result<&'a str, Violation> {
        let text = self.c_bytes()?;
        std::str::from_utf8(text).map_err(|_| self.fail("a string is not UTF-8"))
    }

    /// All remaining bytes.
    #[inline]
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The remaining bytes, without consuming them.
    #[inline]
    pub(crate) fn peek(&self) -> &'a [u8] {
        self.rest
    }

    /// Checks that the body is used up, like the server does (pq_getmsgend in
    /// src/backend/libpq/pqformat.c).
    #[inline]
    pub(crate) fn end(&self) -> Result<(), Violation> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.fail("bytes follow its last field")) }
    }
}

/// Appends one message: its type, its length, and the output of `write`. On an error nothing stays
/// in `out`.
#[inline]
pub(crate) fn tagged<E: From<EncodeError>>(
    out: &mut BytesMut,
    tag: u8,
    write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.put_slice(&[tag, 0, 0, 0, 0]);
    let result = write(out).and_then(|()| patch_len(out, start + 1).map_err(E::from));
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// [`tagged`] without the type: the form of the first packet of a connection.
#[inline]
pub(crate) fn untagged<E: From<EncodeError>>(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.put_u32(0);
    let result = write(out).and_then(|()| patch_len(out, start).map_err(E::from));
    if result.is_err() {
        out.truncate(start);
    }
    result
}

#[inline]
fn patch_len(out: &mut BytesMut, start: usize) -> Result<(), EncodeError> {
    let len = out.len() - start;
    if len > LARGE_LEN_MAX as usize {
        return Err(EncodeError::TooLong);
    }
    out[start..start + 4].copy_from_slice(&(len as u32).to_be_bytes());
    Ok(())
}

/// Appends a C string.
#[inline]
pub(crate) fn put_c_str(out: &mut BytesMut, text: &str) -> Result<(), EncodeError> {
    put_c_bytes(out, text.as_bytes())
}

/// Appends a C string of bytes in no particular encoding.
#[inline]
pub(crate) fn put_c_bytes(out: &mut BytesMut, text: &[u8]) -> Result<(), EncodeError> {
    if text.contains(&0) {
        return Err(EncodeError::Nul);
    }
    put_bytes(out, text)?;
    out.put_u8(0);
    Ok(())
}

/// Checks the length of a message for which the server accepts few bytes only. Beyond them it would
/// close the connection.
#[inline]
pub(crate) fn check_small(body_len: usize) -> Result<(), EncodeError> {
    if body_len + 4 > SMALL_LEN_MAX as usize { Err(EncodeError::TooLong) } else { Ok(()) }
}

/// Appends bytes as they are. A slice that can't fit is refused before it is copied.
#[inline]
pub(crate) fn put_bytes(out: &mut BytesMut, bytes: &[u8]) -> Result<(), EncodeError> {
    if bytes.len() > LARGE_LEN_MAX as usize {
        return Err(EncodeError::TooLong);
    }
    out.put_slice(bytes);
    Ok(())
}

/// Appends a count of 16 bits. The server reads it unsigned (pq_getmsgint(…, 2) in
/// exec_bind_message).
#[inline]
pub(crate) fn put_count(out: &mut BytesMut, count: usize) -> Result<(), EncodeError> {
    let count = u16::try_from(count).map_err(|_| EncodeError::TooMany)?;
    out.put_u16(count);
    Ok(())
}

/// Appends a value with its length, or -1 for NULL.
#[inline]
pub(crate) fn put_value(out: &mut BytesMut, value: Option<&[u8]>) -> Result<(), EncodeError> {
    let Some(value) = value else {
        out.put_i32(-1);
        return Ok(());
    };
    if value.len() > LARGE_LEN_MAX as usize {
        return Err(EncodeError::TooLong);
    }
    out.put_u32(value.len() as u32);
    out.put_slice(value);
    Ok(())
}
