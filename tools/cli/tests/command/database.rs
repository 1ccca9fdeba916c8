//! Databases on the test binary's server.

use std::time::{Duration, Instant};

use onetrip::Client;
use onetrip_lab::postgres::shared;

/// The URL of a database of the test's own.
pub(crate) fn database() -> String {
    let name = shared().new_name();
    run(&shared().url(), &format!("create database {name}"));
    shared().database_url(&name)
}

/// Runs a statement; the number of its rows.
pub(crate) fn run(url: &str, sql: &str) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let session = Client::connect(url).await.unwrap().session().await.unwrap();
        session.query(sql, &[]).await.unwrap().len()
    })
}

/// Whether the schema of `onetrip bench` is there.
pub(crate) fn has_schema(url: &str) -> bool {
    run(url, "select 1 from pg_namespace where nspname = 'onetrip_bench'") == 1
}

/// Waits until the server has a session like this.
pub(crate) fn wait_for_session(url: &str, is_it: &str) {
    let sql = format!("select 1 from pg_stat_activity where pid <> pg_backend_pid() and {is_it}");
    let start = Instant::now();
    while run(url, &sql) == 0 {
        assert!(start.elapsed() < PATIENCE, "no session came of which {is_it}");
    }
}

/// How long to wait for an event that must come, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(600);
