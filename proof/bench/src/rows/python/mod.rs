//! onetrip for Python beside the clients for Python, each in a process of its own
//! (proof/bench/python).

pub mod setup;

mod arrow;
mod cancels;
mod in_flight;
mod locks;
mod many;
mod package;
mod pool;
mod redis;
mod redis_cached;
mod replicas;
mod rows;
mod sequential;
mod shapes;
mod sqlalchemy;

use anyhow::{Context, Result};

use super::Group;
use super::process::{Language, Task};
use super::turns::Runner;
use crate::report::{Bars, Row};
use crate::stage::{Stage, one_thread};

pub const GROUPS: [Group; 17] = [
    Group { names: &[pool::THOUSAND], run: pool::thousand },
    Group { names: &[in_flight::NAME], run: in_flight::run },
    Group { names: &[sequential::NAME], run: sequential::run },
    Group { names: &[pool::AWAY], run: pool::away },
    Group { names: &[super::pool_locks::PYTHON], run: locks::run },
    Group { names: &[locks::MIXED], run: locks::mixed },
    Group { names: &[sqlalchemy::NAME], run: sqlalchemy::run },
    Group { names: &[rows::NAME], run: rows::run },
    Group { names: &[arrow::NAME], run: arrow::run },
    Group { names: &[many::NAME], run: many::run },
    Group { names: &[shapes::NAME], run: shapes::run },
    Group { names: &[cancels::NAME], run: cancels::run },
    Group { names: &[redis::NAME], run: redis::run },
    Group { names: &[redis_cached::NAME], run: redis_cached::run },
    Group { names: &[replicas::RATE, replicas::GUARD], run: replicas::run },
    Group { names: &[replicas::STALE], run: replicas::stale },
    Group { names: &[package::NAME], run: package::run },
];

/// Our faces that have asyncpg's calls, or their like: what rows call them, and their drivers.
const OURS: [(&str, &str); 2] = [("drop_in", "onetrip_asyncpg"), ("native", "onetrip")];

/// Rows that are there where the machine has Python, and pip gets the peers.
fn with_python(name: &str, run: impl FnOnce() -> Result<Vec<Row>>) -> Result<Vec<Row>> {
    match setup::prepare() {
        Err(error) => Ok(vec![Row::skipped(name, &format!("{error:#}"))]),
        Ok(()) => run(),
    }
}

fn task(driver: &'static str, work: &'static str, warmth: u32) -> Task {
    Task {
        language: Language::Python,
        driver,
        work,
        in_flight: 1,
        connections: 1,
        pipeline: false,
        named: false,
        warmth,
    }
}

/// Both of our faces beside asyncpg: the bars hold for either.
fn beside_asyncpg(task: impl Fn(&'static str) -> Task, bars: Bars) -> Vec<Runner> {
    let ours = OURS.iter().map(|(short, driver)| Runner::ours(short, task(driver)));
    let ours = ours.filter(|it| can(&it.task));
    ours.chain([Runner::peer("asyncpg", task("asyncpg"), bars)]).collect()
}

/// Whether a client has what the work asks for: a drop-in may have no COPY.
fn can(task: &Task) -> bool {
    let copies = matches!(task.work, "copy_in" | "copyfrom");
    !copies || task.driver != "onetrip_asyncpg" || setup::drop_in_copies()
}

/// The tables that some of these rows read and write.
fn with_tables(stage: &Stage) -> Result<()> {
    one_thread()?
        .block_on(async {
            let client = stage.peer().await?;
            client.batch_execute(TABLES).await?;
            client
                .batch_execute("vacuum analyze python_numbers, python_values, python_million")
                .await?;
            anyhow::Ok(())
        })
        .context("cannot fill the tables for Python")
}

const TABLES: &str = "
    create table if not exists python_numbers (
        id int primary key, big bigint not null, small int not null, name text not null,
        place text not null, note text not null
    );
    create table if not exists python_values (
        at timestamptz primary key, local timestamp not null, price numeric not null,
        rate numeric not null, key uuid not null, other uuid not null
    );
    create table if not exists python_million (
        id int primary key, big bigint not null, price float8 not null, name text not null,
        at timestamptz not null, ok bool not null
    );
    create table if not exists python_bytes (b bytea);
    create table if not exists python_arrays (a int[]);
    create unlogged table if not exists python_shape (
        a int, b int, c int, d text, e float, f int, g text
    );
    truncate python_numbers, python_values, python_million, python_bytes, python_arrays,
        python_shape;
    insert into python_numbers
        select i, i * 10000000019, i % 1000, 'item number ' || i, 'shelf ' || i % 100, 'a note'
        from generate_series(1, 100000) as i;
    insert into python_values
        select timestamptz '2024-01-01 00:00Z' + i * interval '1.001 second',
            timestamp '2024-01-01 00:00' + i * interval '1.001 second', i * 0.25, i * 1.000001,
            md5(i::text)::uuid, md5(i || 'other')::uuid
        from generate_series(1, 100000) as i;
    insert into python_million
        select i, i * 10000000019, i * 0.25, 'item number ' || i,
            timestamptz '2024-01-01 00:00Z' + i * interval '1 second', i % 3 = 0
        from generate_series(1, 1000000) as i;
    insert into python_bytes select repeat('a', 1000)::bytea from generate_series(1, 100);
    insert into python_arrays
        select (select array_agg(i) from generate_series(1, 1000) as i)
        from generate_series(1, 10);";
