//! Where to connect, as whom, and within which limits.
//!
//! Here belong the settings, the texts that they are read from, and libpq's rules for them. No name
//! is looked up and no connection is opened here.

mod endpoint;
mod environment;
pub(crate) mod error;
mod keyword;
mod passfile;
mod resolve;
mod service;
mod setters;
mod settings;
#[cfg(all(test, unix))]
mod table;
#[cfg(test)]
mod tests;
mod text;
mod tls;
mod value;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub use endpoint::{Address, Endpoint, Resolved};
pub use error::{ConfigError, ConfigErrorKind};
pub use settings::{
    AuthMethod, IdleOrder, LoadBalanceHosts, LogStatements, ProtocolVersion, Reads, RequireAuth,
    Settings, TargetSessionAttrs, WhenFull,
};
pub use tls::{ChannelBinding, RootCert, SslCertMode, SslMode, SslNegotiation, TlsVersion};

use ConfigErrorKind as Kind;
use environment::Surroundings;
use error::Place;
pub(crate) use keyword::Keyword;
use keyword::{KEYWORDS, Row, UNSUPPORTED_VARIABLES, bit};

/// How to reach a database: built with setters, or read from a URL or `keyword=value` pairs.
///
/// ```
/// use onetrip::config::Config;
///
/// let config: Config = "postgres://me@db1,db2:6432/shop?connect_timeout=5".parse()?;
/// let config = config.application_name("till");
/// assert_eq!(config.redacted_url(), "postgres://me@db1,db2:6432/shop");
/// # Ok::<(), onetrip::config::ConfigError>(())
/// ```
///
/// # Texts
/// Both forms are read as libpq reads them, with its keywords: `service`, `servicefile`, `host`, `hostaddr`, `port`,
/// `dbname`, `user`, `password`, `passfile`, `application_name`, `fallback_application_name`,
/// `options`, `client_encoding` (UTF8 only), `connect_timeout` (s), `keepalives`, `keepalives_idle`
/// (s), `keepalives_interval` (s), `keepalives_count`, `tcp_user_timeout` (ms),
/// `target_session_attrs`, `load_balance_hosts` (disable, random), `min_protocol_version`,
/// `max_protocol_version`, `sslmode`, `sslnegotiation`, `sslcert`, `sslkey`, `sslcertmode`
/// (disable, allow), `sslrootcert` (a file, or system), `sslcrl`, `sslsni` (0, 1), `ssl_min_protocol_version`, `ssl_max_protocol_version`,
/// `gssencmode`, `channel_binding` and `require_auth`; and with those of this client:
/// `allow_plain_password`, `scram_iterations_max`, `in_flight_max`, `in_flight_bytes_max`,
/// `queue_max`, `queue_bytes_max`, `when_full` (wait, refuse), `request_timeout_ms`, `one_segment`
/// (0, 1), `stall_timeout_ms`, `cancel_on_timeout`, `cancel_on_drop`, `cancels_max` and
/// `cancel_timeout_ms`. [`Settings`] has the defaults and units. A keyword, or a value, that this
/// version does not support is an error: it is never ignored.
///
/// # Several servers
/// Hosts are tried in order, as in libpq. A single port applies to all hosts, else each host has
/// its own. `hostaddr` gives the addresses of the hosts at the same places, and spares the lookup.
/// All addresses of a name are tried, and each has the whole `connect_timeout`. Once a server has
/// refused the login, the hosts behind it are not tried.
///
/// # Order
/// A value that was set wins over those of the service, which [`resolve`](Self::resolve) reads from
/// the service file. These win over the environment, which only [`or_env`](Self::or_env) reads. The
/// environment wins over the defaults, which [`resolve`](Self::resolve) fills in. A password that
/// was set, or came from `PGPASSWORD`, wins over the password file.
///
/// `Debug` and errors show no password, no options and nothing that may be part of them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// A bit for each keyword that was set: the environment does not change those.
    given: u128,
    /// Those of them that the environment set: a service changes those.
    from_environment: u128,
    service: Option<String>,
    servicefile: Option<PathBuf>,
    hosts: Vec<String>,
    hostaddrs: Vec<Option<IpAddr>>,
    ports: Vec<Option<u16>>,
    dbname: String,
    user: String,
    password: String,
    passfile: Option<PathBuf>,
    options: Option<String>,
    fallback_application_name: Option<String>,
    settings: Settings,
}

/// Who connects where.
impl Config {
    /// An empty configuration: the user of this process, on this machine's server.
    #[must_use]
    pub fn new() -> Config {
        Config::default()
    }

    /// Only what the environment says: `PGHOST` and its like.
    ///
    /// # Errors
    /// A variable has a value that its keyword does not accept.
    pub fn from_env() -> Result<Config, ConfigError> {
        Config::new().or_env()
    }

    /// Fills in from the environment what isn't set: `PGSERVICE`, `PGSERVICEFILE`, `PGHOST`, `PGHOSTADDR`, `PGPORT`,
    /// `PGDATABASE`, `PGUSER`, `PGPASSWORD`, `PGPASSFILE`, `PGAPPNAME`, `PGOPTIONS`,
    /// `PGCLIENTENCODING`, `PGCONNECT_TIMEOUT`, `PGTARGETSESSIONATTRS`, `PGLOADBALANCEHOSTS`,
    /// `PGMINPROTOCOLVERSION`, `PGMAXPROTOCOLVERSION`, `PGSSLMODE`, `PGSSLNEGOTIATION`,
    /// `PGSSLCERT`, `PGSSLKEY`, `PGSSLCERTMODE`, `PGSSLROOTCERT`, `PGSSLCRL`, `PGSSLSNI`, `PGSSLMINPROTOCOLVERSION`,
    /// `PGSSLMAXPROTOCOLVERSION`, `PGGSSENCMODE`, `PGCHANNELBINDING` and `PGREQUIRESSL=1`, which
    /// means `PGSSLMODE=require`; and `PGREQUIREAUTH`. An empty variable counts as unset.
    ///
    /// # Errors
    /// A variable has a value that its keyword does not accept, or asks for what this version does
    /// not support (`PGSSLCRLDIR`, `PGREQUIREPEER`).
    pub fn or_env(self) -> Result<Config, ConfigError> {
        self.or_variables(|name| std::env::var(name).ok())
    }

    /// As [`or_env`](Self::or_env), with the variables of another source.
    ///
    /// # Errors
    /// As [`or_env`](Self::or_env).
    pub fn or_variables(
        mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Config, ConfigError> {
        let filled = |name: &str| variable(name).filter(|value| !value.is_empty());
        for &(name, what) in UNSUPPORTED_VARIABLES {
            if filled(name).is_some() {
                let what = format!("{what} isn't in this version: unset it");
                return Err(ConfigError::new(Kind::Unsupported, Place::Variable(name), what));
            }
        }
        for &Row { keyword, variable: name, .. } in KEYWORDS {
            if name.is_empty() || self.given & bit(keyword) != 0 {
                continue;
            }
            if let Some(value) = filled(name) {
                self.set(keyword, &value, Place::Variable(name))?;
            }
        }
        // libpq's old name for it, which libpq still reads.
        let required = filled("PGREQUIRESSL").is_some_and(|value| value.starts_with('1'));
        if required && self.given & bit(Keyword::Sslmode) == 0 {
            self.set(Keyword::Sslmode, "require", Place::Variable("PGREQUIRESSL"))?;
        }
        Ok(self)
    }

    /// The section of the service file whose settings hold where nothing else is set. Default: none.
    #[must_use]
    pub fn service(mut self, name: impl Into<String>) -> Config {
        self.service = Some(name.into());
        self.give(Keyword::Service)
    }

    /// The service file. Default `~/.pg_service.conf`. If it does not have the service,
    /// `pg_service.conf` in the directory `PGSYSCONFDIR`, or else `/etc/postgresql-common`, is read.
    #[must_use]
    pub fn servicefile(mut self, path: impl Into<PathBuf>) -> Config {
        self.servicefile = Some(path.into());
        self.give(Keyword::Servicefile)
    }

    /// Adds a server by name or address. A value that begins with `/` is the directory of a Unix
    /// socket.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Config {
        self.hosts.push(host.into());
        self.give(Keyword::Host)
    }

    /// Adds a server by the directory of its Unix socket.
    #[must_use]
    pub fn host_path(self, directory: impl AsRef<Path>) -> Config {
        self.host(directory.as_ref().to_string_lossy())
    }

    /// Adds an address. If there are hosts, it belongs to the host at the same place.
    #[must_use]
    pub fn hostaddr(mut self, address: IpAddr) -> Config {
        self.hostaddrs.push(Some(address));
        self.give(Keyword::Hostaddr)
    }

    /// Adds a port. A single port applies to all hosts, else each belongs to the host at the same
    /// place. Default 5432.
    #[must_use]
    pub fn port(mut self, port: u16) -> Config {
        self.ports.push(Some(port));
        self.give(Keyword::Port)
    }

    /// The database. Default: the user's name.
    #[must_use]
    pub fn dbname(mut self, dbname: impl Into<String>) -> Config {
        self.dbname = dbname.into();
        self.give(Keyword::Dbname)
    }

    /// The user. Default: the user of this process.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Config {
        self.user = user.into();
        self.give(Keyword::User)
    }

    /// The password. Default: the entry of the password file for the server.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Config {
        self.password = password.into();
        self.give(Keyword::Password)
    }

    /// The password file. Default `~/.pgpass`. It is ignored while group or others can read it.
    #[must_use]
    pub fn passfile(mut self, path: impl Into<PathBuf>) -> Config {
        self.passfile = Some(path.into());
        self.give(Keyword::Passfile)
    }

    /// Options for the server process, such as `-c work_mem=64MB`. Default: none.
    #[must_use]
    pub fn options(mut self, options: impl Into<String>) -> Config {
        self.options = Some(options.into());
        self.give(Keyword::Options)
    }

    /// The settings as they are now; those that aren't set have their defaults.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A URL for messages: users, hosts, ports and the database as set, `***` for a password, and
    /// no parameters.
    #[must_use]
    pub fn redacted_url(&self) -> String {
        let mut url = String::from("postgres://");
        let password = if self.password.is_empty() { "" } else { ":***" };
        if !self.user.is_empty() || !password.is_empty() {
            url += &format!("{}{password}@", encode(&self.user));
        }
        let only_port = self.ports.len() == 1;
        for place in 0..self.hosts.len().max(self.hostaddrs.len()).max(self.ports.len()) {
            if place > 0 {
                url.push(',');
            }
            match (self.hosts.get(place), self.hostaddrs.get(place)) {
                (Some(host), _) if host.contains(':') && !host.starts_with('/') => {
                    url += &format!("[{}]", host.replace(['[', ']'], ""));
                }
                (Some(host), _) => url += &encode(host).to_string(),
                (None, Some(Some(IpAddr::V6(address)))) => url += &format!("[{address}]"),
                (None, Some(Some(address))) => url += &address.to_string(),
                _ => {}
            }
            let own_port = self.ports.get(place).filter(|_| !only_port);
            let last = place + 1 == self.hosts.len().max(self.hostaddrs.len()).max(1);
            let shared_port = self.ports.first().filter(|_| only_port && last);
            if let Some(Some(port)) = own_port.or(shared_port) {
                url += &format!(":{port}");
            }
        }
        if !self.dbname.is_empty() {
            url += &format!("/{}", encode(&self.dbname));
        }
        url
    }

    /// Checks the settings together, and fills in defaults from the environment of this process:
    /// the user, the Unix sockets of this machine, the service file and the password file (which are
    /// read here, blocking), and the files in `~/.postgresql` (which are only looked for).
    ///
    /// # Errors
    /// There is no such service, or its section has a fault; hosts, addresses and ports don't match in number; a limit is zero; no user is known; a name
    /// is not a valid one; settings about TLS contradict one another.
    pub fn resolve(&self) -> Result<Resolved, ConfigError> {
        self.resolve_in(&Surroundings {
            variable: &|name| std::env::var(name).ok(),
            exists: &|path| path.exists(),
            system_user: &environment::system_user,
        })
    }

    /// The same with only one of its servers.
    pub(crate) fn only_host(&self, place: usize) -> Config {
        let port = self.ports.get(place).or(self.ports.first()).copied();
        Config {
            hosts: self.hosts.get(place).cloned().into_iter().collect(),
            hostaddrs: self.hostaddrs.get(place).copied().into_iter().collect(),
            ports: port.into_iter().collect(),
            ..self.clone()
        }
    }

    /// Whether this keyword was set.
    pub(crate) fn has(&self, keyword: Keyword) -> bool {
        self.given & bit(keyword) != 0
    }

    fn give(mut self, keyword: Keyword) -> Config {
        self.given |= bit(keyword);
        self.from_environment &= !bit(keyword);
        self
    }
}

impl FromStr for Config {
    type Err = ConfigError;

    /// Reads a URL (`postgres://` or `postgresql://`) or `keyword=value` pairs. The environment
    /// isn't read: see [`Config::or_env`].
    fn from_str(text: &str) -> Result<Config, ConfigError> {
        let mut config = Config::new();
        text::parse(&mut config, text)?;
        Ok(config)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("service", &self.service)
            .field("servicefile", &self.servicefile)
            .field("hosts", &self.hosts)
            .field("hostaddrs", &self.hostaddrs)
            .field("ports", &self.ports)
            .field("dbname", &self.dbname)
            .field("user", &self.user)
            .field("password", &Hidden(!self.password.is_empty()))
            .field("passfile", &self.passfile)
            .field("options", &Hidden(self.options.is_some()))
            .field("fallback_application_name", &self.fallback_application_name)
            .field("settings", &self.settings)
            .finish()
    }
}

/// Stands in `Debug` for a secret: `***` if it is set.
struct Hidden(bool);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "***" } else { "None" })
    }
}

fn encode(text: &str) -> impl fmt::Display {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// All but RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
