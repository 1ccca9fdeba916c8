//! The server of all tests. If the variable `ONETRIP_THROUGH_PGBOUNCER` names a version of
//! PgBouncer (`1.18.0`), the server is reached through it, in transaction mode.

use std::ops::Deref;
use std::path::Path;
use std::sync::OnceLock;

use onetrip_lab::postgres::pgbouncer::{Options, PrivatePgBouncer, Program, find_all};
use onetrip_lab::postgres::{self, PrivatePostgres};

use crate::refused;

/// The version of the PgBouncer that tests go through.
const VARIABLE: &str = "ONETRIP_THROUGH_PGBOUNCER";

/// The settings that docs/operations/poolers.md prescribes behind PgBouncer before 1.21.
const SETTINGS_BEFORE_NAMES: &str = "prepare_threshold=0&one_segment=1&cancels_max=0";

/// As DISCARD ALL, except for prepared statements, of which the pooler keeps track. It runs after
/// each transaction, so that session state is lost in every run and not only in some, and so that
/// no test finds what another one left.
const RESET: &str = "close all; set session authorization default; reset all; unlisten *; \
                     select pg_advisory_unlock_all(); discard temp; discard sequences";

/// The server, and how to reach it.
pub(crate) struct Server {
    postgres: &'static PrivatePostgres,
    pooler: Option<PrivatePgBouncer>,
}

/// One server for the whole binary, from the lab.
pub(crate) fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| {
        let postgres = postgres::shared();
        Server { postgres, pooler: program().map(|program| start(postgres, program)) }
    })
}

impl Server {
    /// Why this test does not run, if there is a pooler that does not allow it.
    pub(crate) fn refusal(&self, test: &str) -> Option<&'static str> {
        let pooler = self.pooler.as_ref()?;
        let find = |list: &refused::Refusals| {
            let found = list.iter().find(|(_, tests)| is_among(tests, test));
            found.map(|(why, _)| *why)
        };
        let of_version = match pooler.knows_prepared_statements() {
            true => refused::SINCE_NAMES,
            false => refused::BEFORE_NAMES,
        };
        find(refused::ALWAYS).or_else(|| find(of_version))
    }

    pub(crate) fn url(&self) -> String {
        self.database_url("postgres")
    }

    pub(crate) fn database_url(&self, database: &str) -> String {
        match &self.pooler {
            Some(pooler) => pooler.database_url(database),
            None => self.postgres.database_url(database),
        }
    }

    /// The server itself, without the pooler.
    pub(crate) fn direct_url(&self, database: &str) -> String {
        self.postgres.database_url(database)
    }

    /// These settings for a URL, behind those that the pooler requires.
    pub(crate) fn settings(&self, settings: &str) -> String {
        match &self.pooler {
            Some(pooler) if !pooler.knows_prepared_statements() => {
                format!("{SETTINGS_BEFORE_NAMES}&{settings}").trim_end_matches('&').to_owned()
            }
            _ => settings.to_owned(),
        }
    }

    /// Whether a pooler is in between.
    pub(crate) fn is_pooled(&self) -> bool {
        self.pooler.is_some()
    }

    pub(crate) fn port(&self) -> u16 {
        self.pooler.as_ref().map_or(self.postgres.port(), PrivatePgBouncer::port)
    }

    pub(crate) fn socket_dir(&self) -> &Path {
        self.pooler.as_ref().map_or(self.postgres.socket_dir(), PrivatePgBouncer::socket_dir)
    }
}

impl Deref for Server {
    type Target = PrivatePostgres;

    fn deref(&self) -> &PrivatePostgres {
        self.postgres
    }
}

fn program() -> Option<Program> {
    let version = std::env::var(VARIABLE).ok().filter(|version| !version.is_empty())?;
    let mut programs = find_all().unwrap().into_iter();
    let found = programs.find(|program| program.version() == version);
    Some(found.unwrap_or_else(|| panic!("{VARIABLE}={version}: there is no such PgBouncer here")))
}

fn start(postgres: &PrivatePostgres, program: Program) -> PrivatePgBouncer {
    let options = Options {
        program: Some(program),
        // As many as the server has, so that no test waits for what another one holds.
        pool_size: postgres::CONNECTIONS_MAX_DEFAULT - 20,
        clients_max: 1_000,
        prepared_max: Some(200),
        ..Options::default()
    };
    // If the server refused a connection, the next client tries again at once, and not after 15 s.
    let options = options.setting("server_login_retry", "0");
    let options =
        options.setting("server_reset_query", RESET).setting("server_reset_query_always", "1");
    PrivatePgBouncer::start(postgres, &options).unwrap()
}

/// Whether a test is in the list, by its name or by its file, whose name ends with `::`.
fn is_among(tests: &[&str], test: &str) -> bool {
    tests.iter().any(|it| *it == test || it.ends_with("::") && test.starts_with(it))
}
