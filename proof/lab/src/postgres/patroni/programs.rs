//! Finds Patroni, etcd and HAProxy, and a PostgreSQL that this Patroni can run.
//!
//! They are where `scripts/setup cluster` puts them: `target/cluster/`.

use std::path::PathBuf;

use super::super::installation::{self, Installation};
use crate::private::{LabError, downloaded};

/// The newest PostgreSQL that Patroni 3.0 knows.
const MAJOR_MAX: u32 = 15;

/// What Patroni runs besides the server. Not every package of a server has them.
const COMPANIONS: [&str; 3] = ["pg_rewind", "pg_basebackup", "pg_controldata"];

/// The programs of a cluster.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The directory with `patroni`, `etcd` and `haproxy`.
    pub(super) bin: PathBuf,
    pub(super) postgres: Installation,
}

impl Programs {
    /// The first ones found; `None` if one of them is missing.
    ///
    /// # Errors
    /// When a variable that names PostgreSQL servers is wrong.
    pub fn look() -> Result<Option<Self>, LabError> {
        let bin = downloaded("cluster").find(|bin| bin.join("patroni").exists());
        let postgres = installation::find_all()?.into_iter().find(is_suitable);
        Ok(bin.zip(postgres).map(|(bin, postgres)| Self { bin, postgres }))
    }

    /// The first ones found.
    ///
    /// # Errors
    /// When one is missing; the message says how to get them.
    pub fn find() -> Result<Self, LabError> {
        Self::look()?.ok_or_else(|| {
            LabError::new(format!(
                "no Patroni with etcd found, or no PostgreSQL up to {MAJOR_MAX} with pg_rewind; \
                 run scripts/setup cluster"
            ))
        })
    }

    /// The version of PostgreSQL, like `15.18`.
    #[must_use]
    pub fn postgres_version(&self) -> &str {
        self.postgres.version()
    }
}

fn is_suitable(postgres: &Installation) -> bool {
    let has = |name: &&str| postgres.bin().join(name).exists();
    postgres.major() <= MAJOR_MAX && COMPANIONS.iter().all(has)
}

/// The programs; a test that can't run without them says that it was skipped.
///
/// # Panics
/// When a variable that names PostgreSQL servers is wrong.
pub fn found_or_skipped() -> Option<Programs> {
    let found = Programs::look().unwrap_or_else(|error| panic!("{error}"));
    if found.is_none() {
        println!("skipped: there is no Patroni; run scripts/setup cluster");
    }
    found
}
