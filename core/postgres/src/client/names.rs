//! The names that a client generates for statements on a server.

/// What they all begin with.
pub const NAME_PREFIX: &str = "onetrip_";
