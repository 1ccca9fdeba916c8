//! Finds PgBouncer.
//!
//! If [`PGBOUNCER_VARIABLE`] is set, it searches nowhere else. Otherwise it searches the PATH,
//! where systems put daemons, and `target/pgbouncer/`, where `scripts/setup` puts its downloads.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use crate::private::{LabError, Signals, asked, downloaded, numbers};

/// The environment variable that overrides the search: the program, or several of them separated as
/// in PATH.
pub const PGBOUNCER_VARIABLE: &str = "ONETRIP_PGBOUNCER";

/// Prepared statements of the protocol work in transaction mode since 1.21, up to the setting
/// `max_prepared_statements`.
const SINCE_PREPARED: [u32; 2] = [1, 21];

/// Since 1.23 SIGTERM waits until the clients have left, and SIGQUIT ends PgBouncer at once.
/// Before, SIGTERM ended it at once, and SIGQUIT was not handled.
const SINCE_QUIT: [u32; 2] = [1, 23];

/// Debian, source builds and Homebrew. Not every user has them on the PATH.
const USUAL_PLACES: [&str; 5] = [
    "/usr/sbin/pgbouncer",
    "/usr/bin/pgbouncer",
    "/usr/local/sbin/pgbouncer",
    "/usr/local/bin/pgbouncer",
    "/opt/homebrew/bin/pgbouncer",
];

/// A PgBouncer that runs on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    path: PathBuf,
    version: String,
}

impl Program {
    /// The program at this path.
    ///
    /// # Errors
    /// When it is missing, does not run, or is no PgBouncer.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, LabError> {
        let path = path.into();
        let output = asked::version(&path);
        let output = output.map_err(|error| LabError::io("cannot run", &path, error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.strip_prefix("PgBouncer ").and_then(|rest| rest.split_whitespace().next()) {
            Some(version) if output.status.success() => {
                Ok(Self { version: version.to_owned(), path })
            }
            _ => Err(LabError::program(&format!("{} is no PgBouncer", path.display()), &output)),
        }
    }

    /// The program.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Like `1.18.0`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether it tracks prepared statements in transaction mode: version 1.21 and later.
    #[must_use]
    pub fn knows_prepared_statements(&self) -> bool {
        self.is_since(SINCE_PREPARED)
    }

    /// The signals that end it without waiting for its clients.
    pub(super) fn signals(&self) -> Signals {
        let at_once = if self.is_since(SINCE_QUIT) { "QUIT" } else { "TERM" };
        Signals { orderly: at_once, immediate: at_once }
    }

    /// The same program at another place.
    pub(super) fn moved_to(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }

    fn is_since(&self, version: [u32; 2]) -> bool {
        numbers(&self.version).as_slice() >= version.as_slice()
    }
}

/// The newest PgBouncer there is.
///
/// # Errors
/// When there is none; the message says how to get one. When [`PGBOUNCER_VARIABLE`] is wrong.
pub fn find() -> Result<Program, LabError> {
    let newest = find_all()?.into_iter().next();
    newest.ok_or_else(|| {
        LabError::new(format!(
            "no PgBouncer found; run scripts/setup, or install PgBouncer, or set \
             {PGBOUNCER_VARIABLE} to the program"
        ))
    })
}

/// One PgBouncer of every version there is, the newest first; empty when there is none.
///
/// # Errors
/// When [`PGBOUNCER_VARIABLE`] is wrong: no other program replaces the one that the user named.
pub fn find_all() -> Result<Vec<Program>, LabError> {
    let mut by_version = BTreeMap::new();
    for program in candidates()? {
        by_version.entry(numbers(&program.version)).or_insert(program);
    }
    Ok(by_version.into_values().rev().collect())
}

fn candidates() -> Result<Vec<Program>, LabError> {
    let value = env::var_os(PGBOUNCER_VARIABLE).unwrap_or_default();
    if value.is_empty() {
        return Ok(places().filter_map(|path| Program::at(path).ok()).collect());
    }
    let wrong = |error| LabError::new(format!("{PGBOUNCER_VARIABLE} is wrong: {error}"));
    env::split_paths(&value).map(|path| Program::at(path).map_err(wrong)).collect()
}

fn places() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<_> = env::split_paths(&path).map(|place| place.join("pgbouncer")).collect();
    let usual = USUAL_PLACES.iter().map(PathBuf::from);
    let downloaded = downloaded("pgbouncer").map(|bin| bin.join("pgbouncer"));
    on_path.into_iter().chain(usual).chain(downloaded).filter(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_version(version: &str) -> Program {
        Program { path: PathBuf::new(), version: version.to_owned() }
    }

    #[test]
    fn the_version_decides_what_it_knows_and_what_ends_it() {
        for (version, knows, signal) in [
            ("1.9.0", false, "TERM"),
            ("1.18.0", false, "TERM"),
            ("1.21.0", true, "TERM"),
            ("1.23", true, "QUIT"),
            ("2.0.0", true, "QUIT"),
        ] {
            let program = of_version(version);
            assert_eq!(program.knows_prepared_statements(), knows, "{version}");
            assert_eq!(program.signals().orderly, signal, "{version}");
        }
    }
}
