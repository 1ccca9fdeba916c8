//! What can be wrong with a message: on its way out ([`EncodeError`]) and on its way in
//! ([`Violation`]).
//!
//! Both are small and `Copy`, and neither ever quotes a value: they end up in logs.

use std::fmt;

/// Why a message was not encoded. The output buffer is then as it was before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// A string contains a NUL byte, which would end it early on the wire, so that the rest would
    /// be read as another field.
    Nul,
    /// The name of a startup parameter or the code of an error field is empty, which would end the
    /// list early.
    EmptyName,
    /// More than 65,535 parameters, types, formats or columns: the wire counts them in 16 bits.
    TooMany,
    /// `Formats::Each` names another number of formats than there are parameters.
    FormatCount,
    /// The message is longer than the server accepts (see `message::LARGE_LEN_MAX`).
    TooLong,
    /// A cancel key has fewer than 4 or more than 256 bytes.
    KeyLength,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EncodeError::Nul => "a string to be sent to PostgreSQL contains a NUL byte",
            EncodeError::EmptyName => "a name to be sent to PostgreSQL is empty",
            EncodeError::TooMany => {
                "a message for PostgreSQL holds more than 65535 parameters, formats or columns"
            }
            EncodeError::FormatCount => {
                "the number of parameter formats differs from the number of parameters"
            }
            EncodeError::TooLong => "a message for PostgreSQL is longer than the protocol allows",
            EncodeError::KeyLength => "a cancel key has fewer than 4 or more than 256 bytes",
        })
    }
}

impl std::error::Error for EncodeError {}

/// What is wrong with a message of the peer. After one, the connection must not be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The body of a message does not conform to its definition.
    Malformed {
        /// The name of the message in the specification.
        message: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No message begins with this byte.
    UnknownTag(u8),
    /// The declared length is below 4, although it includes the length field itself.
    ShortLength {
        /// The first byte of the message.
        tag: u8,
    },
    /// The declared length is above the limit for this type (see `message::max_len`).
    TooLong {
        /// The first byte of the message.
        tag: u8,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Malformed { message, reason } => {
                write!(f, "malformed {message} message: {reason}")
            }
            Violation::UnknownTag(tag) => write!(f, "no message has the type {}", Tag(*tag)),
            Violation::ShortLength { tag } => {
                write!(f, "a message of type {} declares a length below 4", Tag(*tag))
            }
            Violation::TooLong { tag } => {
                write!(
                    f,
                    "a message of type {} declares more bytes than its type can have",
                    Tag(*tag)
                )
            }
        }
    }
}

impl std::error::Error for Violation {}

/// Shows a message type as a letter, or as a number if it is not one.
pub(crate) struct Tag(pub(crate) u8);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_ascii_graphic() {
            write!(f, "'{}'", char::from(self.0))
        } else {
            write!(f, "0x{:02x}", self.0)
        }
    }
}
