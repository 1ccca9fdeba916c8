//! A session of one statement, one after the other: one that can leave nothing behind, and one that must
//! be reset before the next user. The peer resets at each checkout, and waits for the answer.

use std::hint::black_box;

use anyhow::{Context, Result};
use deadpool_postgres::{Manager, ManagerConfig, Pool as Deadpool, RecyclingMethod};
use onetrip::{Client, Config};
use onetrip_lab::proxy::{Proxy, ProxyConfig};
use tokio_postgres::NoTls;

use crate::environment::DEADPOOL;
use crate::measure::{Sample, Spread, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

pub const NAME: &str = "session_reset";

/// What a session runs.
const STATEMENTS: [(&str, &str); 2] =
    [("clean", "select 1"), ("touched", "select set_config('onetrip.bench', '1', false)")];

/// Sessions of one round.
const SESSIONS: u32 = 2_000;

/// Sessions of which the trips are counted.
const COUNTED: u32 = 100;

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let proxy = Proxy::start(ProxyConfig::new(stage.addr())).context("cannot start the proxy")?;
    one_thread()?.block_on(async {
        let direct = stage.server.url();
        let far = stage.url_through(proxy.addr());
        let mut rows = Vec::new();
        for (kind, statement) in STATEMENTS {
            let name = format!("{NAME}.{kind}");
            rows.extend(trips(&name, plan, &proxy, &far, statement).await?);
            let (ours, peer) = (ours(&direct).await?, deadpool(&direct)?);
            let each = SESSIONS / plan.shorter;
            let pairs = paired(
                plan,
                progress,
                async |_| timed_sessions(each, async || ours_session(&ours, statement).await).await,
                async |_| timed_sessions(each, async || session(&peer, statement).await).await,
            )
            .await?;
            let bars = Bars { cpu: Some(0.9), time: None };
            let note = "one connection; a session of one statement, one after the other";
            rows.extend(compared(&name, DEADPOOL, &pairs, bars, note));
        }
        Ok(rows)
    })
}

/// A session of one statement makes one trip, whether or not the one before is to be reset.
async fn trips(
    name: &str,
    plan: Plan,
    proxy: &Proxy,
    url: &str,
    statement: &str,
) -> Result<Option<Row>> {
    if plan.side == Side::Peer {
        return Ok(None);
    }
    let ours = ours(url).await?;
    ours_session(&ours, statement).await?;
    proxy.reset_stats();
    for _ in 0..COUNTED {
        ours_session(&ours, statement).await?;
    }
    let ours = proxy.stats().trips as f64 / f64::from(COUNTED);
    let peer = deadpool(url)?;
    session(&peer, statement).await?;
    proxy.reset_stats();
    for _ in 0..COUNTED {
        session(&peer, statement).await?;
    }
    let peers = proxy.stats().trips as f64 / f64::from(COUNTED);
    let row = Row::alone(&format!("{name}.trips"), "trips", Spread::of([ours]), Some(1.0));
    Ok(Some(Row {
        peer: Some(Spread::of([peers]).median),
        peer_version: Some(DEADPOOL.to_owned()),
        holds: Some(ours <= 1.0),
        ..row
    }))
}

async fn timed_sessions(each: u32, run: impl AsyncFn() -> Result<()>) -> Result<Sample> {
    timed(u64::from(each), async {
        for _ in 0..each {
            run().await?;
        }
        Ok(u64::from(each))
    })
    .await
}

async fn ours(url: &str) -> Result<Client> {
    let config: Config = url.parse()?;
    let client = Client::connect_with(&config.connections_max(1)).await;
    client.context("onetrip cannot connect")
}

async fn ours_session(client: &Client, statement: &str) -> Result<()> {
    let session = client.session().await?;
    black_box(session.query_one(statement, &[]).await?);
    Ok(())
}

fn deadpool(url: &str) -> Result<Deadpool> {
    let config = ManagerConfig { recycling_method: RecyclingMethod::Clean };
    let manager = Manager::from_config(url.parse()?, NoTls, config);
    Deadpool::builder(manager).max_size(1).build().context("deadpool cannot be built")
}

async fn session(pool: &Deadpool, statement: &str) -> Result<()> {
    let held = pool.get().await?;
    let statement = held.prepare_cached(statement).await?;
    black_box(held.query_one(&statement, &[]).await?);
    Ok(())
}
