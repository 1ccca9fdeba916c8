//! From an address to an open connection, encrypted or not: everything up to, but without, the
//! startup packet. What a connection was opened with is kept in its [`Route`], so that another one
//! can be opened to the same peer in the same way.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, TcpStream, UnixStream};

use crate::config::{Address, Endpoint, Settings};
use crate::socket::Stream;
use crate::tls::{self, TlsFailure};
use crate::{Error, Kind, Outcome};

/// One way to one server.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// The endpoint as it was configured, for messages.
    name: String,
    peer: Peer,
    protection: Protection,
}

/// Where a server is, with nothing left to look up.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Whether a connection is encrypted.
#[derive(Clone, Debug)]
pub(crate) enum Protection {
    /// It is not.
    None,
    /// It is if the server has TLS.
    IfOffered(Arc<tls::Setup>),
    /// It is, or there is no connection.
    Tls(Arc<tls::Setup>),
}

/// Why there is no connection, and what else may be tried.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nobody answered at this address; the name may have others.
    Unreachable(Error),
    /// With TLS it failed, or without it: the other way may do, where it is allowed.
    Protection(Error),
    /// Nothing else is to be tried with this server.
    Final(Error),
}

impl Failure {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Failure::Unreachable(error) | Failure::Protection(error) | Failure::Final(error) => {
                error
            }
        }
    }
}

impl Route {
    pub(crate) fn new(endpoint: &impl fmt::Display, peer: Peer, protection: Protection) -> Route {
        Route { name: endpoint.to_string(), peer, protection }
    }

    /// The route that was really taken: what was offered was accepted or not, and that stays so.
    pub(crate) fn taken(self, stream: &Stream) -> Route {
        let protection = match self.protection {
            Protection::Tls(setup) | Protection::IfOffered(setup) if stream.tls().is_some() => {
                Protection::Tls(setup)
            }
            _ => Protection::None,
        };
        Route { protection, ..self }
    }

    pub(crate) fn asks_for_tls(&self) -> bool {
        !matches!(self.protection, Protection::None)
    }

    /// Whether nobody but the server can read what is sent, once a connection is open that has
    /// [taken](Self::taken) this route.
    pub(crate) fn is_secure(&self) -> bool {
        match &self.protection {
            Protection::Tls(setup) => setup.verifies(),
            _ => matches!(self.peer, Peer::Unix(_)),
        }
    }

    /// The host, or the path of a Unix socket, and the port.
    #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only spans say it"))]
    pub(crate) fn server(&self) -> (&str, Option<u16>) {
        let Peer::Tcp(address) = self.peer else { return (&self.name, None) };
        let host = self.name.strip_suffix(&format!(":{}", address.port()));
        (host.unwrap_or(&self.name), Some(address.port()))
    }

    /// The host as it was given, without brackets, and the port; `None` is a Unix socket.
    pub(crate) fn host(&self) -> Option<(String, u16)> {
        let port = self.address()?.port();
        let host = self.name.strip_suffix(&format!(":{port}")).unwrap_or(&self.name);
        Some((host.trim_start_matches('[').trim_end_matches(']').to_owned(), port))
    }

    /// The address; `None` is a Unix socket.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self.peer {
            Peer::Tcp(address) => Some(address),
            Peer::Unix(_) => None,
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Opens a connection. Resolves when the first byte of the protocol can be sent: the socket is
/// connected and TLS, if there is to be TLS, has been set up. There is no time limit here. Dropping
/// the future leaves nothing behind.
pub(crate) async fn open(settings: &Settings, route: &Route) -> Result<Stream, Failure> {
    let stream = match &route.peer {
        Peer::Tcp(address) => dial_tcp(settings, *address)
            .await
            .map(Stream::tcp)
            .map_err(|error| refused(&route.name, *address, error)),
        Peer::Unix(path) => UnixStream::connect(path)
            .await
            .map(Stream::unix)
            .map_err(|error| unix_error(path, error)),
    };
    let stream = stream.map_err(Failure::Unreachable)?;
    let (setup, required) = match &route.protection {
        Protection::None => return Ok(stream),
        Protection::IfOffered(setup) => (setup, false),
        Protection::Tls(setup) => (setup, true),
    };
    match tls::secure(stream, setup, &route.name).await {
        Ok(stream) => Ok(stream),
        Err(TlsFailure::NotOffered(stream)) if !required => Ok(*stream),
        Err(TlsFailure::NotOffered(_)) => Err(Failure::Final(tls_missing(&route.name))),
        Err(TlsFailure::Handshake(error)) => Err(Failure::Protection(error)),
        Err(TlsFailure::Final(error)) => Err(Failure::Final(error)),
    }
}

fn tls_missing(name: &str) -> Error {
    let message =
        format!("{name} has no TLS: switch it on there (ssl=on), or choose another sslmode");
    Error::new(Kind::Transport, Outcome::NotSent, "tls_missing", message)
}

/// Where an endpoint may be, in the order to try it.
///
/// # Errors
/// The name is not known.
pub(crate) async fn peers(endpoint: &Endpoint) -> Result<Vec<Peer>, Error> {
    let port = endpoint.port();
    match endpoint.address() {
        Address::Unix(_) => Ok(endpoint.socket().map(Peer::Unix).into_iter().collect()),
        Address::Tcp { address: Some(address), .. } => {
            Ok(vec![Peer::Tcp(SocketAddr::new(*address, port))])
        }
        Address::Tcp { host, address: None } => {
            let found = tokio::net::lookup_host((host.as_str(), port)).await;
            let found = found.map_err(|error| unresolved(endpoint, &error.to_string()))?;
            Ok(found.map(Peer::Tcp).collect())
        }
    }
}

pub(crate) fn unresolved(endpoint: &Endpoint, why: &str) -> Error {
    let message =
        format!("the host of {endpoint} can't be found: {why}; check its spelling and DNS");
    Error::new(Kind::Transport, Outcome::NotSent, "unknown_host", message)
}

async fn dial_tcp(settings: &Settings, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A statement must not wait for the acknowledgement of the one before it.
    socket.set_nodelay(true)?;
    let options = SockRef::from(&socket);
    if settings.keepalives {
        options.set_tcp_keepalive(&keepalive(settings))?;
    }
    #[cfg(target_os = "linux")]
    options.set_tcp_user_timeout(settings.tcp_user_timeout)?;
    socket.connect(address).await
}

fn keepalive(settings: &Settings) -> TcpKeepalive {
    let mut keepalive = TcpKeepalive::new();
    if let Some(idle) = settings.keepalives_idle {
        keepalive = keepalive.with_time(idle.max(Duration::from_secs(1)));
    }
    if let Some(interval) = settings.keepalives_interval {
        keepalive = keepalive.with_interval(interval.max(Duration::from_secs(1)));
    }
    if let Some(count) = settings.keepalives_count {
        keepalive = keepalive.with_retries(count);
    }
    keepalive
}

fn refused(name: &str, address: SocketAddr, error: io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            ": nothing listens there; is the server running, and is this its port?"
        }
        _ => ": can it be reached from here?",
    };
    let message = match name == address.to_string() {
        true => format!("can't connect to {name} ({error}){hint}"),
        false => format!("can't connect to {name} at {address} ({error}){hint}"),
    };
    Error::new(Kind::Transport, Outcome::NotSent, "connect_failed", message).with_source(error)
}

fn unix_error(path: &Path, error: io::Error) -> Error {
    let message = format!(
        "can't connect to the socket {} ({error}): is the server running, and is this its directory \
         and port?",
        path.display()
    );
    Error::new(Kind::Transport, Outcome::NotSent, "connect_failed", message).with_source(error)
}
