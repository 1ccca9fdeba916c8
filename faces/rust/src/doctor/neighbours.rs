//! Texts that are slow at times, according to `pg_stat_statements`.

use std::time::Duration;

use super::SlowAtTimes;
use crate::Rows;

/// Whether the view exists.
pub(crate) const IS_THERE: &str = "select to_regclass('pg_stat_statements') is not null";

/// The columns have these names since PostgreSQL 13. Times are in milliseconds.
pub(crate) const SLOW_AT_TIMES: &str = "
    select left(query, 200), calls, mean_exec_time, max_exec_time
    from pg_stat_statements join pg_database on pg_database.oid = dbid
    where datname = current_database() and calls > 10
        and max_exec_time > 10 and max_exec_time > 10 * mean_exec_time
    order by max_exec_time desc limit 5";

pub(crate) fn read(rows: &Rows) -> Vec<SlowAtTimes> {
    let millis = |ms: f64| Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default();
    let text = |row: crate::RowRef<'_>| SlowAtTimes {
        text: row.get(0),
        calls: row.get(1),
        usual: millis(row.get(2)),
        longest: millis(row.get(3)),
    };
    rows.iter().map(text).collect()
}
