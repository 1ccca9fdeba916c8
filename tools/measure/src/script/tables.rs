//! pgbench's four tables.
//!
//! At scale 1 they are 1 branch, 10 tellers, 100,000 accounts and an empty history; at scale N, N times
//! as many. The built-in scripts name them without a schema, so whoever runs them has to find them:
//! with `search_path` set to the schema for each connection, for instance by `options` in the
//! configuration (`-c search_path=NAME`), or by `alter role … set search_path`.

use onetrip::Session;

use crate::error::{Error, Result};

/// Makes the tables in a schema, which is made if it isn't there, and fills them: in one transaction,
/// with the rows made on the server. Then they are vacuumed and analyzed, and get their primary keys.
/// Some seconds and 15 MB per unit of the scale.
///
/// # Errors
/// One of the tables is there already, the role may not make them, or the scale is 0. Before the keys
/// are made, a failure leaves nothing but an empty schema, or full tables.
///
/// Dropping the future gives it up where it is.
pub async fn create(session: &Session, schema: &str, scale: u32) -> Result<()> {
    if scale == 0 {
        return Err(Error::new("the scale of pgbench's tables is 0: it has to be at least 1"));
    }
    let schema = quoted(schema);
    let doing = |error: onetrip::Error| Error::from(error).context("making pgbench's tables");
    for text in commands(&schema, scale) {
        session.script(&text).await.map_err(doing)?;
    }
    Ok(())
}

/// Each is sent as a text of its own, and is a transaction of its own.
fn commands(schema: &str, scale: u32) -> Vec<String> {
    let mut commands = vec![format!("create schema if not exists {schema}"), filled(schema, scale)];
    let tables = ["branches", "tellers", "accounts", "history"];
    commands.extend(tables.map(|table| format!("vacuum analyze {schema}.pgbench_{table}")));
    let keys = [("branches", "bid"), ("tellers", "tid"), ("accounts", "aid")];
    commands.extend(keys.map(|(table, key)| {
        format!("alter table {schema}.pgbench_{table} add primary key ({key})")
    }));
    commands
}

fn filled(schema: &str, scale: u32) -> String {
    /// From here on the number of an account may not fit into an integer.
    const SCALE_OF_BIGINT: u32 = 20_000;
    let aid = if scale >= SCALE_OF_BIGINT { "bigint" } else { "int" };
    let (tellers, accounts) = (10 * u64::from(scale), 100_000 * u64::from(scale));
    format!(
        "create table {schema}.pgbench_history
            (tid int, bid int, aid {aid}, delta int, mtime timestamp, filler char(22));
        create table {schema}.pgbench_tellers
            (tid int not null, bid int, tbalance int, filler char(84)) with (fillfactor = 100);
        create table {schema}.pgbench_accounts
            (aid {aid} not null, bid int, abalance int, filler char(84)) with (fillfactor = 100);
        create table {schema}.pgbench_branches
            (bid int not null, bbalance int, filler char(88)) with (fillfactor = 100);
        truncate {schema}.pgbench_history;
        insert into {schema}.pgbench_branches (bid, bbalance)
            select bid, 0 from generate_series(1, {scale}) as bid;
        insert into {schema}.pgbench_tellers (tid, bid, tbalance)
            select tid, (tid - 1) / 10 + 1, 0 from generate_series(1, {tellers}) as tid;
        insert into {schema}.pgbench_accounts (aid, bid, abalance, filler)
            select aid, (aid - 1) / 100000 + 1, 0, '' from generate_series(1, {accounts}) as aid"
    )
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
