//! Finds PostgreSQL's server binaries.
//!
//! It searches in this order: [`PG_BIN_VARIABLE`], the PATH, the places that distributions use, and
//! `target/postgres/`, where `scripts/setup` puts its downloads. [`PG_MAJOR_VARIABLE`] chooses a
//! version.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::private::{LabError, asked, downloaded, newest_first, numbers};

/// The environment variable that overrides the search: a directory with `postgres` and `initdb`, or
/// several of them separated as in PATH, the preferred one first.
pub const PG_BIN_VARIABLE: &str = "ONETRIP_PG_BIN";

/// The environment variable that makes [`find`] take this major version, like 12, instead of the
/// first that it finds.
pub const PG_MAJOR_VARIABLE: &str = "ONETRIP_PG_MAJOR";

/// A directory whose `postgres` and `initdb` belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    bin: PathBuf,
    version: String,
    major: u32,
}

impl Installation {
    /// The installation in `bin`.
    ///
    /// # Errors
    /// When `postgres` or `initdb` is missing there, does not run, or is of another version.
    pub fn at(bin: impl Into<PathBuf>) -> Result<Self, LabError> {
        let bin = bin.into();
        let version = version_of(&bin.join("postgres"))?;
        let initdb_version = version_of(&bin.join("initdb"))?;
        if version != initdb_version {
            return Err(LabError::new(format!(
                "postgres {version} and initdb {initdb_version} in {} do not belong together",
                bin.display()
            )));
        }
        match numbers(&version).first() {
            Some(&major) => Ok(Self { bin, version, major }),
            None => Err(LabError::new(format!("{} is of no version: {version}", bin.display()))),
        }
    }

    /// The directory of the binaries.
    #[must_use]
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// As `postgres --version` prints it, like `17.4` or `18beta1`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The major version, like 17.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.major
    }

    /// The same binaries at another place.
    pub(super) fn moved_to(&self, bin: PathBuf) -> Self {
        Self { bin, ..self.clone() }
    }
}

/// The default installation. If [`PG_MAJOR_VARIABLE`] is set, it has that version.
///
/// # Errors
/// When there is none; the message says how to get one. When the variable is not a number.
pub fn find() -> Result<Installation, LabError> {
    let wanted = wanted_major()?;
    let fits = |it: &Installation| wanted.is_none_or(|major| it.major == major);
    let given = overridden()?;
    let found = match given.is_empty() {
        true => places().filter_map(|bin| Installation::at(bin).ok()).find(fits),
        false => given.into_iter().find(fits),
    };
    found.ok_or_else(|| match wanted {
        None => none_found(),
        Some(major) => LabError::new(format!(
            "no PostgreSQL {major} found, which {PG_MAJOR_VARIABLE} asks for; install it, or name \
             its directory in {PG_BIN_VARIABLE}"
        )),
    })
}

fn wanted_major() -> Result<Option<u32>, LabError> {
    let Some(value) = env::var_os(PG_MAJOR_VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let major = value.to_str().and_then(|value| value.parse().ok());
    let wrong = || LabError::new(format!("{PG_MAJOR_VARIABLE} is a number like 12, not {value:?}"));
    major.map(Some).ok_or_else(wrong)
}

/// One installation of every major version there is, the newest first.
///
/// # Errors
/// When there is none; the message says how to get one.
pub fn find_all() -> Result<Vec<Installation>, LabError> {
    let mut found = overridden()?;
    if found.is_empty() {
        found = places().filter_map(|bin| Installation::at(bin).ok()).collect();
    }
    let mut by_major = BTreeMap::new();
    for installation in found {
        by_major.entry(installation.major).or_insert(installation);
    }
    match by_major.is_empty() {
        true => Err(none_found()),
        false => Ok(by_major.into_values().rev().collect()),
    }
}

/// The installations that the variable names; empty if it is unset. A wrong entry is an error,
/// because the user wants that server and no other.
fn overridden() -> Result<Vec<Installation>, LabError> {
    let value = env::var_os(PG_BIN_VARIABLE).unwrap_or_default();
    let directories = env::split_paths(&value).filter(|path| !path.as_os_str().is_empty());
    directories
        .map(|bin| {
            Installation::at(bin)
                .map_err(|error| LabError::new(format!("{PG_BIN_VARIABLE} is wrong: {error}")))
        })
        .collect()
}

fn none_found() -> LabError {
    LabError::new(format!(
        "no PostgreSQL server binaries found; run scripts/setup, or install PostgreSQL, or set \
         {PG_BIN_VARIABLE} to the directory with postgres and initdb"
    ))
}

/// Every directory to search, lazily: most searches end at the first.
fn places() -> impl Iterator<Item = PathBuf> {
    on_path().into_iter().chain(usual_places()).chain(downloaded("postgres"))
}

/// A program on the PATH may be a link, or a copy without its siblings. So links are followed to
/// their targets, and `pg_config` is asked too.
fn on_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = Vec::new();
    for directory in env::split_paths(&path) {
        for program in ["postgres", "initdb"] {
            let Ok(real) = directory.join(program).canonicalize() else { continue };
            places.extend(real.parent().map(Path::to_path_buf));
            places.push(directory.clone());
        }
    }
    places.extend(configured().clone());
    places
}

/// The directory that `pg_config` says, asked once: the PATH of a process stays as it is.
fn configured() -> &'static Option<PathBuf> {
    static SAID: OnceLock<Option<PathBuf>> = OnceLock::new();
    SAID.get_or_init(|| {
        let output = Command::new("pg_config").arg("--bindir").output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().into())
    })
}

/// Debian, RHEL, Alpine, source builds, Homebrew, Postgres.app and the EDB installer.
const USUAL_PLACES: [&str; 12] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/lib/postgresql*/bin",
    "/usr/pgsql-*/bin",
    "/usr/libexec/postgresql*",
    "/usr/local/pgsql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/opt/postgres*/bin",
    "/opt/postgres*/*/bin",
    "/opt/pgsql*/bin",
    "/Library/PostgreSQL/*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
];

fn usual_places() -> impl Iterator<Item = PathBuf> {
    USUAL_PLACES.iter().flat_map(|pattern| newest_first(pattern))
}

/// `postgres (PostgreSQL) 17.4 (Debian 17.4-1)` is version `17.4`.
fn version_of(program: &Path) -> Result<String, LabError> {
    let output =
        asked::version(program).map_err(|error| LabError::io("cannot run", program, error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.split_once("(PostgreSQL) ").and_then(|(_, rest)| rest.split_whitespace().next()) {
        Some(version) if output.status.success() => Ok(version.to_owned()),
        _ => Err(LabError::program(&format!("{} --version failed", program.display()), &output)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_binaries_is_refused_by_name() {
        let error = Installation::at("/nowhere").expect_err("there is nothing").to_string();
        assert!(error.contains("/nowhere/postgres"), "{error}");
    }
}
