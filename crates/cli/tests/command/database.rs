//! Databases on the test binary's server.

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
