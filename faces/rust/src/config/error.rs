//! Errors of a configuration. No error contains a value: any value may be a password that a missing
//! escape has moved to another place.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

/// The kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigErrorKind {
    /// The text is neither a URL nor `keyword=value` pairs, or is incomplete.
    Syntax,
    /// The URL's scheme is unknown.
    Scheme,
    /// A percent sign is not followed by two hexadecimal digits, or the decoded bytes aren't text.
    PercentEncoding,
    /// A host, an address, or the number of them.
    Host,
    /// A port, or the number of ports.
    Port,
    /// A keyword that doesn't exist.
    Keyword,
    /// A value that its keyword does not accept.
    Value,
    /// Settings about TLS that contradict one another, or lack a certificate.
    Tls,
    /// libpq supports it, but this version of this client does not.
    Unsupported,
    /// No user is known.
    User,
    /// The service file can't be read, or does not have the service.
    Service,
}

/// A configuration that can't be used: what is wrong, where, and what to do. It never contains a
/// value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    kind: ConfigErrorKind,
    place: Place,
    what: Cow<'static, str>,
}

impl ConfigError {
    /// The kind of fault.
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

    /// The same fault, in this line of a service file.
    pub(super) fn in_service_file(self, path: &Path, line: usize) -> ConfigError {
        let what = format!("{}, line {line}: {}", path.display(), self.what);
        ConfigError::new(self.kind, Place::ServiceFile, what)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is said of a service file begins with its path.
        let colon = if self.place == Place::ServiceFile { "" } else { ":" };
        write!(f, "{}{colon} {}", self.place, self.what)
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
    /// A service file, whose path the text begins with.
    ServiceFile,
    /// A setter, or several settings together.
    Config,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Url => f.write_str("in the connection URL"),
            Place::KeyValue => f.write_str("in the connection string"),
            Place::Variable(name) => write!(f, "in the environment variable {name}"),
            Place::ServiceFile => f.write_str("in the service file"),
            Place::Config => f.write_str("in the configuration"),
        }
    }
}
