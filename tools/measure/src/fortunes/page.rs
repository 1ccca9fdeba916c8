//! The web server with its page, and the load.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::available_parallelism;

use onetrip::{Client, Config};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinError};

use super::rows::select;
use super::serve::{Mode, Site, serve};
use super::threads::Threads;
use super::visitor::Visitor;
use crate::descriptors::make_room;
use crate::error::{Error, Result};
use crate::load::{self, Load, Ran, Snapshot};
use crate::meter::set_aside;

/// Connections to the database, in every mode.
pub const CONNECTIONS_DEFAULT: usize = 10;

/// A web server with the page, and the threads that load it.
///
/// The server has as many threads as there are processors, and the load half as many. Dropping it
/// stops both and closes all their connections, a moment later; [`stop`](Page::stop) waits for
/// that.
#[derive(Debug)]
pub struct Page {
    client: Client,
    server: SocketAddr,
    connections: usize,
    /// Dropping it stops the server.
    stop: oneshot::Sender<()>,
    web: Threads,
    http: Threads,
}

impl Page {
    /// Connects to the database, by at most so many connections, and serves the page on 127.0.0.1,
    /// at a port that is free. The table is that of [`create`](super::create) in this schema.
    ///
    /// # Errors
    /// The database can't be reached, has no such table, or the system has no port, thread or file
    /// left.
    pub async fn start(
        config: &Config,
        schema: &str,
        mode: Mode,
        connections: usize,
    ) -> Result<Page> {
        let processors = available_parallelism().map_or(1, usize::from);
        let web = Threads::start("onetrip-web", processors, || ())?;
        let http = Threads::start("onetrip-http", processors.div_ceil(2), set_aside)?;
        let config = config.clone().connections_max(connections).connections_min(connections);
        let (stop, stopped) = oneshot::channel();
        let opened = web.spawn(open(config, select(schema), mode, stopped));
        let (client, server) = opened.await.map_err(crashed)??;
        Ok(Page { client, server, connections, stop, web, http })
    }

    /// The page's URL, valid while this page lives.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.server, super::serve::PATH)
    }

    /// Trips to the database so far.
    pub fn trips(&self) -> u64 {
        self.client.metrics().counts.trips
    }

    /// Asks for the page over so many HTTP connections, each one request at a time. They are opened
    /// first. An operation is a request; one that is answered by another status than 200 is an
    /// error by that status, `lost` or `timeout` one without an answer.
    ///
    /// Dropping the future ends it.
    ///
    /// # Errors
    /// A page differs from the expected one, or the connections can't be opened.
    pub async fn load(
        &self,
        tasks: usize,
        load: Load,
        watch: &(dyn Fn(Snapshot) + Sync),
    ) -> Result<Ran> {
        make_room((2 * tasks + self.connections + SPARE) as u64)?;
        let (tell, mut told) = watch::channel(Snapshot::default());
        let mut visits = self.http.spawn(visit(self.server, tasks, load, tell));
        let _ends = Ends(visits.abort_handle());
        loop {
            tokio::select! {
                ended = &mut visits => {
                    watch(*told.borrow());
                    return ended.map_err(crashed)?;
                }
                Ok(()) = told.changed() => watch(*told.borrow_and_update()),
            }
        }
    }

    /// Stops the server and closes its connections, and returns when that is done: after two
    /// seconds at the latest.
    pub async fn stop(self) {
        let Page { client, stop, web, http, .. } = self;
        http.stop().await;
        drop((stop, client));
        web.stop().await;
    }
}

/// Open files besides connections, for example those of the runtimes.
const SPARE: usize = 64;

/// Aborts a task when dropped.
struct Ends(AbortHandle);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn open(
    config: Config,
    sql: String,
    mode: Mode,
    stop: oneshot::Receiver<()>,
) -> Result<(Client, SocketAddr)> {
    let client = Client::connect_with(&config).await?;
    let statement = client.prepare(&sql).await?;
    let failed = |error| Error::new(format!("can't listen on 127.0.0.1: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
    let server = listener.local_addr().map_err(failed)?;
    tokio::spawn(serve(listener, Site { client: client.clone(), statement, mode }, stop));
    Ok((client, server))
}

async fn visit(
    server: SocketAddr,
    tasks: usize,
    load: Load,
    tell: watch::Sender<Snapshot>,
) -> Result<Ran> {
    let mut visitors = Vec::with_capacity(tasks);
    for _ in 0..tasks {
        visitors.push(Visitor::connect(server).await?);
    }
    let watch = |snapshot| {
        tell.send_replace(snapshot);
    };
    load::run(visitors, load, &watch).await
}

fn crashed(error: JoinError) -> Error {
    Error::new(format!("the page ended in a panic ({error}): this is a defect of onetrip"))
}
