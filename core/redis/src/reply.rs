//! A view of one whole reply, without a copy of its content.

mod error;
mod items;
mod kind;

use std::borrow::Cow;

use crate::head::{FORMAT_LEN, Head, UNKNOWN, integer};
use crate::raw::{NOT_WHOLE, Raw, chunk, skip_items, skip_stream, verified_string};

pub use crate::raw::Malformed;
pub use error::ErrorReply;
pub use items::{Attributes, Items, Pairs};
pub use kind::Kind;

/// One whole reply, or an item of one, in bytes that stay where they are.
///
/// Items are read when they are asked for. A reply that is read repeatedly should be made into a
/// [`Value`](crate::Value).
///
/// ```
/// use onetrip_redis::Reply;
///
/// let (reply, rest) = Reply::read(b"*2\r\n:1\r\n$3\r\nfoo\r\n+next\r\n")?;
/// let Reply::Array(mut items) = reply else { panic!("{}", reply.kind()) };
/// assert!(matches!(items.next(), Some(Reply::Int(1))));
/// assert!(matches!(items.next(), Some(Reply::Bulk(text)) if *text == *b"foo"));
/// assert_eq!(rest, b"+next\r\n");
/// # Ok::<(), onetrip_redis::Malformed>(())
/// ```
#[derive(Clone, Debug)]
pub enum Reply<'a> {
    /// No value. On RESP3 it is `_`; on RESP2 a string or an array of length -1.
    Nil,
    /// A short text, like `OK`.
    Simple(&'a [u8]),
    /// An error, in either form: a line or a string.
    Error(ErrorReply<'a>),
    /// An integer of 64 bits.
    Int(i64),
    /// A string of any bytes. It is owned only if it came in chunks, which servers don't send.
    Bulk(Cow<'a, [u8]>),
    /// A number with a fraction, an infinity or NaN.
    Double(f64),
    /// True or false.
    Bool(bool),
    /// The digits of an integer of any length, with its sign if it has one.
    BigNumber(&'a [u8]),
    /// A text with its format.
    Verbatim {
        /// `txt`, `mkd` or the like.
        format: &'a [u8],
        /// The text itself.
        text: &'a [u8],
    },
    /// Items in order.
    Array(Items<'a>),
    /// Items without order, which should be distinct.
    Set(Items<'a>),
    /// A message that no command asked for.
    Push(Items<'a>),
    /// Keys with their values.
    Map(Pairs<'a>),
}

impl<'a> Reply<'a> {
    /// Reads the reply at the front of these bytes, without its attributes. Returns it with the
    /// bytes after it. The whole reply is checked, so that its items can be read later without
    /// errors.
    ///
    /// # Errors
    /// The bytes do not begin with a whole reply. A reply that [`Scanner`](crate::scan::Scanner)
    /// found to be whole is one.
    pub fn read(bytes: &'a [u8]) -> Result<(Reply<'a>, &'a [u8]), Malformed> {
        Reply::read_with_attributes(bytes).map(|(_, reply, rest)| (reply, rest))
    }

    /// Like [`read`](Reply::read), with the attributes in front of the reply.
    ///
    /// # Errors
    /// The bytes do not begin with a whole reply.
    pub fn read_with_attributes(
        bytes: &'a [u8],
    ) -> Result<(Attributes<'a>, Reply<'a>, &'a [u8]), Malformed> {
        let value = behind_attributes(bytes)?;
        let attributes = Attributes::new(&bytes[..bytes.len() - value.len()]);
        let (reply, rest) = Reply::read_value(value)?;
        Ok((attributes, reply, rest))
    }

    fn read_value(bytes: &'a [u8]) -> Result<(Reply<'a>, &'a [u8]), Malformed> {
        let raw = Raw::read(bytes)?;
        match raw.head {
            Head::Nil => Ok((Reply::Nil, raw.behind)),
            Head::Line => Ok((line(raw.kind, raw.line)?, raw.behind)),
            Head::Chunks => joined(raw.behind),
            Head::String(len) => {
                let (text, rest) = verified_string(raw.kind, raw.behind, len)?;
                Ok((string(raw.kind, text)?, rest))
            }
            Head::Items(len) => {
                let rest = skip_items(raw.behind, len)?;
                let items = &raw.behind[..raw.behind.len() - rest.len()];
                Ok((aggregate(raw.kind, Items::new(items, Some(len))), rest))
            }
            Head::Stream { pairs } => {
                let (items, rest) = skip_stream(raw.behind, pairs)?;
                Ok((aggregate(raw.kind, Items::new(items, None)), rest))
            }
        }
    }

    /// The type of the reply, in words.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::of(self)
    }
}

/// The bytes after any attributes.
pub(crate) fn behind_attributes(mut bytes: &[u8]) -> Result<&[u8], Malformed> {
    while bytes.first() == Some(&b'|') {
        let Raw { head: Head::Items(items), behind, .. } = Raw::read(bytes)? else {
            return Err(UNKNOWN.into());
        };
        bytes = skip_items(behind, items)?;
    }
    Ok(bytes)
}

fn line(kind: u8, line: &[u8]) -> Result<Reply<'_>, Malformed> {
    Ok(match kind {
        b'+' => Reply::Simple(line),
        b'-' => Reply::Error(ErrorReply::new(line)),
        b':' => Reply::Int(integer(line).ok_or(NOT_WHOLE)?),
        #[cfg(any(test, feature = "doubles"))]
        b',' => Reply::Double(crate::head::double(line).ok_or(NOT_WHOLE)?),
        b'#' => Reply::Bool(line == b"t"),
        b'(' => Reply::BigNumber(line),
        _ => return Err(UNKNOWN.into()),
    })
}

fn string(kind: u8, text: &[u8]) -> Result<Reply<'_>, Malformed> {
    Ok(match kind {
        b'!' => Reply::Error(ErrorReply::new(text)),
        b'=' => {
            let (format, text) = text.split_at_checked(FORMAT_LEN).ok_or(NOT_WHOLE)?;
            Reply::Verbatim { format: &format[..FORMAT_LEN - 1], text }
        }
        _ => Reply::Bulk(Cow::Borrowed(text)),
    })
}

fn aggregate(kind: u8, items: Items<'_>) -> Reply<'_> {
    match kind {
        b'~' => Reply::Set(items),
        b'>' => Reply::Push(items),
        b'%' => Reply::Map(Pairs::new(items)),
        _ => Reply::Array(items),
    }
}

/// A string that came in chunks.
fn joined(mut bytes: &[u8]) -> Result<(Reply<'_>, &[u8]), Malformed> {
    let mut text = Vec::new();
    loop {
        let (part, rest) = chunk(bytes)?;
        if part.is_empty() {
            return Ok((Reply::Bulk(Cow::Owned(text)), rest));
        }
        text.extend_from_slice(part);
        bytes = rest;
    }
}
