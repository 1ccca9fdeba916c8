//! The pools of the peers, each in its best documented mode: nothing is asked of a connection before
//! it is handed out.

use anyhow::{Context, Result, ensure};
use bb8_postgres::PostgresConnectionManager;
use deadpool_postgres::{Manager, ManagerConfig, Object, RecyclingMethod};
use futures_util::poll;
use onetrip::{Client, Config, Session};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use tokio_postgres::NoTls;

use crate::stage::Stage;

/// Connections of each pool.
pub const CONNECTIONS: usize = 10;

pub type Bb8 = bb8::Pool<PostgresConnectionManager<NoTls>>;

pub async fn ours(stage: &Stage) -> Result<Client> {
    ours_of(stage, CONNECTIONS).await
}

/// A pool of so many connections.
pub async fn ours_of(stage: &Stage, connections: usize) -> Result<Client> {
    let config: Config = stage.server.url().parse()?;
    let client = Client::connect_with(&config.connections_max(connections)).await;
    client.context("onetrip cannot connect")
}

pub fn deadpool(stage: &Stage) -> Result<deadpool_postgres::Pool> {
    deadpool_of(stage, CONNECTIONS)
}

pub fn deadpool_of(stage: &Stage, connections: usize) -> Result<deadpool_postgres::Pool> {
    let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(stage.server.url().parse()?, NoTls, config);
    let pool = deadpool_postgres::Pool::builder(manager).max_size(connections).build();
    pool.context("deadpool cannot be built")
}

pub async fn bb8(stage: &Stage) -> Result<Bb8> {
    let manager = PostgresConnectionManager::new_from_stringlike(stage.server.url(), NoTls)?;
    let pool = bb8::Pool::builder().max_size(CONNECTIONS as u32).test_on_check_out(false);
    pool.build(manager).await.context("bb8 cannot connect")
}

pub async fn sqlx(stage: &Stage) -> Result<sqlx::PgPool> {
    sqlx_of(stage, CONNECTIONS).await
}

pub async fn sqlx_of(stage: &Stage, connections: usize) -> Result<sqlx::PgPool> {
    let options: PgConnectOptions = stage.server.url().parse()?;
    let pool = PgPoolOptions::new().max_connections(connections as u32).test_before_acquire(false);
    let pool = pool.connect_with(options.ssl_mode(PgSslMode::Disable)).await;
    pool.context("sqlx cannot connect")
}

/// A pool that hands out connections, one user each.
pub trait Checkout: Clone + Send + Sync + 'static {
    type Held<'a>: Send
    where
        Self: 'a;

    fn checkout(&self) -> impl Future<Output = Result<Self::Held<'_>>> + Send;

    /// Runs `select 1` there: one trip, without a statement that is kept.
    fn select_1(held: &Self::Held<'_>) -> impl Future<Output = Result<()>> + Send;

    /// The server's process behind it.
    fn process(held: &Self::Held<'_>) -> impl Future<Output = Result<i32>> + Send;
}

/// Opens all connections, and sees that each is held by one alone: no two have the same, none is left
/// for one more, and one that comes back is handed on.
pub async fn opened_exclusively<P: Checkout>(pool: P) -> Result<P> {
    {
        let (mut held, mut processes) = (Vec::new(), Vec::new());
        for _ in 0..CONNECTIONS {
            let connection = pool.checkout().await?;
            processes.push(P::process(&connection).await?);
            held.push(connection);
        }
        processes.sort_unstable();
        processes.dedup();
        ensure!(processes.len() == CONNECTIONS, "a connection was handed out twice");
        let mut more = Box::pin(pool.checkout());
        ensure!(poll!(&mut more).is_pending(), "there are more connections than allowed");
        held.pop();
        drop(more.await?);
    }
    Ok(pool)
}

impl Checkout for Client {
    type Held<'a> = Session;

    async fn checkout(&self) -> Result<Session> {
        Ok(self.session().await?)
    }

    async fn select_1(held: &Self::Held<'_>) -> Result<()> {
        held.query_one("select 1", &[]).await?;
        Ok(())
    }

    async fn process(held: &Self::Held<'_>) -> Result<i32> {
        Ok(held.query_one("select pg_backend_pid()", &[]).await?.get(0))
    }
}

impl Checkout for deadpool_postgres::Pool {
    type Held<'a> = Object;

    async fn checkout(&self) -> Result<Object> {
        Ok(self.get().await?)
    }

    async fn select_1(held: &Self::Held<'_>) -> Result<()> {
        held.simple_query("select 1").await?;
        Ok(())
    }

    async fn process(held: &Self::Held<'_>) -> Result<i32> {
        Ok(held.query_one("select pg_backend_pid()", &[]).await?.get(0))
    }
}

impl Checkout for Bb8 {
    type Held<'a> = bb8::PooledConnection<'a, PostgresConnectionManager<NoTls>>;

    async fn checkout(&self) -> Result<Self::Held<'_>> {
        Ok(self.get().await?)
    }

    async fn select_1(held: &Self::Held<'_>) -> Result<()> {
        held.simple_query("select 1").await?;
        Ok(())
    }

    async fn process(held: &Self::Held<'_>) -> Result<i32> {
        Ok(held.query_one("select pg_backend_pid()", &[]).await?.get(0))
    }
}
