//! What an operation takes that can be counted: allocations and their bytes, as this program prints
//! them, and the calls of the system that `rows/counted.rs` sees it make. In a program of its own,
//! since an allocator that counts would be part of what the others measure.

use anyhow::{Context, Result, bail};
use futures_util::future::try_join_all;
use onetrip::redis::commands::*;
use onetrip::{Client, Config, Statement, redis};

/// So many queries at once.
const BURST: u32 = 100;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [work, url, operations] = &arguments[..] else { bail!("counted WORK URL OPERATIONS") };
    let operations: u32 = operations.parse().context("OPERATIONS is no number")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let on = runtime.block_on(On::connect(work, url))?;
    // Buffers and tables have grown by then.
    runtime.block_on(on.run(work, 1_000))?;
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
        if work == "redis_get" {
            return Ok(On::Redis(redis::Client::connect(url).await?));
        }
        let config: Config = url.parse()?;
        let connections = if work == "pool_query" { 10 } else { 1 };
        let client = Client::connect_with(&config.connections_max(connections)).await?;
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
