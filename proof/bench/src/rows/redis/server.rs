//! The private server that these rows are measured on, with all keys in it.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use onetrip_lab::redis::{Installation, Server, Settings};

use super::clients::Ours;
use super::load;
use crate::report::Row;
use crate::stage::one_thread;

/// Nothing is kept on disk: the lab's servers never do that.
pub fn start() -> Result<Server> {
    let server = Server::start(Settings::default())?;
    one_thread()?.block_on(async {
        let client = Ours::connect(&server.url()).await?;
        load::fill(client).await
    })?;
    Ok(server)
}

/// Rows that are there where the machine has a server.
pub fn with_server(name: &str, run: impl FnOnce(&Server) -> Result<Vec<Row>>) -> Result<Vec<Row>> {
    if Installation::look()?.is_none() {
        return Ok(vec![Row::skipped(name, "there is no redis-server or valkey-server")]);
    }
    run(&start().context("cannot start a private Redis server")?)
}

/// What runs, for notes.
pub fn named(server: &Server) -> String {
    format!("{} {}", server.installation().product(), server.version())
}

/// The server's URL, by way of a proxy.
pub fn through(server: &Server, proxy: SocketAddr) -> String {
    let direct = format!("@127.0.0.1:{}/", server.port());
    server.url().replace(&direct, &format!("@{proxy}/"))
}
