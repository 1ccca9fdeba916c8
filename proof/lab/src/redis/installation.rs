//! Finds the server program of Redis or Valkey.
//!
//! If [`REDIS_SERVER_VARIABLE`] is set, it searches nowhere else. Otherwise it searches the PATH,
//! where systems put servers, and `target/redis/`, where `scripts/setup` puts its downloads.

use std::env;
use std::path::{Path, PathBuf};

use crate::private::{LabError, asked, downloaded, numbers};

/// The environment variable that overrides the search: the program.
pub const REDIS_SERVER_VARIABLE: &str = "ONETRIP_REDIS_SERVER";

/// The names of the program, the preferred one first.
const NAMES: [&str; 2] = ["redis-server", "valkey-server"];

/// Distributions, source builds and Homebrew. Not every user has them on the PATH.
const USUAL_PLACES: [&str; 6] = [
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/opt/homebrew/bin",
    "/snap/bin",
];

/// A server program that runs on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    path: PathBuf,
    product: String,
    version: String,
}

impl Installation {
    /// The first one found; `None` if there is none.
    ///
    /// # Errors
    /// When [`REDIS_SERVER_VARIABLE`] is wrong: no other program replaces the one that the user
    /// named.
    pub fn look() -> Result<Option<Self>, LabError> {
        let value = env::var_os(REDIS_SERVER_VARIABLE).unwrap_or_default();
        if value.is_empty() {
            return Ok(places().find_map(|path| Self::at(path).ok()));
        }
        let wrong = |error| LabError::new(format!("{REDIS_SERVER_VARIABLE} is wrong: {error}"));
        Self::at(value).map(Some).map_err(wrong)
    }

    /// The first one found.
    ///
    /// # Errors
    /// When there is none; the message says how to get one. When [`REDIS_SERVER_VARIABLE`] is
    /// wrong.
    pub fn find() -> Result<Self, LabError> {
        Self::look()?.ok_or_else(|| {
            LabError::new(format!(
                "no redis-server or valkey-server found; run scripts/setup, or install Redis or \
                 Valkey, or set {REDIS_SERVER_VARIABLE} to the program"
            ))
        })
    }

    /// The program at this path.
    ///
    /// # Errors
    /// When it is missing, does not run, or is neither Redis nor Valkey.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, LabError> {
        let path = path.into();
        let output = asked::version(&path);
        let output = output.map_err(|error| LabError::io("cannot run", &path, error))?;
        match named(&String::from_utf8_lossy(&output.stdout)) {
            Some((product, version)) if output.status.success() => {
                Ok(Self { product: product.to_owned(), version: version.to_owned(), path })
            }
            _ => {
                let what = format!("{} is neither Redis nor Valkey", path.display());
                Err(LabError::program(&what, &output))
            }
        }
    }

    /// The program.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `Redis` or `Valkey`.
    #[must_use]
    pub fn product(&self) -> &str {
        &self.product
    }

    /// Like `7.0.15`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The major version, like 7.
    #[must_use]
    pub fn major(&self) -> u32 {
        numbers(&self.version).first().copied().unwrap_or(0)
    }

    /// The same program at another place.
    pub(super) fn moved_to(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }
}

fn places() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<_> = env::split_paths(&path).collect();
    let usual = USUAL_PLACES.iter().map(PathBuf::from);
    let directories = on_path.into_iter().chain(usual).chain(downloaded("redis"));
    directories.flat_map(|bin| NAMES.map(|name| bin.join(name))).filter(|path| path.exists())
}

/// `Redis server v=7.0.15 sha=00000000:0 malloc=…` is Redis 7.0.15.
fn named(text: &str) -> Option<(&str, &str)> {
    let (product, rest) = text.split_once(" server v=")?;
    let version = rest.split_whitespace().next()?;
    matches!(product, "Redis" | "Valkey").then_some((product, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_and_version_are_read() {
        let valkey = "Valkey server v=8.0.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64";
        assert_eq!(named(valkey), Some(("Valkey", "8.0.1")));
        assert_eq!(named("Redis server v=7.0.15\n"), Some(("Redis", "7.0.15")));
        assert_eq!(named("memcached 1.6"), None);
        assert_eq!(named("Other server v=1"), None);
    }
}
