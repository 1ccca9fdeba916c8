//! From a configuration to a connection that is ready: addresses in order, socket, startup.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::{Connection, Limits};
use onetrip_postgres::Postgres;
use onetrip_postgres::startup::{self, NONCE_LEN, Ready, Startup, StartupConfig, StartupError};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, TcpStream, UnixStream};

use crate::config::{
    Address, AuthMethod, Config, Endpoint, ProtocolVersion, Resolved, Settings, TargetSessionAttrs,
    WhenFull,
};
use crate::core::{Options, Shared};
use crate::driver::Driver;
use crate::shapes::Shapes;
use crate::socket::{Reader, Writer, split_tcp, split_unix};
use crate::{Error, Kind, Outcome};

/// Connects to the first address that answers and fits, and starts the driver.
pub(crate) async fn connect(
    config: &Config,
    shared: bool,
    shapes: &Arc<Shapes>,
) -> Result<Arc<Shared>, Error> {
    let resolved = config.resolve().map_err(Error::config)?;
    check_support(resolved.settings())?;
    let wanted = resolved.settings().target_session_attrs;
    // "prefer-standby" is two rounds: a standby, and then whatever there is.
    let rounds: &[TargetSessionAttrs] = match wanted {
        TargetSessionAttrs::PreferStandby => {
            &[TargetSessionAttrs::Standby, TargetSessionAttrs::Any]
        }
        _ => &[wanted],
    };
    let mut failures = Vec::new();
    for &wanted in rounds {
        for endpoint in resolved.endpoints() {
            match try_endpoint(&resolved, endpoint, wanted, shapes).await {
                Ok(connection) => {
                    connection.lock().is_shared = shared;
                    return Ok(connection);
                }
                // Another host would only ask for the same password again, as with libpq.
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => failures.push(error),
            }
        }
    }
    Err(all_failed(failures))
}

/// Settings that the configuration can express and this version can't honour.
fn check_support(settings: &Settings) -> Result<(), Error> {
    let methods =
        [AuthMethod::None, AuthMethod::Password, AuthMethod::Md5, AuthMethod::ScramSha256];
    if methods.into_iter().all(|method| settings.require_auth.allows(method)) {
        return Ok(());
    }
    Err(Error::misuse(
        "unsupported",
        "require_auth isn't in this version: leave it out (cleartext and MD5 passwords are refused \
         where somebody can listen, unless allow_plain_password says otherwise)",
    ))
}

fn is_final(error: &Error) -> bool {
    // Class 28: invalid authorization. 3D000: no such database.
    error.sqlstate().is_some_and(|code| code.starts_with("28") || code == "3D000")
}

fn all_failed(mut failures: Vec<Error>) -> Error {
    match failures.len() {
        0 => Error::misuse("config", "there is no host to connect to"),
        1 => failures.remove(0),
        _ => {
            let list: Vec<String> = failures.iter().map(ToString::to_string).collect();
            let last = failures.remove(failures.len() - 1);
            Error::new(last.kind(), Outcome::NotSent, last.code(), list.join("; "))
        }
    }
}

/// Tries an endpoint within the connect timeout: every address of its name, one after the other.
async fn try_endpoint(
    resolved: &Resolved,
    endpoint: &Endpoint,
    wanted: TargetSessionAttrs,
    shapes: &Arc<Shapes>,
) -> Result<Arc<Shared>, Error> {
    let attempt = attempt(resolved, endpoint, wanted, shapes);
    let Some(timeout) = resolved.settings().connect_timeout else { return attempt.await };
    tokio::time::timeout(timeout, attempt).await.unwrap_or_else(|_| {
        Err(Error::new(
            Kind::Timeout,
            Outcome::NotSent,
            "connect_timeout",
            format!(
                "{endpoint} did not answer within {} s (connect_timeout): is it a PostgreSQL server, \
                 and can it be reached from here?",
                timeout.as_secs_f64()
            ),
        ))
    })
}

async fn attempt(
    resolved: &Resolved,
    endpoint: &Endpoint,
    wanted: TargetSessionAttrs,
    shapes: &Arc<Shapes>,
) -> Result<Arc<Shared>, Error> {
    let settings = resolved.settings();
    let (reader, writer, peer) = dial(settings, endpoint).await?;
    let config = startup_config(resolved, endpoint, peer.map(|peer| peer.ip()));
    let mut connection = Opening { reader, writer, input: BytesMut::new() };
    let ready = connection
        .start(config)
        .await
        .map_err(|error| startup_error(error, endpoint, resolved.user(), resolved.dbname()))?;
    check_protocol(&ready, settings, endpoint)?;
    check_target(&ready, wanted, endpoint)?;
    Ok(spawn(connection, ready, settings, endpoint, shapes))
}

/// A connection that is not ready yet.
struct Opening {
    reader: Reader,
    writer: Writer,
    input: BytesMut,
}

enum OpeningError {
    Startup(StartupError),
    Io(io::Error),
}

impl Opening {
    async fn start(&mut self, config: StartupConfig) -> Result<Ready, OpeningError> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce)
            .map_err(|error| OpeningError::Io(io::Error::other(error.to_string())))?;
        let mut startup = Startup::new(config, nonce).map_err(OpeningError::Startup)?;
        loop {
            while let Some(bytes) = startup.transmit() {
                self.writer.write_all(&bytes).await.map_err(OpeningError::Io)?;
            }
            let read = self.reader.read(&mut self.input).await.map_err(OpeningError::Io)?;
            if read == 0 {
                return Err(OpeningError::Startup(startup.handle_closed()));
            }
            if let Some(ready) =
                startup.handle_bytes(&mut self.input).map_err(OpeningError::Startup)?
            {
                return Ok(ready);
            }
        }
    }
}

fn spawn(
    connection: Opening,
    ready: Ready,
    settings: &Settings,
    endpoint: &Endpoint,
    shapes: &Arc<Shapes>,
) -> Arc<Shared> {
    let limits = Limits {
        in_flight_max: settings.in_flight_max,
        in_flight_bytes_max: settings.in_flight_bytes_max,
        queue_max: settings.queue_max,
        queue_bytes_max: settings.queue_bytes_max,
        stall_timeout: settings.stall_timeout,
        ..Limits::default()
    };
    let options = Options {
        request_timeout: settings.request_timeout,
        refuse_when_full: settings.when_full == WhenFull::Refuse,
        queue_max: settings.queue_max,
        queue_bytes_max: settings.queue_bytes_max,
        waiting_bytes_max: settings.waiting_bytes_max,
        prepare_threshold: settings.prepare_threshold,
        prepared_max: settings.prepared_max,
        endpoint: endpoint.to_string(),
    };
    let engine = |now| Connection::new(now, Postgres::new(ready.status), limits);
    let shared = Shared::new(engine, connection.writer, ready.parameters, options, shapes.clone());
    let driver = Driver::new(shared.clone(), connection.reader, connection.input);
    tokio::spawn(driver.run());
    shared
}

/// Opens the socket; for TCP the peer's address is returned.
async fn dial(
    settings: &Settings,
    endpoint: &Endpoint,
) -> Result<(Reader, Writer, Option<SocketAddr>), Error> {
    if let Some(path) = endpoint.socket() {
        let stream = UnixStream::connect(&path).await;
        let (reader, writer) = split_unix(stream.map_err(|error| unix_error(&path, error))?);
        return Ok((reader, writer, None));
    }
    let addresses = resolve(endpoint).await?;
    let mut last = None;
    for address in addresses {
        match dial_tcp(settings, address).await {
            Ok(stream) => {
                let (reader, writer) = split_tcp(stream);
                return Ok((reader, writer, Some(address)));
            }
            Err(error) => last = Some((address, error)),
        }
    }
    Err(match last {
        Some((address, error)) => refused(endpoint, address, error),
        None => unresolved(endpoint, "the name has no address"),
    })
}

async fn resolve(endpoint: &Endpoint) -> Result<Vec<SocketAddr>, Error> {
    match endpoint.address() {
        Address::Tcp { address: Some(address), .. } => {
            Ok(vec![SocketAddr::new(*address, endpoint.port())])
        }
        Address::Tcp { host, address: None } => {
            match tokio::net::lookup_host((host.as_str(), endpoint.port())).await {
                Ok(addresses) => Ok(addresses.collect()),
                Err(error) => Err(unresolved(endpoint, &error.to_string())),
            }
        }
        Address::Unix(_) => Ok(Vec::new()),
    }
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

fn startup_config(
    resolved: &Resolved,
    endpoint: &Endpoint,
    peer: Option<std::net::IpAddr>,
) -> StartupConfig {
    let settings = resolved.settings();
    let mut config = StartupConfig::new(resolved.user());
    config.database = Some(resolved.dbname().to_owned());
    config.password = endpoint.password().map(Into::into);
    config.protocol = match settings.max_protocol_version {
        ProtocolVersion::V3_0 => startup::ProtocolVersion::V3_0,
        ProtocolVersion::V3_2 => startup::ProtocolVersion::V3_2,
    };
    config.secure_channel = peer.is_none();
    config.allow_cleartext = settings.allows_plain_password(peer);
    config.scram_iterations_max = settings.scram_iterations_max;
    let name = settings.application_name.as_ref();
    config.parameters.extend(name.map(|name| ("application_name".into(), name.clone())));
    let options = resolved.options();
    config.parameters.extend(options.map(|options| ("options".into(), options.to_owned())));
    config
}

/// Whether both sides came to speak a version that the configuration allows.
fn check_protocol(ready: &Ready, settings: &Settings, endpoint: &Endpoint) -> Result<(), Error> {
    let old = ready.protocol == startup::ProtocolVersion::V3_0;
    if old && settings.min_protocol_version > ProtocolVersion::V3_0 {
        return Err(Error::new(
            Kind::Misuse,
            Outcome::NotSent,
            "protocol_version",
            format!(
                "{endpoint} speaks protocol 3.0 at most, and min_protocol_version asks for more"
            ),
        ));
    }
    Ok(())
}

/// Whether the server is one that the configuration wants. Servers before 14 don't say.
fn check_target(
    ready: &Ready,
    wanted: TargetSessionAttrs,
    endpoint: &Endpoint,
) -> Result<(), Error> {
    let is_on = |name: &str| {
        let parameter = ready.parameters.iter().find(|(parameter, _)| parameter == name);
        parameter.map(|(_, value)| value == "on")
    };
    let standby = is_on("in_hot_standby");
    let read_only = match (standby, is_on("default_transaction_read_only")) {
        (Some(standby), Some(read_only)) => Some(standby || read_only),
        _ => None,
    };
    let fits = match wanted {
        TargetSessionAttrs::Any | TargetSessionAttrs::PreferStandby => Some(true),
        TargetSessionAttrs::Primary => standby.map(|standby| !standby),
        TargetSessionAttrs::Standby => standby,
        TargetSessionAttrs::ReadOnly => read_only,
        TargetSessionAttrs::ReadWrite => read_only.map(|read_only| !read_only),
    };
    let why = match fits {
        Some(true) => return Ok(()),
        Some(false) => "is not what target_session_attrs asks for",
        None => {
            "is too old to say whether it is what target_session_attrs asks for (14 or newer is)"
        }
    };
    Err(Error::new(
        Kind::Misuse,
        Outcome::NotSent,
        "target_session_attrs",
        format!("{endpoint} {why}"),
    ))
}

fn startup_error(error: OpeningError, endpoint: &Endpoint, user: &str, dbname: &str) -> Error {
    let to = format_args!("{endpoint} (user {user}, database {dbname})").to_string();
    let refused =
        |message: String| Error::new(Kind::Transport, Outcome::NotSent, "connect_failed", message);
    match error {
        OpeningError::Io(error) => {
            refused(format!("the connection to {endpoint} was lost during its startup"))
                .with_source(error)
        }
        OpeningError::Startup(StartupError::Server(error)) => {
            Error::server_error(*error, Outcome::NotSent).about(to)
        }
        OpeningError::Startup(error @ (StartupError::Closed | StartupError::RefusedEarly)) => {
            refused(format!("{to}: {error}"))
        }
        OpeningError::Startup(
            error @ (StartupError::PasswordMissing | StartupError::PlainPasswordRefused { .. }),
        ) => Error::misuse("authentication", format!("{to}: {error}")),
        OpeningError::Startup(error) => {
            Error::new(Kind::Protocol, Outcome::NotSent, "connect_failed", format!("{to}: {error}"))
        }
    }
}

fn unresolved(endpoint: &Endpoint, why: &str) -> Error {
    let message =
        format!("the host of {endpoint} can't be found: {why}; check its spelling and DNS");
    Error::new(Kind::Transport, Outcome::NotSent, "unknown_host", message)
}

fn refused(endpoint: &Endpoint, address: SocketAddr, error: io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            ": nothing listens there; is the server running, and is this its port?"
        }
        _ => ": can it be reached from here?",
    };
    let name = endpoint.to_string();
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
