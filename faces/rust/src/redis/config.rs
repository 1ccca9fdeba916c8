//! Where a Redis or Valkey server is, who logs in, and within which limits.

mod rules;
mod url;
mod way;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use onetrip_redis::client::login::Login;
pub use onetrip_redis::client::sentinel::Reads;
pub use way::Address;

use crate::config::{ConfigError, RootCert, Settings, SslMode, WhenFull};

/// How to reach a server: built with setters, or read from a URL.
///
/// ```
/// use onetrip::redis::Config;
///
/// let config: Config = "rediss://app:secret@cache.example:6380/2?client_name=till".parse()?;
/// assert_eq!(config.redacted_url(), "rediss://app:***@cache.example:6380/2");
/// # Ok::<(), onetrip::config::ConfigError>(())
/// ```
///
/// # URLs
/// `redis://[[user]:password@][host][:port][/database][?key=value&…]`, `rediss://…` with TLS, and
/// `unix:[//][user:password@]/path/to/socket[?db=2&…]`. With Sentinels:
/// `redis+sentinel://[[user]:password@]host:port,host:port/master[/database][?key=value&…]`, and
/// `rediss+sentinel://…` with TLS to Sentinels and servers; their port is 26379 by default. Of several servers, `host:port,host:port`,
/// the first that answers is asked for the topology of a cluster. Characters outside of ASCII, and
/// `@ : / ? # %` in a user or password, must be percent-encoded. The keys are the setters' names
/// below; times are in milliseconds (`…_ms`). An unknown key is an error.
///
/// `Debug` and errors show no password.
#[derive(Clone, PartialEq)]
pub struct Config {
    pub(crate) servers: Vec<Server>,
    /// The address to connect to instead of the server's own.
    pub(crate) through: Option<SocketAddr>,
    /// The login at the servers.
    pub(crate) login: Login,
    pub(crate) database: u32,
    pub(crate) client_name: Option<String>,
    pub(crate) protocol: Protocol,
    pub(crate) is_cluster: bool,
    pub(crate) sentinel: Option<Sentinel>,
    pub(crate) replica_reads: bool,
    pub(crate) repeat_reads: bool,
    pub(crate) cache_bytes: usize,
    pub(crate) limits: Limits,
    /// Settings of TCP and TLS.
    pub(crate) transport: Settings,
}

/// One server to try.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Server {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// The servers are Sentinels.
#[derive(Clone, PartialEq)]
pub(crate) struct Sentinel {
    /// The name of the master in their configuration.
    pub(crate) master: String,
    /// The login at the Sentinels.
    pub(crate) login: Login,
    pub(crate) reads: Reads,
}

/// The protocol version to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// RESP3 if the server supports it (Redis 6 and later), RESP2 otherwise.
    #[default]
    Best,
    /// RESP2. Subscriptions then need a connection of their own.
    Resp2,
}

/// The limits of a client, each with its default.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// Time to connect to one address, login included; and time to look a name up. Default 10 s.
    pub connect_timeout: Duration,
    /// Time for a command from its call to its reply, including the time in the queue and for a
    /// connection. Default: none. It applies to blocking commands; of a
    /// [stream](super::CommandStream), it applies to the wait for the connection.
    pub request_timeout: Option<Duration>,
    /// How long a command waits for a connection: while the server is away, or for one of its own.
    /// Default 5 s.
    pub wait_timeout: Duration,
    /// How many commands may be sent and unanswered, per connection. Default 10,000, as Redis' own
    /// documentation on pipelining advises.
    pub in_flight_max: usize,
    /// How many bytes of commands may be sent and unanswered, per connection. Default 16 MiB.
    pub in_flight_bytes_max: usize,
    /// How many commands may wait for the window, per connection. Default 16,384.
    pub queue_max: usize,
    /// How many bytes of commands may wait for the window, per connection. Default 16 MiB.
    pub queue_bytes_max: usize,
    /// What happens to a command that finds the queue full. Default: it waits.
    pub when_full: WhenFull,
    /// How many bytes of commands may wait for room in the queue, per connection; further commands
    /// are refused. A single one may be longer. Default 1 GiB: callers hold these values in memory
    /// anyway.
    pub waiting_bytes_max: usize,
    /// How many bytes of one reply are kept. A larger one is dropped as it comes, and its call
    /// fails with the code `result_too_large` and the outcome `Applied`. Default 512 MiB, the
    /// largest value that Redis stores.
    pub reply_bytes_max: usize,
    /// The largest argument, in bytes. Default 512 MiB, the default limit of servers
    /// (`proto-max-bulk-len`).
    pub argument_bytes_max: usize,
    /// How many connections may be open for sessions, blocking commands and streams, beside the
    /// shared one. Default 64.
    pub connections_max: usize,
    /// How long one of these may be idle before it is closed. Default 1 min.
    pub idle_timeout: Duration,
    /// The pause after a connection could not be opened, and the longest pause. It grows with
    /// the square of the time for which that fails, and is shortened by up to half at random.
    /// Default 50 ms and 5 s.
    pub backoff: (Duration, Duration),
    /// How long bytes may lie unsent while the peer neither takes nor sends any, before the
    /// connection is given up. Default 30 s.
    pub stall_timeout: Duration,
    /// How often a command that may be repeated is sent, in all. Default 3.
    pub attempts_max: u32,
    /// How many redirects one command follows in a cluster. Default 5.
    pub redirects_max: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect_timeout: Duration::from_secs(10),
            request_timeout: None,
            wait_timeout: Duration::from_secs(5),
            in_flight_max: 10_000,
            in_flight_bytes_max: 16 << 20,
            queue_max: 16_384,
            queue_bytes_max: 16 << 20,
            when_full: WhenFull::Wait,
            waiting_bytes_max: 1 << 30,
            reply_bytes_max: 512 << 20,
            argument_bytes_max: onetrip_redis::command::ARGUMENT_BYTES_MAX,
            connections_max: 64,
            idle_timeout: Duration::from_secs(60),
            backoff: (Duration::from_millis(50), Duration::from_secs(5)),
            stall_timeout: Duration::from_secs(30),
            attempts_max: 3,
            redirects_max: 5,
        }
    }
}

/// The port of Redis.
pub(crate) const PORT: u16 = 6379;

impl Config {
    /// The server at 127.0.0.1:6379, without a password.
    #[must_use]
    pub fn new() -> Config {
        Config {
            servers: Vec::new(),
            through: None,
            login: Login::default(),
            database: 0,
            client_name: None,
            protocol: Protocol::Best,
            is_cluster: false,
            sentinel: None,
            replica_reads: false,
            repeat_reads: false,
            cache_bytes: 0,
            limits: Limits::default(),
            transport: Settings { sslmode: SslMode::Disable, ..Settings::default() },
        }
    }

    /// Adds a server, without TLS unless [`tls`](Self::tls) is called.
    #[must_use]
    pub fn server(mut self, host: impl Into<String>, port: u16) -> Config {
        self.servers.push(Server::Tcp { host: host.into(), port });
        self
    }

    /// Adds a server by the file of its Unix socket.
    #[must_use]
    pub fn unix(mut self, path: impl Into<PathBuf>) -> Config {
        self.servers.push(Server::Unix(path.into()));
        self
    }

    /// The ACL user to log in as, with an empty password if there is no other. Default, also for an
    /// empty name: the server's user `default`.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Config {
        self.login.user = Some(user.into());
        self
    }

    /// The password. Default: none, and an empty one is none.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Config {
        self.login.password = Some(password.into());
        self
    }

    /// The number of the database. Default 0, the only one that a cluster has.
    #[must_use]
    pub fn database(mut self, database: u32) -> Config {
        self.database = database;
        self
    }

    /// The name of the connections in `CLIENT LIST`. Default: none.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Config {
        self.client_name = Some(name.into());
        self
    }

    /// The protocol version to use. Default: RESP3 if the server supports it. Key `protocol`: `2`
    /// or `3`.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Config {
        self.protocol = protocol;
        self
    }

    /// Whether the servers are nodes of a cluster: then the others are found through them, and each
    /// command goes to the node that has its keys. Default: no. Key `cluster`: 0, 1.
    #[must_use]
    pub fn cluster(mut self, is_cluster: bool) -> Config {
        self.is_cluster = is_cluster;
        self
    }

    /// In a cluster, whether reads go to replicas if there are any; replicas may lag behind.
    /// Default: no. Key `replica_reads`: 0, 1.
    #[must_use]
    pub fn replica_reads(mut self, replica_reads: bool) -> Config {
        self.replica_reads = replica_reads;
        self
    }

    /// The servers are Sentinels, of which a majority must be reachable: they are asked which server
    /// is the master with this name in their configuration, and the client follows it when it
    /// changes. User, password and database are for the master; TLS is for both. Default: no.
    #[must_use]
    pub fn sentinel(mut self, master: impl Into<String>) -> Config {
        self.of_sentinels().master = master.into();
        self
    }

    /// The ACL user to log in to the Sentinels as, with an empty password if there is no other.
    /// Default: their user `default`. Key `sentinel_username`.
    #[must_use]
    pub fn sentinel_user(mut self, user: impl Into<String>) -> Config {
        self.of_sentinels().login.user = Some(user.into());
        self
    }

    /// The password for the Sentinels. Default: none. Key `sentinel_password`.
    #[must_use]
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Config {
        self.of_sentinels().login.password = Some(password.into());
        self
    }

    /// With Sentinels: who answers commands that only read, and that are sent by themselves. Default:
    /// the master. Key `reads`: `master`, `replica`, `prefer_replica`.
    #[must_use]
    pub fn reads(mut self, reads: Reads) -> Config {
        self.of_sentinels().reads = reads;
        self
    }

    fn of_sentinels(&mut self) -> &mut Sentinel {
        self.sentinel.get_or_insert_with(|| Sentinel {
            master: "mymaster".into(),
            login: Login::default(),
            reads: Reads::Master,
        })
    }

    /// Whether commands that only read (according to the server's table of commands) are sent again
    /// after a lost connection, as with [`repeatable`](super::Client::repeatable). Default: no. Key
    /// `repeat_reads`: 0, 1.
    #[must_use]
    pub fn repeat_reads(mut self, repeat_reads: bool) -> Config {
        self.repeat_reads = repeat_reads;
        self
    }

    /// How many bytes of replies are kept in the client, until the server says that one of their
    /// keys was changed (client-side caching). They count with their commands, their keys, and what
    /// it takes to find them. Default: 0, none. Key `cache`: a number of bytes, or of `KiB`, `MiB` or
    /// `GiB`.
    ///
    /// It needs RESP3 and the right to send CLIENT TRACKING; without them nothing is kept, and
    /// [`CacheMetrics::is_on`](crate::CacheMetrics) says so. It is refused in clusters, and with
    /// [`Protocol::Resp2`].
    #[must_use]
    pub fn cache(mut self, bytes: usize) -> Config {
        self.cache_bytes = bytes;
        self
    }

    /// Whether and how connections are encrypted. `rediss://` means `VerifyFull`. `Allow` and
    /// `Prefer` count as `Require`, since a port either has TLS or not. Key `sslmode`.
    #[must_use]
    pub fn tls(mut self, mode: SslMode) -> Config {
        self.transport.sslmode = match mode {
            SslMode::Allow | SslMode::Prefer => SslMode::Require,
            mode => mode,
        };
        self
    }

    /// The authorities that may have signed the server's certificate. Default: those that the
    /// system trusts. Key `sslrootcert`: a PEM file, or `system`.
    #[must_use]
    pub fn root_cert(mut self, root: RootCert) -> Config {
        self.transport.sslrootcert = Some(root);
        self
    }

    /// The client's certificate and its key, as PEM files. Default: none. Keys `sslcert` and
    /// `sslkey`.
    #[must_use]
    pub fn client_cert(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Config {
        self.transport.sslcert = Some(cert.into());
        self.transport.sslkey = Some(key.into());
        self
    }

    /// Changes the limits.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let config = onetrip::redis::Config::new().limits(|limits| limits.in_flight_max = 1_000);
    /// ```
    #[must_use]
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Config {
        change(&mut self.limits);
        self
    }

    /// A URL for messages: `***` for a password, and no keys.
    #[must_use]
    pub fn redacted_url(&self) -> String {
        url::redacted(self)
    }

    /// The servers to try: those that were added, or the one on this machine.
    pub(crate) fn servers(&self) -> Vec<Server> {
        match self.servers.is_empty() {
            true => vec![Server::Tcp { host: "127.0.0.1".into(), port: PORT }],
            false => self.servers.clone(),
        }
    }

    /// Who answers commands that only read.
    pub(crate) fn reads_from(&self) -> Reads {
        self.sentinel.as_ref().map_or(Reads::Master, |sentinel| sentinel.reads)
    }

    /// The transport's settings, with those that follow from others.
    pub(crate) fn transport(&self) -> Settings {
        let mut settings = self.transport.clone();
        if settings.sslmode >= SslMode::VerifyCa && settings.sslrootcert.is_none() {
            settings.sslrootcert = Some(RootCert::System);
        }
        settings
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::new()
    }
}

impl FromStr for Config {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Config, ConfigError> {
        url::parse(text)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Server::Tcp { host, port } => write!(f, "{host}:{port}"),
            Server::Unix(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &self.redacted_url())
            .field("client_name", &self.client_name)
            .field("protocol", &self.protocol)
            .field("is_cluster", &self.is_cluster)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
