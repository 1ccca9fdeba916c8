//! From a configuration to a ready connection: the addresses are tried in turn, and the login is
//! one trip.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use bytes::BytesMut;
use onetrip_redis::client::sentinel::Role;
use onetrip_redis::scan::ScanLimits;
use onetrip_redis::{Command, Redis};

use super::config::{Config, Protocol, Server};
use super::link::{Engine, Link, PoolSlot, Shared};
use super::login::{self, Spoken};
use super::seat::Seat;
use crate::config::{Settings, SslMode};
use crate::driver::Driver;
use crate::open::{Failure, Peer, Route, open};
use crate::socket::Stream;
use crate::tls::Setup;
use crate::{Error, Kind, Outcome};

/// The server of a pool: one server, or the first that answers of several.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    servers: Vec<Server>,
    /// Whether it is one node of a cluster.
    is_node: bool,
    /// Whether it is a replica of a cluster, for reads.
    pub(crate) reads_replica: bool,
    /// Whether it is for subscriptions by RESP2.
    pub(crate) subscribes: bool,
    /// Whether the server is to tell which keys that were read on it are changed.
    pub(crate) tracks: bool,
    /// Who knows the server, if Sentinels do.
    pub(crate) seat: Option<Arc<dyn Seat>>,
    /// The role that the server must have.
    role: Option<Role>,
}

impl Target {
    pub(crate) fn of(config: &Config) -> Target {
        Target {
            servers: config.servers(),
            is_node: false,
            reads_replica: false,
            subscribes: false,
            tracks: false,
            seat: None,
            role: None,
        }
    }

    /// The server that has a role, as Sentinels say.
    pub(crate) fn seated(config: &Config, seat: Arc<dyn Seat>) -> Target {
        Target { seat: Some(seat), ..Target::of(config) }
    }

    /// The same on this server, which must have this role.
    pub(crate) fn on(&self, host: &str, port: u16, role: Role) -> Target {
        let servers = vec![Server::Tcp { host: host.to_owned(), port }];
        Target { servers, seat: None, role: Some(role), ..self.clone() }
    }

    /// One node of a cluster.
    pub(crate) fn node(host: &str, port: u16, reads_replica: bool) -> Target {
        let server = Server::Tcp { host: host.to_owned(), port };
        Target {
            servers: vec![server],
            is_node: true,
            reads_replica,
            subscribes: false,
            tracks: false,
            seat: None,
            role: None,
        }
    }

    /// Whether it is one node of a cluster.
    pub(crate) fn is_node(&self) -> bool {
        self.is_node
    }

    pub(crate) fn subscriber(&self) -> Target {
        Target { subscribes: true, tracks: false, ..self.clone() }
    }

    /// The same for a connection whose replies are cached.
    pub(crate) fn tracking(&self, tracks: bool) -> Target {
        Target { tracks, ..self.clone() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, server) in self.servers.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            server.fmt(f)?;
        }
        Ok(())
    }
}

/// Connects to the first server that answers, logs in and starts the driver. Dropping the future
/// gives the connection up.
pub(crate) async fn connect(
    config: &Config,
    target: &Target,
    context: &Arc<Shared>,
    pool_slot: PoolSlot,
) -> Result<Arc<Link>, Error> {
    match &target.seat {
        Some(seat) => seat.clone().connect(config, target, context, pool_slot).await,
        None => connect_to(config, target, context, pool_slot).await,
    }
}

/// The same for servers that are known.
pub(crate) async fn connect_to(
    config: &Config,
    target: &Target,
    context: &Arc<Shared>,
    pool_slot: PoolSlot,
) -> Result<Arc<Link>, Error> {
    let mut last = None;
    for server in &target.servers {
        match try_server(config, target, server).await {
            Ok(opened) => return Ok(spawn(opened, config, target, context, pool_slot)),
            Err(error) if is_final(&error) => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::misuse("config", "there is no server to connect to")))
}

/// Whether the error does not pass with time.
pub(crate) fn is_final(error: &Error) -> bool {
    let refused = matches!(error.redis_code(), Some("WRONGPASS" | "NOAUTH" | "NOPERM" | "DENIED"));
    refused || error.kind() == Kind::Misuse || error.code() == login::NOT_REDIS
}

/// Whether the server is still loading its data: then another attempt may succeed.
pub(crate) fn is_loading(error: &Error) -> bool {
    error.redis_code() == Some("LOADING")
}

/// A connection that is ready, without its driver.
struct Opened {
    stream: Stream,
    route: Route,
    spoken: Spoken,
}

async fn try_server(config: &Config, target: &Target, server: &Server) -> Result<Opened, Error> {
    try_peers(config, Some(target), server).await
}

/// Connects to a server, without a login.
pub(crate) async fn dial(config: &Config, server: &Server) -> Result<Stream, Error> {
    try_peers(config, None, server).await.map(|opened| opened.stream)
}

/// Connects to the first address of a server that can be reached, and logs in if there is a target.
async fn try_peers(
    config: &Config,
    target: Option<&Target>,
    server: &Server,
) -> Result<Opened, Error> {
    let settings = config.transport();
    let mut last = None;
    for peer in peers(config, server).await? {
        let attempt = try_peer(config, &settings, target, server, peer);
        let limited = tokio::time::timeout(config.limits.connect_timeout, attempt).await;
        match limited.unwrap_or_else(|_| Err(Failure::Late(too_slow(server, &settings)))) {
            Ok(opened) => return Ok(opened),
            Err(Failure::Unreachable(error) | Failure::Late(error)) => last = Some(error),
            Err(failure) => return Err(failure.into_error()),
        }
    }
    Err(last.unwrap_or_else(|| unknown_host(server, "the name has no address")))
}

async fn try_peer(
    config: &Config,
    settings: &Settings,
    target: Option<&Target>,
    server: &Server,
    peer: Peer,
) -> Result<Opened, Failure> {
    let route = route(settings, server, peer);
    let mut stream = open(settings, &route).await?;
    let spoken = match target {
        Some(target) => {
            login::log_in(&mut stream, config, target, &route).await.map_err(Failure::Other)?
        }
        None => Spoken::default(),
    };
    Ok(Opened { stream, route, spoken })
}

fn route(settings: &Settings, server: &Server, peer: Peer) -> Route {
    let tls = match (&peer, server) {
        (Peer::Tcp(address), Server::Tcp { host, .. }) if settings.sslmode != SslMode::Disable => {
            Some(Arc::new(Setup::new(settings, host, address.ip()).at_once()))
        }
        _ => None,
    };
    Route::new(server, peer, tls)
}

async fn peers(config: &Config, server: &Server) -> Result<Vec<Peer>, Error> {
    if let (Some(address), false) = (config.through, config.is_cluster || config.sentinel.is_some())
    {
        return Ok(vec![Peer::Tcp(address)]);
    }
    match server {
        Server::Unix(path) => Ok(vec![Peer::Unix(path.clone())]),
        Server::Tcp { host, port } => {
            if let Ok(address) = host.parse() {
                return Ok(vec![Peer::Tcp(SocketAddr::new(address, *port))]);
            }
            let lookup = tokio::net::lookup_host((host.as_str(), *port));
            let found = in_time(config.limits.connect_timeout, lookup).await;
            let found = found.map_err(|error| unknown_host(server, &error.to_string()))?;
            Ok(found.map(Peer::Tcp).collect())
        }
    }
}

/// The result of a lookup, within `limit`: the system may take minutes to give one up.
async fn in_time<T>(limit: Duration, lookup: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = || io::Error::other("no answer came within connect_timeout");
    tokio::time::timeout(limit, lookup).await.unwrap_or_else(|_| Err(late()))
}

fn unknown_host(server: &Server, why: &str) -> Error {
    let message = format!("the host of {server} can't be found: {why}; check its spelling and DNS");
    Error::new(Kind::Transport, Outcome::NotSent, "unknown_host", message)
}

fn too_slow(server: &Server, settings: &Settings) -> Error {
    // A server without TLS takes the handshake for the beginning of a command, and waits for the
    // rest.
    let tls = match settings.sslmode {
        SslMode::Disable => "",
        _ => ", does it have TLS (redis:// is without)",
    };
    let message = format!(
        "{server} did not become a usable connection in time: can it be reached{tls}, and is \
         connect_timeout long enough?"
    );
    Error::new(Kind::Timeout, Outcome::NotSent, "connect_timeout", message)
}

fn spawn(
    opened: Opened,
    config: &Config,
    target: &Target,
    context: &Arc<Shared>,
    pool_slot: PoolSlot,
) -> Arc<Link> {
    let Opened { stream: Stream { reader, writer, input }, route, spoken } = opened;
    let is_resp3 = spoken.is_resp3;
    let limits = &config.limits;
    let limits = onetrip_engine::Limits {
        in_flight_max: limits.in_flight_max,
        in_flight_bytes_max: limits.in_flight_bytes_max,
        queue_max: limits.queue_max,
        queue_bytes_max: limits.queue_bytes_max,
        stall_timeout: limits.stall_timeout,
        ..onetrip_engine::Limits::default()
    };
    let protocol = match target.subscribes && !is_resp3 {
        true => Redis::subscriber(ScanLimits::default()),
        false => Redis::new(ScanLimits::default()),
    };
    let engine = |now| Engine::new(now, protocol, limits);
    let link = Link::new(engine, writer, route, is_resp3, context.clone(), pool_slot);
    link.lock().subscribes |= target.subscribes;
    if spoken.tracks {
        link.track();
    }
    tokio::spawn(Driver::new(link.clone(), reader, input).run());
    link
}

/// What is sent when a connection begins, in one trip. PING comes last: a server that is loading
/// its data accepts all the others, and refuses that one.
pub(crate) struct Greeting {
    pub(crate) bytes: BytesMut,
    /// How many replies it has, including that to PING.
    pub(crate) replies: usize,
    /// Whether the last before PING asks for the changes of keys. It may be refused.
    pub(crate) tracks: bool,
    /// The role that the server must have. ROLE comes before those two.
    pub(crate) role: Option<Role>,
}

impl Greeting {
    /// With HELLO, which logs in and switches to RESP3.
    pub(crate) fn resp3(config: &Config, target: &Target) -> Greeting {
        let hello = config.login.hello(config.client_name.as_deref());
        Greeting::of([hello], config, target, target.tracks)
    }

    /// Without HELLO, for servers before Redis 6.
    pub(crate) fn resp2(config: &Config, target: &Target) -> Greeting {
        let name = config.client_name.as_ref();
        let name = name.map(|name| Command::new("CLIENT SETNAME").arg(name));
        Greeting::of(config.login.auth().into_iter().chain(name), config, target, false)
    }

    fn of(
        first: impl IntoIterator<Item = Command>,
        config: &Config,
        target: &Target,
        tracks: bool,
    ) -> Greeting {
        let select = (config.database > 0).then(|| Command::new("SELECT").arg(config.database));
        let readonly = target.reads_replica.then(|| Command::new("READONLY"));
        let tracking = tracks.then(|| Command::new("CLIENT TRACKING").arg("ON"));
        let ping = [Command::new("PING")];
        let role = target.role.map(|_| Command::new("ROLE"));
        let before = first.into_iter().chain(select).chain(readonly).chain(role).chain(tracking);
        let mut greeting =
            Greeting { bytes: BytesMut::new(), replies: 0, tracks, role: target.role };
        for command in before.chain(ping) {
            command.encode(&mut greeting.bytes);
            greeting.replies += 1;
        }
        greeting
    }

    pub(crate) fn best(config: &Config, target: &Target) -> (Greeting, bool) {
        match config.protocol {
            Protocol::Best => (Greeting::resp3(config, target), true),
            Protocol::Resp2 => (Greeting::resp2(config, target), false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lookup_that_never_ends_is_given_up() {
        let never = std::future::pending::<io::Result<()>>();
        let error = in_time(Duration::from_millis(1), never).await.expect_err("it never ends");
        assert!(error.to_string().contains("connect_timeout"), "{error}");
    }
}
