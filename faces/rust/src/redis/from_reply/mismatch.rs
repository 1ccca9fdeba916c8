//! Why a reply is not what was asked for.

use std::borrow::Cow;
use std::fmt;

use onetrip_redis::reply::{ErrorReply, Kind, Reply as ReplyView};
use onetrip_redis::value::ErrorValue;

/// A reply is of another kind than was expected, does not fit, or is an error of the server's. It never
/// holds a value.
///
/// Its text goes behind the name of the command: `an integer where a map was expected`.
#[derive(Clone)]
pub struct Mismatch(Inner);

#[derive(Clone)]
enum Inner {
    Other { found: Kind, unfit: Option<&'static str>, expected: Cow<'static, str> },
    Server(ErrorValue),
}

impl Mismatch {
    /// The reply is of another kind. `expected` has its article: `a map`. An error stays what it is.
    #[must_use]
    pub fn new(found: &ReplyView<'_>, expected: impl Into<Cow<'static, str>>) -> Mismatch {
        Mismatch(match found {
            ReplyView::Error(error) => Inner::Server(ErrorValue::from(*error)),
            _ => Inner::Other { found: found.kind(), unfit: None, expected: expected.into() },
        })
    }

    /// The kind is right, and what it holds isn't; `why` goes behind the kind: `a bulk string that is no
    /// number where an integer was expected`.
    #[must_use]
    pub fn unfit(
        found: Kind,
        why: &'static str,
        expected: impl Into<Cow<'static, str>>,
    ) -> Mismatch {
        Mismatch(Inner::Other { found, unfit: Some(why), expected: expected.into() })
    }

    /// What the server said, if it answered with an error where something else was asked for.
    #[must_use]
    pub fn server(&self) -> Option<ErrorReply<'_>> {
        match &self.0 {
            Inner::Server(error) => Some(error.reply()),
            Inner::Other { .. } => None,
        }
    }
}

/// Of an error of the server's its code: the message may quote arguments.
impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Server(error) => {
                write!(f, "the error {}", error.reply().code().escape_ascii())
            }
            Inner::Other { found, unfit, expected } => {
                write!(f, "{}{found}", found.article())?;
                if let Some(why) = unfit {
                    write!(f, " {why}")?;
                }
                write!(f, " where {expected} was expected")
            }
        }
    }
}

impl fmt::Debug for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mismatch({self})")
    }
}

impl std::error::Error for Mismatch {}
