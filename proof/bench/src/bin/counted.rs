//! What an operation takes that can be counted: allocations and their bytes, as this program prints
//! them, and the calls of the system and the instructions that others see it take: `rows/counted.rs`
//! beside another build, and the tests of `proof/counted` beside a table. In a program of its own,
//! since an allocator that counts would be part of what the others measure.

use anyhow::{Context, Result, bail};
use futures_util::future::try_join_all;
use onetrip::redis::commands::*;
use onetrip::types::Type;
use onetrip::{BinaryCopyIn, BinaryCopyOut, Client, Config, Statement, redis};

/// So many queries at once.
const BURST: u32 = 100;

/// One row for each operation, of these types.
const ROWS: &str =
    "select i, 'item number ' || i, i * 0.25::float8 from generate_series(1, $1) as i";
/// A table of this program alone.
const TABLE: &str = "drop table if exists counted_in;
    create unlogged table counted_in (number int, name text, price float8)";
const IN: &str = "copy counted_in from stdin binary";
const TYPES: [Type; 3] = [Type::INT4, Type::TEXT, Type::FLOAT8];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [work, url, operations] = &arguments[..] else { bail!("counted WORK URL OPERATIONS") };
    let operations: u32 = operations.parse().context("OPERATIONS is no number")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let on = runtime.block_on(On::connect(work, url))?;
    // Buffers and tables have grown by then.
    runtime.block_on(on.run(work, 300))?;
    let mut outcome = Ok(());
    let counted =
        allocation_counter::measure(|| outcome = runtime.block_on(on.run(work, operations)));
    outcome?;
    println!("[{}, {}]", counted.count_total, counted.bytes_total);
    Ok(())
}

enum On {
    Postgres(Client, Statement),
    Redis(redis::Client),
}

impl On {
    async fn connect(work: &str, url: &str) -> Result<On> {
        if work.starts_with("redis") {
            return Ok(On::Redis(redis::Client::connect(url).await?));
        }
        let config: Config = url.parse()?;
        let connections = if work == "pool_query" { 10 } else { 1 };
        let client = Client::connect_with(&config.connections_max(connections)).await?;
        if work == "copy_in" {
            client.session().await?.script(TABLE).await?;
        }
        let statement = client.prepare("select $1::int").await?;
        Ok(On::Postgres(client, statement))
    }

    async fn run(&self, work: &str, operations: u32) -> Result<()> {
        match (self, work) {
            (On::Postgres(client, statement), "query" | "pool_query") => {
                for number in 0..operations as i32 {
                    client.query_one(statement, &[&number]).await?;
                }
            }
            (On::Postgres(client, statement), "burst") => {
                let numbers: Vec<i32> = (0..BURST as i32).collect();
                for _ in 0..operations / BURST {
                    let ask = |number: &i32| client.query_one(statement, &[number]);
                    let asked: Vec<_> = numbers.iter().map(ask).collect();
                    try_join_all(asked).await?;
                }
            }
            (On::Postgres(client, statement), "transaction") => {
                for number in 0..operations as i32 {
                    let transaction = client.begin().await?;
                    transaction.query_one(statement, &[&number]).await?;
                    transaction.commit().await?;
                }
            }
            (On::Postgres(client, _), "rows") => {
                let rows = client.query(ROWS, &[&(operations as i32)]).await?;
                for row in &rows {
                    let _: (i32, &str, f64) = (row.get(0), row.get(1), row.get(2));
                }
            }
            (On::Postgres(client, _), "copy_in") => {
                let mut copy = BinaryCopyIn::new(client.copy_in(IN).await?, &TYPES);
                for number in 0..operations as i32 {
                    copy.row(&[&number, &"a box of screws", &f64::from(number)]).await?;
                }
                copy.finish().await?;
            }
            (On::Postgres(client, _), "copy_out") => {
                let out = format!(
                    "copy (select i, 'a box of screws', i * 0.25::float8 from \
                     generate_series(1, {operations}) as i) to stdout binary"
                );
                let mut copy = BinaryCopyOut::new(client.copy_out(&out).await?, &TYPES)?;
                while let Some(row) = copy.try_next().await? {
                    let _: (i32, &str, f64) = (row.get(0), row.get(1), row.get(2));
                }
            }
            (On::Redis(client), "redis_set") => {
                for _ in 0..operations {
                    client.set("counted", "a value").await?;
                }
            }
            (On::Redis(client), "redis_burst") => {
                for _ in 0..operations / BURST {
                    let asked = (0..BURST).map(|_| client.get::<Option<bytes::Bytes>>("counted"));
                    try_join_all(asked).await?;
                }
            }
            (On::Redis(client), "redis_get") => {
                for _ in 0..operations {
                    client.get::<Option<bytes::Bytes>>("counted").await?;
                }
            }
            _ => bail!("nothing is called {work}"),
        }
        Ok(())
    }
}
