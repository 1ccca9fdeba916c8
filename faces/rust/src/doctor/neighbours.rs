//! Texts that are slow at times, as the server has counted them.

use std::time::Duration;

use super::SlowAtTimes;
use crate::{Client, unprepared};

/// The columns have these names since PostgreSQL 13. Times are milliseconds.
const SLOW_AT_TIMES: &str = "
    select left(query, 200), calls, mean_exec_time, max_exec_time
    from pg_stat_statements join pg_database on pg_database.oid = dbid
    where datname = current_database() and calls > 10
        and max_exec_time > 10 and max_exec_time > 10 * mean_exec_time
    order by max_exec_time desc limit 5";

/// None where that can't be found out: the view may not be there, or not be ours to read.
pub(super) async fn slow_at_times(client: &Client) -> Vec<SlowAtTimes> {
    let there = "select to_regclass('pg_stat_statements') is not null";
    let is_there = client.query_one(&unprepared(there), &[]).await;
    if !is_there.is_ok_and(|row| row.get(0)) {
        return Vec::new();
    }
    let Ok(rows) = client.query(&unprepared(SLOW_AT_TIMES), &[]).await else { return Vec::new() };
    let millis = |ms: f64| Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default();
    let text = |row: crate::RowRef<'_>| SlowAtTimes {
        text: row.get(0),
        calls: row.get(1),
        usual: millis(row.get(2)),
        longest: millis(row.get(3)),
    };
    rows.iter().map(text).collect()
}
