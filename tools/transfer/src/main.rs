//! A money transfer in three ways, on a private server that is 100 ms away: what `make demo` shows
//! while the rest of it is built. It depends on little, so it is there first.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use onetrip::{Client, Session};
use onetrip_lab::postgres::{Options, PrivatePostgres};
use onetrip_lab::proxy::{Proxy, ProxyConfig};

const RTT: Duration = Duration::from_millis(100);

/// Each way is shown by the median of so many.
const TIMES: usize = 3;

const TABLE: &str = "create table account (id int primary key, balance int not null);
    insert into account values (1, 1000), (2, 1000)";
const DEBIT: &str = "update account set balance = balance - 5 where id = 1";
const CREDIT: &str = "update account set balance = balance + 5 where id = 2";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> std::process::ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let shown = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(show()));
    match shown {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("onetrip-transfer: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

async fn show() -> Result<()> {
    let server = PrivatePostgres::start(Options::default())?;
    Client::connect(&server.url()).await?.session().await?.script(TABLE).await?;
    let near = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
    let line = Proxy::start(ProxyConfig::new(near).with_rtt(RTT))?;
    let url = server.url().replace(&near.to_string(), &line.addr().to_string());
    let client = Client::connect(&url).await?;
    let session = client.session().await?;
    println!("A money transfer, PostgreSQL {}, {} ms away:\n", server.version(), RTT.as_millis());
    let ways = ["BEGIN, 2 UPDATEs, COMMIT, each awaited", "a transaction", "a pipeline"];
    for (number, way) in ways.into_iter().enumerate() {
        let mut taken = Vec::new();
        for _ in 0..=TIMES {
            line.reset_stats();
            let start = Instant::now();
            match number {
                0 => one_by_one(&session).await?,
                1 => in_a_transaction(&client).await?,
                _ => in_a_pipeline(&client).await?,
            }
            taken.push((start.elapsed().as_millis(), line.stats().trips));
        }
        // The first one has prepared the statements.
        taken.remove(0);
        taken.sort_unstable();
        let (millis, trips) = taken[TIMES / 2];
        println!("{way:40}{millis:5} ms {trips:3} trip{}", if trips == 1 { "" } else { "s" });
    }
    drop(session);
    client.close(Duration::from_secs(10)).await?;
    Ok(())
}

async fn one_by_one(session: &Session) -> Result<()> {
    for statement in ["begin", DEBIT, CREDIT, "commit"] {
        session.execute(statement, &[]).await?;
    }
    Ok(())
}

/// BEGIN waits for the first statement, and leaves with it.
async fn in_a_transaction(client: &Client) -> Result<()> {
    let transaction = client.begin().await?;
    transaction.execute(DEBIT, &[]).await?;
    transaction.execute(CREDIT, &[]).await?;
    Ok(transaction.commit().await?)
}

async fn in_a_pipeline(client: &Client) -> Result<()> {
    let mut pipeline = client.pipeline();
    let debited = pipeline.execute(DEBIT, &[]);
    let credited = pipeline.execute(CREDIT, &[]);
    pipeline.finish().await?;
    debited.await?;
    credited.await?;
    Ok(())
}
