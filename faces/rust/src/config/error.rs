//! What can be wrong with a configuration. No value ever stands in an error: any of them may be a
//! password that a missing escape has moved to another place.

use std::borrow::Cow;
use std::fmt;

/// What kind of fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigErrorKind {
    /// The text is neither a URL nor `keyword=value` pairs, or breaks off.
    Syntax,
    /// The URL's scheme is none of those that are known.
    Scheme,
    /// A percent sign is not followed by two hexadecimal digits, or what it stands for isn't text.
    PercentEncoding,
    /// A host, an address or their number.
    Host,
    /// A port or the number of ports.
    Port,
    /// A keyword that doesn't exist.
    Keyword,
    /// A value that its keyword doesn't take.
    Value,
    /// Settings about TLS that contradict one another, or lack a certificate.
    Tls,
    /// It exists in PostgreSQL's own client and not in this version of this one.
    Unsupported,
    /// Nothing says who logs in.
    User,
}

/// A configuration that can't be used: what is wrong, where, and what to do. It never holds a
/// value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    kind: ConfigErrorKind,
    place: Place,
    what: Cow<'static, str>,
}

impl ConfigError {
    /// What kind of fault it is.
    #[must_use]
    pub fn kind(&self) -> ConfigErrorKind {
        self.kind
    }

    pub(crate) fn new(
        kind: ConfigErrorKind,
        place: Place,
        what: impl Into<Cow<'static, str>>,
    ) -> ConfigError {
        ConfigError { kind, place, what: what.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl std::error::Error for ConfigError {}

/// Where a setting came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Url,
    KeyValue,
    /// An environment variable, by name.
    Variable(&'static str),
    /// A setter, or the settings taken together.
    Config,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Url => f.write_str("in the connection URL"),
            Place::KeyValue => f.write_str("in the connection string"),
            Place::Variable(name) => write!(f, "in the environment variable {name}"),
            Place::Config => f.write_str("in the configuration"),
        }
    }
}
