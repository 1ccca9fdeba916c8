//! What the server says of itself.

use std::collections::BTreeMap;

use onetrip::Session;

use crate::error::Result;

/// The settings that affect measurements, as the server shows them (`128MB`, `on`), by name.
/// Settings that it doesn't know or doesn't show to this user are missing. One trip.
///
/// # Errors
/// The session is lost.
pub async fn settings(session: &Session) -> Result<BTreeMap<String, String>> {
    let rows = session.query(SQL, &[&NAMES]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// The server's version, as it says it: `17.4`, or with what a distribution adds. One trip.
///
/// # Errors
/// The session is lost.
pub async fn version(session: &Session) -> Result<String> {
    let row = session.query_one("select pg_catalog.current_setting('server_version')", &[]).await?;
    Ok(row.try_get(0)?)
}

const SQL: &str = "select name, pg_catalog.current_setting(name) from pg_catalog.pg_settings \
     where name = any($1) order by name";

const NAMES: &[&str] = &[
    "autovacuum",
    "checkpoint_timeout",
    "commit_delay",
    "commit_siblings",
    "data_checksums",
    "deadlock_timeout",
    "default_transaction_isolation",
    "effective_io_concurrency",
    "fsync",
    "full_page_writes",
    "huge_pages",
    "huge_pages_status",
    "idle_in_transaction_session_timeout",
    "io_method",
    "jit",
    "lock_timeout",
    "log_min_duration_statement",
    "log_statement",
    "max_connections",
    "max_parallel_workers_per_gather",
    "max_pred_locks_per_transaction",
    "max_wal_size",
    "plan_cache_mode",
    "server_version",
    "shared_buffers",
    "shared_preload_libraries",
    "ssl",
    "statement_timeout",
    "synchronous_commit",
    "synchronous_standby_names",
    "track_activities",
    "track_counts",
    "track_functions",
    "track_io_timing",
    "track_wal_io_timing",
    "wal_buffers",
    "wal_compression",
    "wal_level",
    "wal_sync_method",
    "wal_writer_delay",
    "work_mem",
];
