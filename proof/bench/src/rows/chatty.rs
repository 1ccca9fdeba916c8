//! A transaction as most programs write it: begin; k statements; commit, each awaited. Its trips, and
//! its time where the server is a millisecond away.

use std::time::Duration;

use anyhow::{Context, Result};
use onetrip_lab::proxy::{Link, Proxy, ProxyConfig};

use super::in_flight;
use crate::environment::TOKIO_POSTGRES;
use crate::item::SELECT_ONE;
use crate::measure::{Sample, Spread, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

const NAME: &str = "chatty_transaction_trips";

/// One way.
const LATENCY: Duration = Duration::from_millis(1);

/// Statements of a transaction.
const STATEMENTS: [u32; 3] = [1, 3, 10];

/// Transactions of one round.
const TRANSACTIONS: u32 = 8;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let link = Link::delayed(LATENCY);
    let config = ProxyConfig { up: link, down: link, ..ProxyConfig::new(stage.addr()) };
    let proxy = Proxy::start(config).context("cannot start the proxy")?;
    one_thread()?.block_on(async {
        let ours = Ours::connect(stage, &proxy).await?;
        let mut peer = Peer::connect(stage, &proxy).await?;
        let mut rows = Vec::new();
        for statements in STATEMENTS {
            let name = format!("{NAME}.statements_{statements}");
            // Once before, so that the statements are known on the connection.
            ours.transaction(statements, 0).await?;
            peer.transaction(statements, 0).await?;
            let (mut our_trips, mut peers_trips) = (None, None);
            if plan.side != Side::Peer {
                proxy.reset_stats();
                ours.transaction(statements, 0).await?;
                our_trips = Some(proxy.stats().trips);
            }
            if plan.side != Side::Ours {
                proxy.reset_stats();
                peer.transaction(statements, 0).await?;
                peers_trips = Some(proxy.stats().trips);
            }
            rows.extend(our_trips.map(|trips| trips_row(&name, statements, trips, peers_trips)));
            rows.extend(times(plan, progress, &name, statements, (&ours, &mut peer)).await?);
        }
        Ok(rows)
    })
}

/// The bar is met by exactly one trip more than there are statements.
fn trips_row(name: &str, statements: u32, ours: u64, peer: Option<u64>) -> Row {
    let bar = f64::from(statements + 1);
    Row {
        peer: peer.map(|trips| trips as f64),
        peer_version: Some(TOKIO_POSTGRES.to_owned()),
        holds: Some(ours as f64 == bar),
        ..Row::alone(name, "trips", Spread::of([ours as f64]), Some(bar))
    }
}

async fn times(
    plan: Plan,
    progress: &Progress,
    name: &str,
    statements: u32,
    (ours, peer): (&Ours, &mut Peer),
) -> Result<Vec<Row>> {
    let pairs = paired(
        plan,
        progress,
        async |round| {
            round_of(async |number| ours.transaction(statements, first(round, number)).await).await
        },
        async |round| {
            round_of(async |number| peer.transaction(statements, first(round, number)).await).await
        },
    )
    .await?;
    let note = "a transaction over a line with a latency of 1 ms each way";
    // The proxy spins in this process, so its CPU time says nothing.
    let rows = compared(name, TOKIO_POSTGRES, &pairs, Bars::default(), note);
    Ok(rows.into_iter().filter(|row| row.name.ends_with(".time")).collect())
}

fn first(round: usize, number: u32) -> u32 {
    round as u32 * 1000 + number * 10
}

async fn round_of(mut transaction: impl AsyncFnMut(u32) -> Result<u64>) -> Result<Sample> {
    timed(TRANSACTIONS.into(), async {
        let mut sum = 0_u64;
        for number in 0..TRANSACTIONS {
            sum = sum.wrapping_add(transaction(number).await?);
        }
        Ok(sum)
    })
    .await
}

struct Ours {
    client: onetrip::Client,
    statement: onetrip::Statement,
}

impl Ours {
    async fn connect(stage: &Stage, proxy: &Proxy) -> Result<Ours> {
        let client = stage.ours_through(proxy.addr()).await?;
        let statement = client.prepare(SELECT_ONE).await?;
        Ok(Ours { client, statement })
    }

    async fn transaction(&self, statements: u32, first: u32) -> Result<u64> {
        let mut sum = 0_u64;
        let transaction = self.client.begin().await?;
        for number in first..first + statements {
            let row = transaction.query_one(&self.statement, &[&in_flight::id(number)]).await?;
            sum = sum.wrapping_add(two_columns(row.get(0), row.get(1)));
        }
        transaction.commit().await?;
        Ok(sum)
    }
}

struct Peer {
    client: tokio_postgres::Client,
    statement: tokio_postgres::Statement,
}

impl Peer {
    async fn connect(stage: &Stage, proxy: &Proxy) -> Result<Peer> {
        let client = stage.peer_through(proxy.addr()).await?;
        let statement = client.prepare(SELECT_ONE).await?;
        Ok(Peer { client, statement })
    }

    async fn transaction(&mut self, statements: u32, first: u32) -> Result<u64> {
        let mut sum = 0_u64;
        let transaction = self.client.transaction().await?;
        for number in first..first + statements {
            let row = transaction.query_one(&self.statement, &[&in_flight::id(number)]).await?;
            sum = sum.wrapping_add(two_columns(row.get(0), row.get(1)));
        }
        transaction.commit().await?;
        Ok(sum)
    }
}

fn two_columns(id: i32, name: &str) -> u64 {
    id as u64 + name.len() as u64
}
