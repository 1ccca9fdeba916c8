//! A reply as an owned tree.

mod write;

use std::fmt;

use bytes::Bytes;

use crate::head::Head;
use crate::raw::{Raw, STREAM_END};
use crate::reply::{ErrorReply, Items, Malformed, Reply, behind_attributes};

/// One reply with all its content, except for attributes.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Nil,
    /// A short text, like `OK`.
    Simple(Bytes),
    /// An error.
    Error(ErrorValue),
    /// An integer of 64 bits.
    Int(i64),
    /// A string of any bytes.
    Bulk(Bytes),
    /// A number with a fraction, an infinity or NaN.
    Double(f64),
    /// True or false.
    Bool(bool),
    /// The digits of an integer of any length, with its sign if it has one.
    BigNumber(Bytes),
    /// A text with its format.
    Verbatim {
        /// `txt`, `mkd` or the like.
        format: [u8; 3],
        /// The text itself.
        text: Bytes,
    },
    /// Items in order.
    Array(Vec<Value>),
    /// Items without order, which should be distinct.
    Set(Vec<Value>),
    /// A message that no command asked for.
    Push(Vec<Value>),
    /// Keys with their values, in the order in which they came.
    Map(Vec<(Value, Value)>),
}

/// An error of the server, owned.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrorValue {
    text: Bytes,
}

impl ErrorValue {
    /// An error from its code, a space and its message.
    #[must_use]
    pub fn new(text: impl Into<Bytes>) -> ErrorValue {
        ErrorValue { text: text.into() }
    }

    /// A view of it, which splits it into code and message.
    #[must_use]
    pub fn reply(&self) -> ErrorReply<'_> {
        ErrorReply::new(&self.text)
    }
}

impl From<ErrorReply<'_>> for ErrorValue {
    fn from(error: ErrorReply<'_>) -> ErrorValue {
        ErrorValue::new(error.text().to_vec())
    }
}

/// Shows the code only: the message may hold secrets.
impl fmt::Debug for ErrorValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrorValue({})", self.reply().code().escape_ascii())
    }
}

/// How deep a value may be nested, since building and dropping it take stack for each level. Four
/// times the default limit of a scanner.
pub const DEPTH_MAX: usize = 512;

/// Strings of at least this many bytes are slices of their block. Shorter ones are copied, so that
/// they don't keep the block in memory.
pub const SLICE_MIN: usize = 512;

impl Value {
    /// Reads the reply at the front of a block. Returns it with the number of its bytes.
    ///
    /// # Errors
    /// The block does not begin with a whole reply, or it is nested deeper than [`DEPTH_MAX`].
    pub fn read(block: &Bytes) -> Result<(Value, usize), Malformed> {
        let (reply, rest) = Reply::read(block)?;
        Ok((Value::new(reply, block)?, block.len() - rest.len()))
    }

    /// Makes a value from a reply. If the reply lies in `block`, long strings are slices of that.
    ///
    /// # Errors
    /// The reply is nested deeper than [`DEPTH_MAX`].
    pub fn new(reply: Reply<'_>, block: &Bytes) -> Result<Value, Malformed> {
        value(reply, block, DEPTH_MAX)
    }
}

fn value(reply: Reply<'_>, block: &Bytes, depth: usize) -> Result<Value, Malformed> {
    Ok(match reply {
        Reply::Nil => Value::Nil,
        Reply::Simple(text) => Value::Simple(slice(block, text)),
        Reply::Error(error) => Value::Error(ErrorValue::new(slice(block, error.text()))),
        Reply::Int(number) => Value::Int(number),
        Reply::Bulk(text) => Value::Bulk(slice(block, &text)),
        Reply::Double(number) => Value::Double(number),
        Reply::Bool(truth) => Value::Bool(truth),
        Reply::BigNumber(digits) => Value::BigNumber(slice(block, digits)),
        Reply::Verbatim { format, text } => {
            let format = format.try_into().map_err(|_| Malformed("a format has three bytes"))?;
            Value::Verbatim { format, text: slice(block, text) }
        }
        Reply::Array(items) => all(b'*', &items, block, depth)?,
        Reply::Set(items) => all(b'~', &items, block, depth)?,
        Reply::Push(items) => all(b'>', &items, block, depth)?,
        Reply::Map(pairs) => all(b'%', &pairs.items(), block, depth)?,
    })
}

fn all(kind: u8, items: &Items<'_>, block: &Bytes, depth: usize) -> Result<Value, Malformed> {
    list(items.bytes(), Until::Empty, block, depth).map(|(items, _)| aggregate(kind, items))
}

/// Where a list ends.
#[derive(Clone, Copy)]
enum Until {
    Count(u64),
    StreamEnd,
    Empty,
}

/// Makes the values of a list, and returns the bytes after them. Nested values are made on the way
/// rather than skipped first, so each byte is read once, however deep it lies.
fn list<'a>(
    mut bytes: &'a [u8],
    until: Until,
    block: &Bytes,
    depth: usize,
) -> Result<(Vec<Value>, &'a [u8]), Malformed> {
    let inside = depth.checked_sub(1).ok_or(Malformed("a reply is nested too deep"))?;
    let mut list = Vec::new();
    loop {
        match until {
            Until::Count(count) if list.len() as u64 == count => return Ok((list, bytes)),
            Until::Empty if bytes.is_empty() => return Ok((list, bytes)),
            Until::StreamEnd if bytes.starts_with(STREAM_END) => {
                return Ok((list, &bytes[STREAM_END.len()..]));
            }
            _ => {}
        }
        let (item, rest) = item(bytes, block, inside)?;
        list.push(item);
        bytes = rest;
    }
}

fn item<'a>(bytes: &'a [u8], block: &Bytes, depth: usize) -> Result<(Value, &'a [u8]), Malformed> {
    let bytes = behind_attributes(bytes)?;
    let raw = Raw::read(bytes)?;
    let until = match raw.head {
        Head::Items(count) => Until::Count(count),
        Head::Stream { .. } => Until::StreamEnd,
        _ => {
            let (reply, rest) = Reply::read(bytes)?;
            return Ok((value(reply, block, depth)?, rest));
        }
    };
    let (items, rest) = list(raw.behind, until, block, depth)?;
    Ok((aggregate(raw.kind, items), rest))
}

fn aggregate(kind: u8, items: Vec<Value>) -> Value {
    match kind {
        b'~' => Value::Set(items),
        b'>' => Value::Push(items),
        b'%' => Value::Map(entries(items)),
        _ => Value::Array(items),
    }
}

fn entries(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
}

/// Bytes of a block, as a slice of it unless they are [short](SLICE_MIN) or not in it.
#[must_use]
pub fn slice(block: &Bytes, part: &[u8]) -> Bytes {
    let within = block.as_ptr_range();
    let ends = part.as_ptr_range();
    if part.len() >= SLICE_MIN && within.start <= ends.start && ends.end <= within.end {
        return block.slice_ref(part);
    }
    Bytes::copy_from_slice(part)
}
