//! Why a startup failed.

use std::fmt;

use crate::auth::ScramError;
use crate::message::{EncodeError, ServerError, Tag, Violation};

/// Why a startup failed. The texts quote no password, no key and no bytes of the peer, except for
/// the server's own error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartupError {
    /// The configuration can't be put into a message.
    Encode(EncodeError),
    /// The first bytes are no message of the protocol.
    NotPostgres,
    /// The server answered in the form of protocol 2, as it does when it can't start a process for
    /// the connection.
    RefusedEarly,
    /// A message is malformed.
    Violation(Violation),
    /// A message came that is not allowed at this point.
    Unexpected {
        /// Its type.
        tag: u8,
    },
    /// The server sent more than a startup can need.
    TooMuch {
        /// The limit in bytes.
        max: usize,
    },
    /// The server reported more than 256 settings.
    TooManyParameters,
    /// The cancel key's length does not fit the protocol version.
    KeyLength,
    /// The server refused the connection with this error.
    Server(Box<ServerError>),
    /// The same behind AuthenticationOk: the server took the login, and not the session.
    Session(Box<ServerError>),
    /// The server asks for a password, and none was given.
    PasswordMissing,
    /// The server asks for a password in a form that an eavesdropper could use, on a channel that
    /// is not secure.
    PlainPasswordRefused {
        /// The form that it asks for.
        method: PlainMethod,
    },
    /// The server asks for a method of authentication that is not allowed, or asks for none
    /// although one is required.
    MethodRefused {
        /// Its name in `require_auth`.
        method: &'static str,
    },
    /// The server asks for a method that this crate does not support.
    UnsupportedAuthentication {
        /// The code of the Authentication message.
        code: u32,
    },
    /// The server offers no SASL mechanism that this crate supports.
    UnsupportedMechanism,
    /// Channel binding is required and did not take place.
    ChannelBindingMissing,
    /// The server reported success before it had proved that it knows the password.
    UnverifiedServer,
    /// The SCRAM exchange failed.
    Scram(ScramError),
    /// NegotiateProtocolVersion offers a version or options that were not asked for.
    Negotiation,
    /// The session would not use UTF-8.
    ClientEncoding,
    /// The server closed the connection.
    Closed,
    /// The startup had already ended.
    Ended,
}

/// Ways to send a password that an eavesdropper could use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainMethod {
    /// The password itself.
    Cleartext,
    /// Hashed with MD5. The hash can be attacked, and the form that the server stores is as good as
    /// the password.
    Md5,
}

impl fmt::Display for StartupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartupError::Encode(error) => error.fmt(f),
            StartupError::NotPostgres => f.write_str(
                "the peer does not speak PostgreSQL's protocol: is the port that of another service, \
                 or does it expect TLS first?",
            ),
            StartupError::RefusedEarly => f.write_str(
                "the server refused the connection before the protocol began: probably it could \
                 not start a process",
            ),
            StartupError::Violation(violation) => write!(f, "during startup: {violation}"),
            StartupError::Unexpected { tag } => {
                let tag = Tag(*tag);
                write!(f, "the server sent a message of type {tag} out of turn during startup")
            }
            StartupError::TooMuch { max } => {
                write!(f, "the server sent more than {max} bytes during startup")
            }
            StartupError::TooManyParameters => {
                f.write_str("the server reported more than 256 settings during startup")
            }
            StartupError::KeyLength => {
                f.write_str("the server's cancel key does not have the 4 bytes of protocol 3.0")
            }
            StartupError::Server(error) | StartupError::Session(error) => error.fmt(f),
            StartupError::PasswordMissing => {
                f.write_str("the server asks for a password and none was given (option password)")
            }
            StartupError::PlainPasswordRefused { method } => write!(
                f,
                "the server asks for the password {} over a connection that others may read: use TLS \
                 that verifies the server (sslmode=verify-full), or set allow_plain_password",
                match method {
                    PlainMethod::Cleartext => "in clear text",
                    PlainMethod::Md5 => "as an MD5 hash",
                }
            ),
            StartupError::MethodRefused { method: "none" } => f.write_str(
                "the server let the client in without authentication, which require_auth does not allow",
            ),
            StartupError::MethodRefused { method } => write!(
                f,
                "the server asks for authentication by {method}, which require_auth does not allow"
            ),
            StartupError::UnsupportedAuthentication { code } => {
                write!(f, "authentication method {code}, which the server demands, is not supported")
            }
            StartupError::UnsupportedMechanism => {
                f.write_str("the server offers no supported SASL mechanism (SCRAM-SHA-256)")
            }
            StartupError::ChannelBindingMissing => f.write_str(
                "channel binding is required (channel_binding=require) and did not take place: it \
                 needs TLS, and a server that asks for SCRAM and offers SCRAM-SHA-256-PLUS",
            ),
            StartupError::UnverifiedServer => f.write_str(
                "the server reported success before it proved that it knows the password: it may \
                 be an impostor",
            ),
            StartupError::Scram(error) => error.fmt(f),
            StartupError::Negotiation => {
                f.write_str("the server's answer names a protocol version or option that was not asked for")
            }
            StartupError::ClientEncoding => {
                f.write_str("the session must use client_encoding UTF8, but another one was set")
            }
            StartupError::Closed => f.write_str("the server closed the connection during startup"),
            StartupError::Ended => f.write_str("the startup has already ended"),
        }
    }
}

// No `source`: the text of an inner error is already this one's text, and a chain would print it
// twice.
impl std::error::Error for StartupError {}

impl From<EncodeError> for StartupError {
    fn from(error: EncodeError) -> Self {
        StartupError::Encode(error)
    }
}

impl From<Violation> for StartupError {
    fn from(violation: Violation) -> Self {
        StartupError::Violation(violation)
    }
}

impl From<ScramError> for StartupError {
    fn from(error: ScramError) -> Self {
        StartupError::Scram(error)
    }
}
