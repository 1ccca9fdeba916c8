//! Why a reply does not convert to the requested type.

use std::borrow::Cow;
use std::fmt;

use onetrip_redis::reply::{ErrorReply, Kind, Reply as ReplyView};
use onetrip_redis::value::ErrorValue;

/// A reply is of another kind than expected, does not fit, or is an error of the server. This error
/// never contains a value.
///
/// In a message its text stands behind the name of the command: `an integer where a map was
/// expected`.
#[derive(Clone)]
pub struct Mismatch(Inner);

#[derive(Clone)]
enum Inner {
    Other { found: Kind, unfit: Option<&'static str>, expected: Cow<'static, str> },
    Server(ErrorValue),
}

impl Mismatch {
    /// The reply is of another kind. `expected` has its article: `a map`. If the reply is an error,
    /// it stays that error.
    #[must_use]
    pub fn new(found: &ReplyView<'_>, expected: impl Into<Cow<'static, str>>) -> Mismatch {
        Mismatch(match found {
            ReplyView::Error(error) => Inner::Server(ErrorValue::from(*error)),
            _ => Inner::Other { found: found.kind(), unfit: None, expected: expected.into() },
        })
    }

    /// The kind is right, but the contents are not; `why` stands behind the kind: `a bulk string
    /// that does not parse where an integer was expected`.
    #[must_use]
    pub fn unfit(
        found: Kind,
        why: &'static str,
        expected: impl Into<Cow<'static, str>>,
    ) -> Mismatch {
        Mismatch(Inner::Other { found, unfit: Some(why), expected: expected.into() })
    }

    /// The server's error, if it answered with an error where something else was requested.
    #[must_use]
    pub fn server(&self) -> Option<ErrorReply<'_>> {
        match &self.0 {
            Inner::Server(error) => Some(error.reply()),
            Inner::Other { .. } => None,
        }
    }
}

/// Shows only the code of a server's error: the message may quote arguments.
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
