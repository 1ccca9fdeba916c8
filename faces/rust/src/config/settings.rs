//! The settings that have a default, as plain values. [`Config`](super::Config) sets them, and the
//! connection reads them.

use std::path::PathBuf;
use std::time::Duration;

pub use onetrip_engine::pool::IdleOrder;
use onetrip_engine::pool::Limits;
pub use onetrip_postgres::client::connect::{LoadBalanceHosts, TargetSessionAttrs};
pub use onetrip_postgres::client::replicas::Reads;

use super::tls::{ChannelBinding, RootCert, SslCertMode, SslMode, SslNegotiation, TlsVersion};

/// All settings except who connects where. Each field names its default and unit; the setter of
/// [`Config`](super::Config) and the keyword of a connection string have the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Name shown in `pg_stat_activity`, or the fallback name if only that was given. Default:
    /// none.
    pub application_name: Option<String>,
    /// Time to connect to one address, login included; and time to look a name up. Default 10 s
    /// (libpq: no limit); `None` (keyword `connect_timeout=0`, in seconds) is no limit.
    pub connect_timeout: Option<Duration>,
    /// Whether TCP keepalives are on. Default: on.
    pub keepalives: bool,
    /// Silence before the first keepalive. Default 30 s; `None` (keyword: 0 s) leaves it to the
    /// system.
    pub keepalives_idle: Option<Duration>,
    /// Time between unanswered keepalives. Default 10 s; `None` (keyword: 0 s) leaves it to the
    /// system.
    pub keepalives_interval: Option<Duration>,
    /// How many unanswered keepalives make the connection count as dead. Default 3; `None`
    /// (keyword: 0) leaves it to the system.
    pub keepalives_count: Option<u32>,
    /// How long sent bytes may stay unacknowledged by the peer's TCP (`TCP_USER_TIMEOUT`, Linux).
    /// Default 30 s; `None` (keyword: 0 ms) leaves it to the system.
    pub tcp_user_timeout: Option<Duration>,
    /// Which kind of server is acceptable. Default: any.
    pub target_session_attrs: TargetSessionAttrs,
    /// In which order the servers are tried. Default: as they are listed.
    pub load_balance_hosts: LoadBalanceHosts,
    /// The oldest protocol version to accept. Default 3.0.
    pub min_protocol_version: ProtocolVersion,
    /// The protocol version to ask for. Default 3.0, since some poolers refuse anything newer.
    pub max_protocol_version: ProtocolVersion,
    /// Whether the connection is encrypted, and how the server is verified. Default: prefer, which
    /// does not protect from anybody who can change what is sent; with `sslrootcert=system`,
    /// verify-full. A Unix socket is never encrypted.
    pub sslmode: SslMode,
    /// How TLS begins. Default: the server is asked first.
    pub sslnegotiation: SslNegotiation,
    /// The file with the client's certificate, in PEM, with those of the authorities between it and
    /// the one that the server trusts. Default: `~/.postgresql/postgresql.crt` if it exists, else
    /// none.
    pub sslcert: Option<PathBuf>,
    /// The file with the key of `sslcert`, in PEM or DER, and not encrypted. Its group and others
    /// must not be able to read it (if root owns it, the group may). Default:
    /// `~/.postgresql/postgresql.key` if there is a certificate.
    pub sslkey: Option<PathBuf>,
    /// Whether the certificate of `sslcert` is sent to a server that asks for one. Default: if there
    /// is one. With `SslCertMode::Disable` there is none, and `sslcert` has no effect.
    pub sslcertmode: SslCertMode,
    /// The authorities that may have signed the server's certificate. Used by the modes from
    /// require on. Default: `~/.postgresql/root.crt` if it exists, else none.
    pub sslrootcert: Option<RootCert>,
    /// The file with lists of revoked certificates, in PEM, for every authority below the root.
    /// Default: `~/.postgresql/root.crl` if it exists (not with `sslrootcert=system`), else no
    /// certificate counts as revoked.
    pub sslcrl: Option<PathBuf>,
    /// Whether the name in `host` is sent to the server unencrypted (SNI), for proxies that route
    /// by it. An address is never sent. Default: yes.
    pub sslsni: bool,
    /// The oldest TLS version. Default 1.2, and older ones are not supported: the keyword accepts
    /// `TLSv1` and `TLSv1.1` and means 1.2.
    pub ssl_min_protocol_version: TlsVersion,
    /// The newest TLS version. Default: no limit (1.3).
    pub ssl_max_protocol_version: Option<TlsVersion>,
    /// Whether the login is bound to the TLS connection. Default: if the server offers it.
    pub channel_binding: ChannelBinding,
    /// The methods of authentication that the server may ask for. Default: all that are supported.
    pub require_auth: RequireAuth,
    /// Whether a password may cross the network readable (cleartext) or nearly so (MD5). Default:
    /// no. It always may over a Unix socket, to a loopback address (see
    /// [`allows_plain_password`](Self::allows_plain_password)), and over TLS with a verified
    /// server.
    pub allow_plain_password: bool,
    /// The most SCRAM iterations that a server may ask for, so that a hostile one can't burn CPU.
    /// Default 100,000 (some 50 ms); PostgreSQL's own default is 4,096.
    pub scram_iterations_max: u32,
    /// How many requests may be sent and unanswered, per connection. Default 1,024.
    pub in_flight_max: usize,
    /// How many bytes of requests may be sent and unanswered, per connection. Default 1 MiB.
    pub in_flight_bytes_max: usize,
    /// Whether a connection sends nothing behind a sync point that the server has not answered. A
    /// statement then waits for the one before it on its connection, and a pipeline leaves in one
    /// piece, up to its next sync point. Default: no. For poolers that release the server at its
    /// first answer (PgBouncer before 1.21 in transaction mode). Keyword `one_segment` (0, 1).
    pub one_segment: bool,
    /// How many requests may wait to be sent, per connection. Default 16,384.
    pub queue_max: usize,
    /// How many bytes of requests may wait to be sent, per connection. Default 16 MiB.
    pub queue_bytes_max: usize,
    /// What happens to a request that finds the queue full. Default: it waits.
    pub when_full: WhenFull,
    /// How many bytes of requests may wait for room in the queue, per connection; further requests
    /// are refused. A single one may be longer. With the default of 8 MiB, a connection whose
    /// server takes nothing, and a thousand tasks that want more, stay within 64 MiB (`make bench
    /// ONLY=overload_rss`).
    pub waiting_bytes_max: usize,
    /// How many bytes of one result are kept in memory, as they came over the wire; of a stream,
    /// how many of one row. A larger result is dropped as it comes, and the call fails with the
    /// code `result_too_large` and the outcome `Applied`: the statement has run. Read such results
    /// with `query_stream`. Default 256 MiB: more than a program reads on purpose, and less than
    /// would exhaust its memory. 0 is no limit.
    pub result_bytes_max: usize,
    /// At which use of a statement's text, counted over all connections, it is prepared: from then
    /// on the server keeps its plan. Default 5. 1 prepares at the first use. 0 never prepares; use
    /// it with a pooler that does not support prepared statements (PgBouncer before 1.21 in
    /// transaction mode).
    pub prepare_threshold: u32,
    /// How many statements that were prepared by counting a connection keeps; the least recently
    /// used is closed. Each costs memory on the server, a few KiB to some MiB. Default 256.
    pub prepared_max: usize,
    /// How many connections a client opens at most. Default 10.
    pub connections_max: usize,
    /// How many connections a client keeps open even if they are idle. Default 0.
    pub connections_min: usize,
    /// How long a session, or a statement that finds no connection, waits for one. Default 30 s.
    /// Keyword `wait_timeout_ms`, at least 1.
    pub wait_timeout: Duration,
    /// How many callers may wait for a connection; further ones are refused. Default 16,384.
    /// Callers for whom a connection is being opened do not count.
    pub waiting_max: usize,
    /// How long a connection may be idle before it is closed, unless only `connections_min` are
    /// left. Default 10 min. Keyword `idle_timeout_ms`, at least 1.
    pub idle_timeout: Duration,
    /// The age at which a connection is replaced, with up to 10 % more or less for each, so that
    /// not all are replaced at once. Default 30 min. Keyword `lifetime_ms`, at least 1.
    pub lifetime: Duration,
    /// If a connection's oldest unanswered statement is older than this, the connection gets no
    /// statements of other callers as long as another connection can take them. Default 10 ms; set
    /// it well above the round trip. Less than 1 ms counts as 1 ms. Keyword `slow_head_ms`, at
    /// least 1.
    pub slow_head: Duration,
    /// How long a statement may hold up others that wait behind it on its shared connection. Then
    /// it is cancelled at the server and sent again behind them; its caller notices only the time.
    /// That frees those that wait behind a lock whose holder waits for one of them. Default 500 ms,
    /// at least 10 ms; `None` for never. With `connections_max = 1` statements keep their order, and
    /// none is taken away. Keyword `yield_after_ms`; 0 for never.
    pub yield_after: Option<Duration>,
    /// Which of several idle connections is taken first. Default: the one that was used last.
    pub idle_order: IdleOrder,
    /// Time for a request, from its call to the end of its answer, including the time in the queue.
    /// Default: no limit. Keyword `request_timeout_ms`; 0 is no limit.
    pub request_timeout: Option<Duration>,
    /// What spans and events of the feature `tracing` may quote. With `text`, they quote the texts
    /// of statements and notices, which may hold values. Parameters are never quoted. Default:
    /// nothing.
    pub log_statements: LogStatements,
    /// How long bytes may lie unsent while the peer neither takes nor sends any, before the
    /// connection is given up. Default 30 s. Keyword `stall_timeout_ms`, at least 1.
    pub stall_timeout: Duration,
    /// Whether the server is asked to cancel a statement whose deadline has passed while it is in
    /// flight, if that harms no other caller's statement. Default: yes. Keyword `cancel_on_timeout`
    /// (0, 1).
    pub cancel_on_timeout: bool,
    /// The same for a statement whose reply was dropped. Default: no; it runs to its end. Keyword
    /// `cancel_on_drop` (0, 1).
    pub cancel_on_drop: bool,
    /// How many connections a client opens at once to cancel statements. Each lasts about two round
    /// trips, and costs the server a process for that time. Further cancels wait, and their
    /// statements run on. Default 4; 0 cancels nothing at the server.
    pub cancels_max: usize,
    /// Time to open such a connection, and then for the server to close it. Until it has, new
    /// statements wait. If the time passes, the connection whose statement was to be cancelled
    /// finishes its requests, and is closed. Default 5 s. Keyword `cancel_timeout_ms`, at least 1.
    pub cancel_timeout: Duration,
    /// Where the reads of [`Client::reads`](crate::Client::reads) go, out of the servers of the
    /// list. Each replica gets a pool of its own, with the limits of this client. With anything but
    /// the default, `target_session_attrs` is `primary` unless it was set, and flights that may
    /// have written carry a question for their position. Default: to the primary, as all else.
    /// Keyword `reads` (primary, `prefer_replica`, replica).
    pub reads: Reads,
    /// How far a replica may be behind to serve reads, by the time of the last transaction that it
    /// has replayed; one that has replayed all that it received, and receives, is not behind. The
    /// clocks of the servers must agree for that. Default: no limit. Keyword `max_lag_ms`; 0 is no
    /// limit.
    pub max_lag: Option<Duration>,
}

impl Settings {
    /// Whether a cleartext or MD5 password may go to this peer without TLS; `None` is a Unix
    /// socket.
    #[must_use]
    pub fn allows_plain_password(&self, peer: Option<std::net::IpAddr>) -> bool {
        self.allow_plain_password || peer.is_none_or(|address| address.to_canonical().is_loopback())
    }
}

impl Default for Settings {
    fn default() -> Settings {
        let pool = Limits::default();
        Settings {
            application_name: None,
            connect_timeout: Some(Duration::from_secs(10)),
            keepalives: true,
            keepalives_idle: Some(Duration::from_secs(30)),
            keepalives_interval: Some(Duration::from_secs(10)),
            keepalives_count: Some(3),
            tcp_user_timeout: Some(Duration::from_secs(30)),
            target_session_attrs: TargetSessionAttrs::Any,
            load_balance_hosts: LoadBalanceHosts::Disable,
            min_protocol_version: ProtocolVersion::V3_0,
            max_protocol_version: ProtocolVersion::V3_0,
            sslmode: SslMode::Prefer,
            sslnegotiation: SslNegotiation::Postgres,
            sslcert: None,
            sslkey: None,
            sslcertmode: SslCertMode::Allow,
            sslrootcert: None,
            sslcrl: None,
            sslsni: true,
            ssl_min_protocol_version: TlsVersion::V1_2,
            ssl_max_protocol_version: None,
            channel_binding: ChannelBinding::Prefer,
            require_auth: RequireAuth::default(),
            allow_plain_password: false,
            scram_iterations_max: 100_000,
            in_flight_max: 1_024,
            in_flight_bytes_max: 1 << 20,
            one_segment: false,
            queue_max: 16_384,
            queue_bytes_max: 16 << 20,
            when_full: WhenFull::Wait,
            waiting_bytes_max: 8 << 20,
            result_bytes_max: 256 << 20,
            prepare_threshold: 5,
            prepared_max: 256,
            connections_max: pool.connections_max,
            connections_min: pool.connections_min,
            wait_timeout: pool.wait_timeout,
            waiting_max: pool.waiting_max,
            idle_timeout: pool.idle_timeout,
            lifetime: pool.lifetime,
            slow_head: pool.slow_head,
            yield_after: Some(pool.yield_after),
            idle_order: pool.idle_order,
            request_timeout: None,
            log_statements: LogStatements::None,
            stall_timeout: Duration::from_secs(30),
            cancel_on_timeout: true,
            cancel_on_drop: false,
            cancels_max: 4,
            cancel_timeout: Duration::from_secs(5),
            reads: Reads::default(),
            max_lag: None,
        }
    }
}

/// What `tracing` is told of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStatements {
    /// The first word of a statement only.
    None,
    /// The text of statements, and of notices.
    Text,
}

/// What happens to a request that finds the queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits for room and keeps its place.
    Wait,
    /// It fails at once; no byte of it was sent.
    Refuse,
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// 3.0: every server since 7.4.
    V3_0,
    /// 3.2: PostgreSQL 18 and later; long cancel keys.
    V3_2,
}

/// A method by which a server authenticates a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AuthMethod {
    /// No authentication (`trust`, `peer`, a client's certificate).
    None = 1,
    /// The password itself.
    Password = 2,
    /// A hash of the password by MD5.
    Md5 = 4,
    /// SCRAM-SHA-256.
    ScramSha256 = 8,
}

/// The methods of authentication that a server may ask for (libpq's `require_auth`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequireAuth(u8);

impl RequireAuth {
    /// Only these methods.
    #[must_use]
    pub fn only(methods: &[AuthMethod]) -> RequireAuth {
        RequireAuth(methods.iter().fold(0, |all, &method| all | method as u8))
    }

    /// Whether the server may use this method. With [`AuthMethod::None`]: whether it may skip
    /// authentication.
    #[must_use]
    pub fn allows(self, method: AuthMethod) -> bool {
        self.0 & method as u8 != 0
    }

    /// Reads a list such as `scram-sha-256,password` or `!password,!md5`; `None` if it isn't one.
    /// libpq's names of methods that this client does not have are accepted and ignored.
    pub(super) fn parse(list: &str) -> Option<RequireAuth> {
        let negated = list.trim_start().starts_with('!');
        let mut named = 0;
        for name in list.split(',') {
            let name = name.trim();
            let bare = name.strip_prefix('!').unwrap_or(name);
            if negated != name.starts_with('!') {
                return None;
            }
            named |= match bare {
                "none" => AuthMethod::None as u8,
                "password" => AuthMethod::Password as u8,
                "md5" => AuthMethod::Md5 as u8,
                "scram-sha-256" => AuthMethod::ScramSha256 as u8,
                "gss" | "sspi" | "oauth" => 0,
                _ => return None,
            };
        }
        let allowed = if negated { RequireAuth::default().0 & !named } else { named };
        (allowed != 0).then_some(RequireAuth(allowed))
    }
}

impl Default for RequireAuth {
    fn default() -> RequireAuth {
        use AuthMethod::{Md5, None, Password, ScramSha256};
        RequireAuth::only(&[None, Password, Md5, ScramSha256])
    }
}
