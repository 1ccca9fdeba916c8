//! The rows, one file per group: what is measured, beside whom, and the bar.

mod cancels;
mod chaos;
mod chaos_sessions;
mod chatty;
mod checkout;
mod checkout_waiters;
mod concurrency;
mod copy;
mod counted;
mod engine_depth;
mod failover;
mod floor;
mod in_flight;
mod inserts;
mod kill;
pub mod long_pipeline;
pub mod memory;
mod neighbours;
mod node;
mod one_sync;
pub mod overload;
mod pauses;
mod pool_locks;
mod pool_select;
mod pools;
mod prepared_join;
mod process;
mod profile;
mod proxy;
mod python;
pub mod redis;
mod redis_sentinel;
mod repeatable;
mod replica_stale;
mod replicas;
mod rows_100k;
mod select;
mod session_reset;
mod tool_cost;
mod transfer;
mod turns;

use anyhow::Result;

use crate::Plan;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;

/// Rows that are measured together.
pub struct Group {
    pub names: &'static [&'static str],
    pub run: fn(&Stage, Plan, &Progress) -> Result<Vec<Row>>,
}

impl Group {
    /// Whether a part of one of its names was given, or the name of one of its figures.
    pub fn is_named(&self, only: &str) -> bool {
        // What follows a name begins with something else than a digit: 1000 is no figure of 100.
        let figure = |name| only.strip_prefix(name).is_some_and(|rest| !begins_with_digit(rest));
        self.names.iter().any(|name| name.contains(only) || figure(name))
    }
}

fn begins_with_digit(text: &str) -> bool {
    text.starts_with(|it: char| it.is_ascii_digit())
}

/// All of them, in the order in which they run.
pub fn all() -> impl Iterator<Item = &'static Group> {
    ALL.iter().chain(&node::GROUPS).chain(&python::GROUPS)
}

const ALL: [Group; 56] = [
    Group {
        names: &[
            "transfer_one_by_one",
            "transfer_pipeline",
            "transfer_procedure",
            "transfer_transaction",
        ],
        run: transfer::run,
    },
    Group { names: &["select_100_sync_each"], run: select::in_flight },
    Group { names: &["select_100_one_sync"], run: one_sync::run },
    Group { names: &["select_sequential"], run: select::sequential },
    Group { names: &["inserts_one_by_one"], run: inserts::one_by_one },
    Group { names: &["inserts_batch"], run: inserts::batch },
    Group { names: &["rows_100k_borrowed"], run: rows_100k::borrowed },
    Group { names: &["rows_100k_owned"], run: rows_100k::owned },
    Group {
        names: &["pipeline_100k_one_sync", "pipeline_100k_sync_per_1000"],
        run: long_pipeline::run,
    },
    Group { names: &[memory::STREAM, memory::VALUE], run: memory::run },
    Group { names: &["repeatable"], run: repeatable::run },
    Group { names: &["copy_in_binary"], run: copy::copy_in },
    Group { names: &["copy_out_binary"], run: copy::copy_out },
    Group { names: &[pool_select::NAME], run: pool_select::run },
    Group { names: &[pool_select::MIXED], run: pool_select::mixed },
    Group { names: &[pool_locks::NAME], run: pool_locks::run },
    Group { names: &[neighbours::NAME], run: neighbours::run },
    Group { names: &["checkout_return"], run: checkout::run },
    Group { names: &["checkout_waiters"], run: checkout_waiters::run },
    Group { names: &[session_reset::NAME], run: session_reset::run },
    Group { names: &["prepared_join"], run: prepared_join::run },
    Group { names: &["chatty_transaction_trips"], run: chatty::run },
    Group { names: &["cancel_10000"], run: cancels::run },
    Group { names: &["overload_rss"], run: overload::run },
    Group { names: &["kill_1000_in_flight"], run: kill::run },
    Group { names: &["chaos"], run: chaos::run },
    Group { names: &["failover"], run: failover::run },
    Group { names: &[replicas::RATE, replicas::GUARD], run: replicas::run },
    Group { names: &[replica_stale::NAME], run: replica_stale::run },
    Group { names: &["chaos_sessions"], run: chaos_sessions::run },
    Group { names: &["engine_depth"], run: engine_depth::run },
    Group { names: &["redis_1000"], run: redis::thousand },
    Group { names: &["redis_100"], run: redis::hundred },
    Group { names: &["redis_sequential"], run: redis::sequential },
    Group { names: &["redis_cached"], run: redis::cached::run },
    Group { names: &["redis_depth"], run: redis::depth },
    Group { names: &[redis::stream::NAME], run: redis::stream::run },
    Group { names: &["redis_closed_loop"], run: redis::closed_loop },
    Group { names: &["redis_large_values"], run: redis::large_values },
    Group { names: &["redis_chaos"], run: chaos::redis },
    Group { names: &["redis_cluster"], run: chaos::redis_cluster },
    Group { names: &["redis_crashes"], run: chaos::redis_crashes },
    Group { names: &[redis_sentinel::NAME], run: redis_sentinel::run },
    Group { names: &["tool_cost"], run: tool_cost::run },
    Group { names: &[profile::SELECT], run: profile::select },
    Group { names: &[profile::CLIENTS], run: profile::clients },
    Group { names: &["concurrency"], run: concurrency::run },
    Group { names: &["proxy_delay_error", "proxy_throughput"], run: proxy::run },
    Group { names: &["floor_select_100_sync_each"], run: floor::select_100 },
    Group { names: &["floor_select_100_one_sync"], run: floor::one_sync },
    Group { names: &["floor_select_sequential"], run: floor::sequential },
    Group { names: &["floor_rows_100k"], run: floor::rows_100k },
    Group { names: &["floor_copy_in_binary"], run: floor::copy_in },
    Group { names: &["floor_copy_out_binary"], run: floor::copy_out },
    Group { names: &["floor_redis_1000"], run: floor::redis_1000 },
    Group { names: &[counted::NAME], run: counted::run },
];
