//! A setting that should be changed, as a value.

use std::fmt;

/// A setting that should be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// Where it is set.
    pub place: Place,
    /// The setting and its value, such as `prepare_threshold=0`.
    pub setting: &'static str,
    /// Why, in one sentence.
    pub why: &'static str,
}

/// Where a setting is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// In the configuration of this client.
    Client,
    /// In the pooler's configuration; the names are PgBouncer's.
    Pooler,
    /// In the configuration of the servers.
    Server,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Place::Client => "set in the client",
            Place::Pooler => "set in the pooler",
            Place::Server => "set in the server",
        })
    }
}
