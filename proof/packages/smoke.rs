//! A user's program on the published crate. scripts/package runs it on private servers.

use std::time::Duration;

use onetrip::redis::commands::*;
use onetrip::{Client, Error, redis};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    postgres(&std::env::var("ONETRIP_TEST_POSTGRES")?).await?;
    match std::env::var("ONETRIP_TEST_REDIS") {
        Ok(url) => keys(&url).await?,
        Err(_) => println!("skipped: Redis, since there is no server here"),
    }
    Ok(())
}

async fn postgres(url: &str) -> Result<(), Error> {
    let client = Client::connect(url).await?;
    let sum = client.query_one("select 1 + $1::int", &[&2]);
    let name = client.query_one("select 'a' || $1", &[&"b"]);
    let (sum, name): (i32, String) = (sum.await?.get(0), name.await?.get(0));
    assert_eq!((sum, name.as_str()), (3, "ab"));

    let mut transfer = client.pipeline();
    let first = transfer.query_one("select 1", &[]);
    let second = transfer.query_one("select 2", &[]);
    transfer.finish().await?;
    let (first, second): (i32, i32) = (first.await?.get(0), second.await?.get(0));
    assert_eq!((first, second), (1, 2));

    let error = client.query("select nothing", &[]).await.expect_err("there is no such column");
    assert_eq!(error.outcome(), onetrip::Outcome::Rejected);
    client.close(Duration::from_secs(5)).await?;
    println!("Rust: PostgreSQL answers");
    Ok(())
}

async fn keys(url: &str) -> Result<(), Error> {
    let client = redis::Client::connect(url).await?;
    client.set("smoke", "on").await?;
    let value: String = client.get("smoke").await?;
    assert_eq!(value, "on");
    println!("Rust: Redis answers");
    Ok(())
}
