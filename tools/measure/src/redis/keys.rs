//! The keys of a run: all under one prefix, all known beforehand, so that each of them is removed
//! and nothing else.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use onetrip::redis::Client;
use onetrip::redis::commands::*;

use super::way::AT_ONCE;
use crate::error::{Error, Result};

/// The keys.
#[derive(Debug)]
pub(crate) struct Keys {
    prefix: String,
    /// Of values of [`VALUE_BYTES`].
    pub(super) values: Vec<String>,
    pub(super) counter: String,
    /// Of numbers that are read, changed and written.
    pub(super) numbers: Vec<String>,
}

/// The length of a value, in bytes.
const VALUE_BYTES: usize = 64;

/// Values that are read and written.
const VALUES: u32 = 1_000;

impl Keys {
    /// Chooses the keys. This writes nothing to the server.
    pub(crate) fn new() -> Keys {
        let prefix = format!("onetrip-bench:{:016x}:", RandomState::new().hash_one(()));
        let named = |name: &str, count| (0..count).map(|n| format!("{prefix}{name}:{n}")).collect();
        Keys {
            values: named("value", VALUES),
            counter: format!("{prefix}counter"),
            numbers: named("number", AT_ONCE),
            prefix,
        }
    }

    /// Only this many numbers.
    #[cfg(test)]
    pub(super) fn keep_numbers(&mut self, count: usize) {
        self.numbers.truncate(count);
    }

    /// The content of the values.
    pub(super) fn value() -> &'static str {
        const VALUE: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        const { assert!(VALUE.len() == VALUE_BYTES) };
        VALUE
    }

    /// Gives each a value.
    ///
    /// # Errors
    /// The server refuses one, or is gone.
    pub(crate) async fn fill(&self, client: &Client) -> Result<()> {
        let values = self.values.iter().map(|key| (key, Keys::value()));
        let numbers = self.numbers.iter().chain([&self.counter]).map(|key| (key, "1"));
        client.mset(values.chain(numbers)).await?;
        Ok(())
    }

    /// Removes all of them. Gives up on a server that does not answer.
    ///
    /// # Errors
    /// They are still there; the line says how to remove them.
    pub(crate) async fn remove(&self, client: &Client) -> Result<()> {
        let all = self.values.iter().chain(&self.numbers).chain([&self.counter]);
        let removed = client.timeout(PATIENCE).unlink(all).await;
        removed.map(drop).map_err(|error| Error::new(format!("{error}; {}", self.left())))
    }

    /// The text that an immediate exit prints about them.
    pub(crate) fn left(&self) -> String {
        let Keys { prefix, .. } = self;
        format!(
            "keys that begin with {prefix} may be left on the server: \
             `redis-cli --scan --pattern '{prefix}*' | xargs redis-cli unlink` removes them"
        )
    }
}

/// How long a server may take to remove them.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
