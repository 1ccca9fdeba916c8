//! onetrip for Node.js beside the clients for Node, each in a process of its own (proof/bench/js).

pub mod setup;

mod floor;
mod in_flight;
mod locks;
mod neighbours;
mod one_sync;
mod orm;
mod package;
mod proposal;
mod redis;
mod redis_cached;
mod replicas;
mod select;

pub use setup::directory;

use anyhow::{Context, Result};

use super::Group;
use crate::report::Row;
use crate::stage::{Stage, one_thread};

pub const GROUPS: [Group; 22] = [
    Group { names: &[in_flight::HUNDRED], run: in_flight::hundred },
    Group { names: &[in_flight::THOUSAND], run: in_flight::thousand },
    Group { names: &[in_flight::POOL], run: in_flight::pool },
    Group { names: &[super::pool_locks::NODE], run: locks::run },
    Group { names: &[locks::MIXED], run: locks::mixed },
    Group { names: &[neighbours::NAME], run: neighbours::run },
    Group { names: &[select::SEQUENTIAL], run: select::sequential },
    Group { names: &[select::ROWS_1000], run: select::rows_1000 },
    Group { names: &[select::ROWS_100000], run: select::rows_100000 },
    Group { names: &proposal::NAMES, run: proposal::run },
    Group { names: &[one_sync::NAME], run: one_sync::run },
    Group { names: &[orm::NAME], run: orm::run },
    Group { names: &[redis::NAME], run: redis::run },
    Group { names: &[redis_cached::NAME], run: redis_cached::run },
    Group { names: &[replicas::RATE, replicas::GUARD], run: replicas::run },
    Group { names: &[replicas::STALE], run: replicas::stale },
    Group { names: &[floor::HUNDRED], run: floor::hundred },
    Group { names: &[floor::ONE_SYNC], run: floor::one_sync },
    Group { names: &[floor::SEQUENTIAL], run: floor::sequential },
    Group { names: &[floor::ROWS_100000], run: floor::rows_100000 },
    Group { names: &[floor::REDIS_1000], run: floor::redis_1000 },
    Group { names: &[package::NAME], run: package::run },
];

/// Rows that are there where the machine has Node, and npm gets the peers.
pub fn with_node(name: &str, run: impl FnOnce() -> Result<Vec<Row>>) -> Result<Vec<Row>> {
    match setup::prepare() {
        Err(error) => Ok(vec![Row::skipped(name, &format!("{error:#}"))]),
        Ok(()) => run(),
    }
}

/// The table that these rows select from: the types that most tables have.
pub fn with_items(stage: &Stage) -> Result<()> {
    one_thread()?
        .block_on(async {
            let client = stage.peer().await?;
            client.batch_execute(ITEMS).await?;
            client.batch_execute("vacuum analyze node_item").await?;
            anyhow::Ok(())
        })
        .context("cannot fill the table for Node")
}

const ITEMS: &str = "
    create table if not exists node_item (
        id int primary key, big bigint not null, name text not null, at timestamptz not null,
        ok bool not null, price numeric not null
    );
    truncate node_item;
    insert into node_item
        select i, i * 10000000019, 'item number ' || i,
            timestamptz '2024-01-01 00:00Z' + i * interval '1.001 second', i % 3 = 0, i * 0.25
        from generate_series(1, 100000) as i;
    create unlogged table if not exists node_moment (
        id int primary key, at timestamp not null
    ) with (fillfactor = 20);
    truncate node_moment;
    insert into node_moment select i, timestamp '2024-01-01' from generate_series(1, 1000) as i;";
