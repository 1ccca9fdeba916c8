//! The types of replies, in words.

use std::fmt;

use super::Reply;

/// The type of a reply, for messages: `bulk string`, `integer`, `array of 3`, `nil`. It never shows
/// the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    name: &'static str,
    len: Option<u64>,
}

impl Kind {
    pub(super) fn of(reply: &Reply<'_>) -> Kind {
        let (name, len) = match reply {
            Reply::Nil => ("nil", None),
            Reply::Simple(_) => ("simple string", None),
            Reply::Error(_) => ("error", None),
            Reply::Int(_) => ("integer", None),
            Reply::Bulk(_) => ("bulk string", None),
            Reply::Double(_) => ("double", None),
            Reply::Bool(_) => ("boolean", None),
            Reply::BigNumber(_) => ("big number", None),
            Reply::Verbatim { .. } => ("verbatim string", None),
            Reply::Array(items) => ("array", items.left()),
            Reply::Set(items) => ("set", items.left()),
            Reply::Push(items) => ("push", items.left()),
            Reply::Map(pairs) => ("map", pairs.left()),
        };
        Kind { name, len }
    }

    /// The name only: `array` for an array of any length.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The article of the name in a sentence, with a space: `a `, `an `, or nothing for nil.
    #[must_use]
    pub fn article(&self) -> &'static str {
        match self.name {
            "nil" => "",
            "error" | "integer" | "array" => "an ",
            _ => "a ",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        self.len.map_or(Ok(()), |len| write!(f, " of {len}"))
    }
}
