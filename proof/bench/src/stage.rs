//! The server that everything is measured on, and connections to it.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use onetrip_lab::postgres::{Options, PrivatePostgres};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};

use crate::item;

/// A database with the tables in it.
#[derive(Debug)]
pub struct Stage {
    pub server: Server,
    /// None where another process has started the server.
    _started: Option<PrivatePostgres>,
}

/// Where a private server is, as one process tells another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Server {
    url: String,
    port: u16,
    user: String,
    password: String,
    version: String,
}

impl Server {
    pub fn of(server: &PrivatePostgres) -> Server {
        Server {
            url: server.url(),
            port: server.port(),
            user: server.user().to_owned(),
            password: server.password().to_owned(),
            version: server.version().to_owned(),
        }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn user(&self) -> &str {
        &self.user
    }

    pub fn password(&self) -> &str {
        &self.password
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    /// The same server with a new database, empty, in the place of one of this name.
    async fn with_database(&self, name: &str) -> Result<Server> {
        let peer = peer_at(&self.url).await?;
        peer.batch_execute(&format!("drop database if exists {name} with (force)")).await?;
        peer.batch_execute(&format!("create database {name}")).await?;
        let (server, _) = self.url.rsplit_once('/').context("the server's URL has no database")?;
        Ok(Server { url: format!("{server}/{name}"), ..self.clone() })
    }
}

/// Beside those of a fast lab server: what would disturb a round, or make one unlike the next.
const SETTINGS: [(&str, &str); 6] = [
    ("fsync", "off"),
    ("jit", "off"),
    ("synchronous_commit", "off"),
    ("autovacuum", "off"),
    ("shared_buffers", "256MB"),
    ("max_wal_size", "4GB"),
];

impl Stage {
    pub fn set() -> Result<Stage> {
        let started = start()?;
        let stage = Stage { server: Server::of(&started), _started: Some(started) };
        stage.fill()?;
        Ok(stage)
    }

    /// On a server that is there, in a database of this name: what else is measured there has another.
    pub fn set_on(server: &Server, database: &str) -> Result<Stage> {
        let server = one_thread()?.block_on(server.with_database(database));
        let server = server.context("cannot make a database")?;
        let stage = Stage { server, _started: None };
        stage.fill()?;
        Ok(stage)
    }

    fn fill(&self) -> Result<()> {
        one_thread()?
            .block_on(async {
                let peer = self.peer().await?;
                peer.batch_execute(item::CREATE).await?;
                peer.batch_execute("vacuum analyze item").await?;
                peer.batch_execute(ACCOUNTS).await?;
                anyhow::Ok(())
            })
            .context("cannot fill the tables")
    }

    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.server.port()))
    }

    pub fn settings(&self) -> String {
        let settings: Vec<_> =
            SETTINGS.iter().map(|(name, value)| format!("{name}={value}")).collect();
        settings.join(", ")
    }

    /// Our client.
    pub async fn ours(&self) -> Result<onetrip::Client> {
        ours_at(&self.server.url()).await
    }

    /// Our client, by way of a proxy.
    pub async fn ours_through(&self, proxy: SocketAddr) -> Result<onetrip::Client> {
        ours_at(&self.url_through(proxy)).await
    }

    /// tokio-postgres. It sets TCP_NODELAY by itself, as ours does.
    pub async fn peer(&self) -> Result<tokio_postgres::Client> {
        peer_at(&self.server.url()).await
    }

    /// tokio-postgres, by way of a proxy.
    pub async fn peer_through(&self, proxy: SocketAddr) -> Result<tokio_postgres::Client> {
        peer_at(&self.url_through(proxy)).await
    }

    /// The server's URL, by way of a proxy.
    pub fn url_through(&self, proxy: SocketAddr) -> String {
        let direct = format!("@127.0.0.1:{}/", self.server.port());
        self.server.url().replace(&direct, &format!("@{proxy}/"))
    }
}

/// onetrip on a single connection, as the peers are.
pub async fn ours_at(url: &str) -> Result<onetrip::Client> {
    let config: onetrip::Config = url.parse()?;
    let client = onetrip::Client::connect_with(&config.connections_max(1)).await;
    client.context("onetrip cannot connect")
}

async fn peer_at(url: &str) -> Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .context("tokio-postgres cannot connect")?;
    tokio::spawn(connection);
    Ok(client)
}

pub fn start() -> Result<PrivatePostgres> {
    let options = SETTINGS
        .iter()
        .fold(Options::default(), |options, (name, value)| options.setting(*name, *value));
    Ok(PrivatePostgres::start(options)?)
}

/// What rows without another need run on.
pub fn one_thread() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("cannot start tokio")
}

pub fn two_threads() -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start tokio with two threads")
}

/// For the transfer.
const ACCOUNTS: &str = "
    create table account (id int primary key, balance bigint not null);
    insert into account select i, 1000000 from generate_series(1, 100) as i;
    create procedure transfer(source int, target int, amount bigint) language plpgsql as $$
    begin
        update account set balance = balance - amount where id = source;
        update account set balance = balance + amount where id = target;
    end $$;";

/// The round trip of the proxy in front of the transfer.
pub const RTT: Duration = Duration::from_millis(100);
