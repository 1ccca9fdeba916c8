//! From an address to an open connection, encrypted or not: everything before the startup packet.
//! [`Route`] keeps how a connection was opened, so that another one can be opened to the same peer
//! in the same way.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use onetrip_postgres::client::connect::{Refusal, begins_tls};
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
    /// How TLS is spoken; `None` for no TLS.
    tls: Option<Arc<tls::Setup>>,
}

/// Where a server is, with nothing left to look up.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Why there is no connection, and what else may be tried.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nobody answered at this address; the name may have others.
    Unreachable(Error),
    /// The same: it did not answer in time.
    Late(Error),
    /// The TLS handshake failed; a connection without TLS may work, if that is allowed.
    Handshake(Error),
    /// The server took the login, and refused the session.
    Session(Error),
    /// Anything else; the error says what.
    Other(Error),
}

impl Failure {
    pub(crate) fn error(&self) -> &Error {
        match self {
            Failure::Unreachable(error)
            | Failure::Late(error)
            | Failure::Handshake(error)
            | Failure::Session(error)
            | Failure::Other(error) => error,
        }
    }

    pub(crate) fn into_error(self) -> Error {
        match self {
            Failure::Unreachable(error)
            | Failure::Late(error)
            | Failure::Handshake(error)
            | Failure::Session(error)
            | Failure::Other(error) => error,
        }
    }
}

impl Route {
    pub(crate) fn new(
        endpoint: &impl fmt::Display,
        peer: Peer,
        tls: Option<Arc<tls::Setup>>,
    ) -> Route {
        Route { name: endpoint.to_string(), peer, tls }
    }

    /// From now on the route has TLS; a Unix socket never has.
    pub(crate) fn protect(&mut self, settings: &Settings, endpoint: &Endpoint) {
        if let (Peer::Tcp(peer), Address::Tcp { host, .. }) = (&self.peer, endpoint.address()) {
            self.tls = Some(Arc::new(tls::Setup::new(settings, host, peer.ip())));
        }
    }

    /// The endpoint as it was configured.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether nobody but the server can read what is sent.
    pub(crate) fn is_secure(&self) -> bool {
        match &self.tls {
            Some(setup) => setup.verifies(),
            None => matches!(self.peer, Peer::Unix(_)),
        }
    }

    /// The host, or the path of a Unix socket, and the port.
    #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only spans say it"))]
    pub(crate) fn server(&self) -> (&str, Option<u16>) {
        let Peer::Tcp(address) = self.peer else { return (&self.name, None) };
        let host = self.name.strip_suffix(&format!(":{}", address.port()));
        (host.unwrap_or(&self.name), Some(address.port()))
    }

    /// The host as it was given, without brackets, and the port; `None` for a Unix socket.
    pub(crate) fn host(&self) -> Option<(String, u16)> {
        let port = self.address()?.port();
        let host = self.name.strip_suffix(&format!(":{port}")).unwrap_or(&self.name);
        Some((host.trim_start_matches('[').trim_end_matches(']').to_owned(), port))
    }

    /// The address; `None` for a Unix socket.
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

/// Opens a connection by a known route. Resolves when the first byte of the protocol can be sent:
/// the socket is connected and TLS, if the route has it, is set up. There is no time limit here.
/// Dropping the future leaves nothing behind.
pub(crate) async fn open(settings: &Settings, route: &Route) -> Result<Stream, Failure> {
    let mut stream = dial(settings, route).await?;
    let Some(setup) = &route.tls else { return Ok(stream) };
    if setup.is_asked_for() {
        let (answer, early) = tls::ask(&mut stream, &route.name).await.map_err(Failure::Other)?;
        begins_tls(answer, early, true).map_err(|refusal| refused(route, refusal))?;
    }
    begin_tls(&mut stream, route).await?;
    Ok(stream)
}

/// Opens the socket.
pub(crate) async fn dial(settings: &Settings, route: &Route) -> Result<Stream, Failure> {
    let stream = match &route.peer {
        Peer::Tcp(address) => dial_tcp(settings, *address)
            .await
            .map(Stream::tcp)
            .map_err(|error| unreachable(&route.name, *address, error)),
        Peer::Unix(path) => UnixStream::connect(path)
            .await
            .map(Stream::unix)
            .map_err(|error| unix_error(path, error)),
    };
    stream.map_err(Failure::Unreachable)
}

/// Does the handshake, if the route has TLS.
pub(crate) async fn begin_tls(stream: &mut Stream, route: &Route) -> Result<(), Failure> {
    let Some(setup) = &route.tls else { return Ok(()) };
    tls::begin(stream, setup, &route.name).await.map_err(|failure| match failure {
        TlsFailure::Handshake(error) => Failure::Handshake(error),
        TlsFailure::NoAlpn => refused(route, Refusal::NoAlpn),
        TlsFailure::Setup(error) => Failure::Other(error),
    })
}

/// The server can't be used.
pub(crate) fn refused(route: &Route, refusal: Refusal) -> Failure {
    let kind = match refusal {
        Refusal::NotPostgres => Kind::Protocol,
        Refusal::Target | Refusal::TargetUnknown => Kind::Misuse,
        _ => Kind::Transport,
    };
    let message = format!("{route}{}", refusal.text());
    Failure::Other(Error::new(kind, Outcome::NotSent, refusal.code(), message))
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

fn unreachable(name: &str, address: SocketAddr, error: io::Error) -> Error {
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
