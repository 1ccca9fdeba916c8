//! A server, and how the connection to it is encrypted.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use onetrip::config::{Address, Config, ConfigErrorKind, RootCert, Settings, SslMode};
use onetrip::redis;
use onetrip_measure::server::answering;
use onetrip_postgres::message::ssl_request::SSL_REQUEST;

use super::{Mode, TlsArgs};

/// A server that is reached over TCP.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// As the user gave it: a certificate has to be for it.
    pub(super) host: String,
    pub(super) port: u16,
    pub(crate) addresses: Vec<SocketAddr>,
    /// For PostgreSQL, whose clients ask for TLS.
    pub(super) postgres: Settings,
    /// For what begins with TLS or has none, as Redis does.
    pub(super) at_once: Settings,
    /// It is known to be Redis, whose clients never ask for TLS.
    is_redis: bool,
}

/// Where bytes go to.
pub(crate) enum Way {
    /// The path of a Unix socket, on which no server has TLS.
    Socket(PathBuf),
    Tcp(Box<Server>),
}

impl Way {
    /// To what `--to` or a variable names: a URL of PostgreSQL or Redis, `HOST:PORT`, or the path of
    /// a Unix socket. `variable` gives libpq's variables for TLS.
    ///
    /// # Errors
    /// It can't be read or found, or its settings contradict one another: one line.
    pub(crate) fn to(
        text: &str,
        args: &TlsArgs,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Way, String> {
        let ssl = |name: &str| match name.starts_with("PGSSL") || name == "PGREQUIRESSL" {
            true => variable(name),
            false => None,
        };
        if ["redis://", "rediss://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Way::to_redis(text, args);
        }
        if !text.contains("://") && text.contains('/') {
            return Ok(Way::Socket(text.into()));
        }
        let config: Config = match text.contains("://") {
            true => text.parse().map_err(|error| format!("{error}"))?,
            false => {
                let (host, port) = host_and_port(text)?;
                Config::new().host(host).port(port)
            }
        };
        // In a form in which no setting of TLS contradicts another.
        let place = config.clone().sslmode(SslMode::VerifyFull).sslrootcert(RootCert::System);
        let place = place.resolve().map_err(|error| error.to_string())?;
        let [endpoint] = place.endpoints() else {
            return Err("several servers can't be profiled through one address: name one".into());
        };
        let Address::Tcp { host, address } = endpoint.address() else {
            return Ok(Way::Socket(endpoint.socket().unwrap_or_default()));
        };
        let port = endpoint.port();
        let addresses = match address {
            Some(address) => vec![SocketAddr::new(*address, port)],
            None => found(host, port)?,
        };
        let is_local = addresses.iter().all(|it| it.ip().is_loopback());
        let at_once = args.at_once(redis::Config::new(), is_local);
        Ok(Way::Tcp(Box::new(Server {
            host: host.clone(),
            port,
            postgres: args.postgres(config, is_local, ssl)?,
            at_once: at_once.tls_settings().clone(),
            is_redis: false,
            addresses,
        })))
    }

    fn to_redis(url: &str, args: &TlsArgs) -> Result<Way, String> {
        let config: redis::Config = url.parse().map_err(|error| format!("{error}"))?;
        let (host, port) = match &config.addresses()[..] {
            [redis::Address::Tcp { host, port }] => (host.clone(), *port),
            [redis::Address::Unix(path)] => return Ok(Way::Socket(path.clone())),
            _ => return Err("several servers can't be profiled through one address".into()),
        };
        let config = match args.tls {
            Mode::Auto | Mode::Pass => args.rooted(config),
            _ => args.at_once(config, true),
        };
        let settings = config.tls_settings().clone();
        let addresses = found(&host, port)?;
        Ok(Way::Tcp(Box::new(Server {
            host,
            port,
            addresses,
            postgres: settings.clone(),
            at_once: settings,
            is_redis: true,
        })))
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Socket(path) => path.display().fmt(f),
            Way::Tcp(server) => server.fmt(f),
        }
    }
}

impl Server {
    /// Whether the connection to it may be encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        [&self.postgres, &self.at_once].iter().any(|it| it.sslmode != SslMode::Disable)
    }

    /// Whether the server is PostgreSQL and says that it has TLS; also where it can't be asked.
    pub(super) fn has_tls(&self) -> bool {
        if self.is_redis {
            return false;
        }
        let ask = |address: &SocketAddr| -> io::Result<u8> {
            let mut server = TcpStream::connect_timeout(address, PATIENCE)?;
            server.set_read_timeout(Some(PATIENCE))?;
            server.write_all(&SSL_REQUEST)?;
            let mut answer = [0];
            match server.read_exact(&mut answer) {
                Ok(()) => Ok(answer[0]),
                // Redis waits for the end of a line.
                Err(_) => Ok(b'N'),
            }
        };
        let answer = self.addresses.iter().find_map(|address| ask(address).ok());
        answer.is_none_or(|it| it == b'S')
    }

    /// The address for a splice that connects by itself.
    pub(crate) fn address(&self) -> SocketAddr {
        answering(&self.addresses).unwrap_or(self.addresses[0])
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// How long a server on this machine may take to say whether it has TLS.
const PATIENCE: Duration = Duration::from_millis(500);

/// How a server is verified.
impl TlsArgs {
    fn postgres(
        &self,
        config: Config,
        is_local: bool,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Settings, String> {
        let config = self.configured(config, is_local, variable)?;
        if self.tls == Mode::Off {
            return Ok(config.settings().clone());
        }
        config.resolve().map(|it| it.settings().clone()).map_err(|error| error.to_string())
    }

    /// The same settings, with what else the configuration has.
    pub(crate) fn configured(
        &self,
        config: Config,
        is_local: bool,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Config, String> {
        let config = match self.tls {
            Mode::Off => return Ok(config.sslmode(SslMode::Disable)),
            Mode::Require => config.sslmode(SslMode::Require),
            Mode::VerifyFull => config.sslmode(SslMode::VerifyFull),
            Mode::Auto | Mode::Pass => config,
        };
        let config = match &self.tls_root {
            Some(root) => config.sslrootcert(root_cert(root)),
            None => config,
        };
        let config = config.or_variables(variable).map_err(|error| error.to_string())?;
        let is_verified =
            self.tls_root.is_some() || config.settings().sslrootcert == Some(RootCert::System);
        let mode = if is_local && !is_verified { "disable" } else { "verify-full" };
        let config = config
            .or_variables(|name| (name == "PGSSLMODE").then(|| mode.to_owned()))
            .map_err(|error| error.to_string())?;
        match config.resolve() {
            // Nothing names an authority, so those of the system count.
            Err(error)
                if error.kind() == ConfigErrorKind::Tls
                    && config.settings().sslrootcert.is_none() =>
            {
                Ok(config.sslrootcert(RootCert::System))
            }
            _ => Ok(config),
        }
    }

    fn at_once(&self, config: redis::Config, is_local: bool) -> redis::Config {
        self.rooted(config.tls(match self.tls {
            Mode::Off => SslMode::Disable,
            Mode::Require => SslMode::Require,
            Mode::Auto | Mode::Pass if is_local && self.tls_root.is_none() => SslMode::Disable,
            Mode::Auto | Mode::Pass | Mode::VerifyFull => SslMode::VerifyFull,
        }))
    }

    fn rooted(&self, config: redis::Config) -> redis::Config {
        let settings = config.tls_settings();
        match &self.tls_root {
            Some(root) => config.root_cert(root_cert(root)),
            None if settings.sslmode >= SslMode::VerifyCa && settings.sslrootcert.is_none() => {
                config.root_cert(RootCert::System)
            }
            None => config,
        }
    }
}

fn root_cert(name: &str) -> RootCert {
    match name {
        "system" => RootCert::System,
        file => RootCert::File(file.into()),
    }
}

pub(crate) fn host_and_port(text: &str) -> Result<(&str, u16), String> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parts.ok_or_else(|| format!("{text} is not HOST:PORT or a URL"))?;
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    Ok((bare.unwrap_or(host), port))
}

pub(crate) fn found(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = (host, port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    match found {
        Ok(addresses) if !addresses.is_empty() => Ok(addresses),
        Ok(_) => Err(format!("the host {host} has no address: check its spelling")),
        Err(error) => Err(format!("the host {host} can't be found ({error}): check its spelling")),
    }
}
