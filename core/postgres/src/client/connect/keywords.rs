//! The keywords of a connection string, for every language, and the words with which a wrong value
//! is refused. The table of the Node packages is generated from this one (`scripts/keywords`).

/// The form of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Any text, or text with a syntax of its own.
    Text,
    /// A whole number that is at least this one.
    From(u8),
    /// A whole number; 0 means no limit.
    Limit,
    /// One of [`SWITCH`].
    Switch,
    /// One of these words.
    Words(&'static [&'static str]),
}

/// Whether the packages for Node accept a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// With the same form.
    Yes,
    /// With this form.
    As(Form),
    /// Not at all.
    No,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Which setting it is.
    pub keyword: Keyword,
    /// Its name, which is libpq's if libpq has the setting.
    pub name: &'static str,
    /// The environment variable that libpq reads for it; empty if there is none.
    pub variable: &'static str,
    /// The form of its value.
    pub form: Form,
    /// The value that an empty text stands for; empty if it can't be written as text.
    pub default: &'static str,
    /// Whether the packages for Node accept it.
    pub node: Node,
    /// A sentence that says what it is.
    pub about: &'static str,
}

const ENCODINGS: &[&str] = &["auto", "UTF8", "utf8", "UTF-8", "utf-8", "unicode"];
/// The words of [`SslMode`](super::SslMode).
pub const SSL_MODES: &[&str] =
    &["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
/// The words of [`TargetSessionAttrs`](super::TargetSessionAttrs).
pub const TARGETS: &[&str] =
    &["any", "read-write", "read-only", "primary", "standby", "prefer-standby"];
/// The words of [`SslNegotiation`](super::SslNegotiation).
pub const NEGOTIATIONS: &[&str] = &["postgres", "direct"];
/// The words of [`LoadBalanceHosts`](super::LoadBalanceHosts).
pub const ORDERS: &[&str] = &["disable", "random"];
const VERSIONS: &[&str] = &["3.0", "3.2", "latest"];

macro_rules! keywords {
    ($(#[doc = $about:literal] $keyword:ident = $name:literal, $variable:literal, $form:expr,
       $default:literal, $node:expr;)*) => {
        /// A setting that can be written as text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Keyword {
            $(#[doc = $about] $keyword,)*
        }

        /// All settings, in the order of [`Keyword`].
        pub const KEYWORDS: &[Row] = {
            use Form::*;
            use Node::*;
            &[$(Row {
                keyword: Keyword::$keyword,
                name: $name,
                variable: $variable,
                form: $form,
                default: $default,
                node: $node,
                about: $about,
            },)*]
        };
    };
}

keywords! {
    /// The section of the service file whose settings hold where nothing else is set.
    Service = "service", "PGSERVICE", Text, "", Yes;
    /// The service file.
    Servicefile = "servicefile", "PGSERVICEFILE", Text, "", Yes;
    /// Names, addresses or directories of Unix sockets, in the order to try them.
    Host = "host", "PGHOST", Text, "", Yes;
    /// The address of each host, in the same order, which saves the lookup.
    Hostaddr = "hostaddr", "PGHOSTADDR", Text, "", Yes;
    /// One port for all hosts, or one for each.
    Port = "port", "PGPORT", Text, "5432", Yes;
    /// The database; by default the one with the user's name.
    Dbname = "dbname", "PGDATABASE", Text, "", Yes;
    /// The role that logs in; by default the user of this process.
    User = "user", "PGUSER", Text, "", Yes;
    /// The password; by default it is looked up in the password file.
    Password = "password", "PGPASSWORD", Text, "", Yes;
    /// The password file.
    Passfile = "passfile", "PGPASSFILE", Text, "", Yes;
    /// The name that the server shows for the connection.
    ApplicationName = "application_name", "PGAPPNAME", Text, "", Yes;
    /// The application name to use if no other is given.
    FallbackApplicationName = "fallback_application_name", "", Text, "", Yes;
    /// Options for the server process.
    Options = "options", "PGOPTIONS", Text, "", Yes;
    /// The encoding of texts, which is UTF-8.
    ClientEncoding = "client_encoding", "PGCLIENTENCODING", Words(ENCODINGS), "auto", Yes;
    /// Seconds for each address, its login included.
    ConnectTimeout = "connect_timeout", "PGCONNECT_TIMEOUT", Limit, "10", Yes;
    /// Whether TCP keepalives are on.
    Keepalives = "keepalives", "", Switch, "1", Yes;
    /// Seconds of silence before the first keepalive.
    KeepalivesIdle = "keepalives_idle", "", Limit, "30", Yes;
    /// Seconds between keepalives that aren't answered.
    KeepalivesInterval = "keepalives_interval", "", Limit, "10", No;
    /// Unanswered keepalives until the connection counts as dead.
    KeepalivesCount = "keepalives_count", "", Limit, "3", No;
    /// Milliseconds that sent bytes may stay unacknowledged.
    TcpUserTimeout = "tcp_user_timeout", "", Limit, "30000", No;
    /// Which servers of the list are accepted.
    TargetSessionAttrs =
        "target_session_attrs", "PGTARGETSESSIONATTRS", Words(TARGETS), "any", Yes;
    /// In which order servers are tried.
    LoadBalanceHosts =
        "load_balance_hosts", "PGLOADBALANCEHOSTS", Words(ORDERS), "disable", Yes;
    /// The oldest protocol that the server may speak.
    MinProtocolVersion = "min_protocol_version", "PGMINPROTOCOLVERSION", Words(VERSIONS), "3.0", No;
    /// The protocol that is asked for.
    MaxProtocolVersion = "max_protocol_version", "PGMAXPROTOCOLVERSION", Words(VERSIONS), "3.0", No;
    /// Whether the connection is encrypted, and the server verified.
    Sslmode = "sslmode", "PGSSLMODE", Words(SSL_MODES), "prefer", Yes;
    /// Whether the server is asked for TLS, or TLS begins at once.
    Sslnegotiation =
        "sslnegotiation", "PGSSLNEGOTIATION", Words(NEGOTIATIONS), "postgres", Yes;
    /// The file with the client's certificate.
    Sslcert = "sslcert", "PGSSLCERT", Text, "", Yes;
    /// The file with the client's key.
    Sslkey = "sslkey", "PGSSLKEY", Text, "", Yes;
    /// The password of an encrypted key file. Rust reads no such files.
    Sslpassword = "sslpassword", "", Text, "", Yes;
    /// Whether the client's certificate is sent if the server asks for it.
    Sslcertmode = "sslcertmode", "PGSSLCERTMODE", Words(&["disable", "allow"]), "allow", Yes;
    /// The file with the authorities that are trusted, or system.
    Sslrootcert = "sslrootcert", "PGSSLROOTCERT", Text, "", Yes;
    /// The file with lists of revoked certificates.
    Sslcrl = "sslcrl", "PGSSLCRL", Text, "", Yes;
    /// Whether the host's name is sent in clear text (SNI).
    Sslsni = "sslsni", "PGSSLSNI", Words(&["0", "1"]), "1", Yes;
    /// The oldest TLS to speak.
    SslMinProtocolVersion =
        "ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", Text, "TLSv1.2", Yes;
    /// The newest TLS to speak.
    SslMaxProtocolVersion = "ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", Text, "", Yes;
    /// GSSAPI encryption, which is not supported.
    Gssencmode = "gssencmode", "PGGSSENCMODE", Words(&["disable", "prefer"]), "prefer", Yes;
    /// Whether the login is bound to the TLS connection.
    ChannelBinding =
        "channel_binding", "PGCHANNELBINDING", Words(&["disable", "prefer", "require"]), "prefer",
        As(Words(&["disable", "prefer"]));
    /// The ways of authentication that the server may ask for.
    RequireAuth = "require_auth", "PGREQUIREAUTH", Text, "", No;
    /// Whether a password may be sent where others could read it.
    AllowPlainPassword = "allow_plain_password", "", Switch, "0", Yes;
    /// SCRAM iterations that a server may demand.
    ScramIterationsMax = "scram_iterations_max", "", From(1), "100000", Yes;
    /// Requests sent and not yet answered, per connection.
    InFlightMax = "in_flight_max", "", From(1), "1024", Yes;
    /// Bytes of requests sent and not yet answered, per connection.
    InFlightBytesMax = "in_flight_bytes_max", "", From(1), "1048576", Yes;
    /// Requests that wait to be sent, per connection.
    QueueMax = "queue_max", "", From(1), "16384", Yes;
    /// Bytes of requests that wait to be sent, per connection.
    QueueBytesMax = "queue_bytes_max", "", From(1), "16777216", Yes;
    /// What happens to a request that finds the queue full.
    WhenFull = "when_full", "", Words(&["wait", "refuse"]), "wait", No;
    /// Bytes of the requests that wait for room in the queue.
    WaitingBytesMax = "waiting_bytes_max", "", From(1), "8388608", No;
    /// Bytes of one result that are kept in memory; 0: any number.
    ResultBytesMax = "result_bytes_max", "", From(0), "268435456", Yes;
    /// The use of a text at which it is prepared; 0: never.
    PrepareThreshold = "prepare_threshold", "", From(0), "5", Yes;
    /// Statements that a connection keeps prepared.
    PreparedMax = "prepared_max", "", From(1), "256", As(From(0));
    /// Connections that a client opens at most.
    ConnectionsMax = "connections_max", "", From(1), "10", Yes;
    /// Connections that a client keeps open.
    ConnectionsMin = "connections_min", "", From(0), "0", Yes;
    /// Milliseconds that a caller waits for a connection.
    WaitTimeoutMs = "wait_timeout_ms", "", From(1), "30000", Yes;
    /// Callers that may wait for a connection.
    WaitingMax = "waiting_max", "", From(0), "16384", Yes;
    /// Milliseconds after which an idle connection is closed.
    IdleTimeoutMs = "idle_timeout_ms", "", From(1), "600000", Yes;
    /// Milliseconds after which a connection is replaced.
    LifetimeMs = "lifetime_ms", "", From(1), "1800000", Yes;
    /// Milliseconds after which a connection's oldest statement is slow.
    SlowHeadMs = "slow_head_ms", "", From(1), "10", Yes;
    /// Milliseconds that a statement may hold up others behind it on its shared connection.
    YieldAfterMs = "yield_after_ms", "", Limit, "500", Yes;
    /// Which of several idle connections is taken first.
    IdleOrder = "idle_order", "", Words(&["lifo", "fifo", "newest", "oldest"]), "lifo", Yes;
    /// Milliseconds that a request may take.
    RequestTimeoutMs = "request_timeout_ms", "", Limit, "0", Yes;
    /// What spans and events quote of statements.
    LogStatements = "log_statements", "", Words(&["none", "text"]), "none", No;
    /// Milliseconds that bytes may lie unsent while nothing moves.
    StallTimeoutMs = "stall_timeout_ms", "", From(1), "30000", Yes;
    /// Whether a statement that is late is cancelled at the server.
    CancelOnTimeout = "cancel_on_timeout", "", Switch, "1", Yes;
    /// Whether a statement whose reply was dropped is cancelled at the server.
    CancelOnDrop = "cancel_on_drop", "", Switch, "0", No;
    /// Connections that a client opens at once to cancel statements.
    CancelsMax = "cancels_max", "", From(0), "4", No;
    /// Milliseconds that such a cancel may take.
    CancelTimeoutMs = "cancel_timeout_ms", "", From(1), "5000", No;
    /// Where reads go that may go to a replica.
    Reads = "reads", "", Words(&["primary", "prefer_replica", "replica"]), "primary", Yes;
    /// Milliseconds that a replica may be behind; 0: any number.
    MaxLagMs = "max_lag_ms", "", Limit, "0", Yes;
    /// Whether the next segment waits until the sync point before it is answered.
    OneSegment = "one_segment", "", Switch, "0", No;
}

impl Keyword {
    /// The keyword of this name.
    pub fn named(name: &str) -> Option<Keyword> {
        KEYWORDS.iter().find(|row| row.name == name).map(|row| row.keyword)
    }

    /// Its row of the table.
    pub fn row(self) -> &'static Row {
        &KEYWORDS[self as usize]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().name
    }
}

/// Keywords that the package for Python does not carry out, and so does not have.
pub const NOT_IN_PYTHON: &[Keyword] = &[
    Keyword::MinProtocolVersion,
    Keyword::MaxProtocolVersion,
    Keyword::RequireAuth,
    Keyword::WhenFull,
    Keyword::WaitingBytesMax,
    Keyword::RequestTimeoutMs,
    Keyword::LogStatements,
    Keyword::CancelOnTimeout,
    Keyword::CancelOnDrop,
    Keyword::CancelsMax,
    Keyword::CancelTimeoutMs,
    Keyword::OneSegment,
];

/// Off and on, alternating.
pub const SWITCH: &[&str] = &["false", "true", "0", "1", "off", "on"];

/// Keywords of libpq that need something that this version lacks, with a name for that. They are
/// refused rather than ignored, since each is a promise.
pub const UNSUPPORTED: &[(&str, &str)] = &[
    ("sslcrldir", "a directory of revocation lists"),
    ("sslcompression", "compression by TLS"),
    ("sslkeylogfile", "a log of TLS keys"),
    ("requiressl", "what sslmode=require says today"),
    ("krbsrvname", "GSSAPI"),
    ("gsslib", "GSSAPI"),
    ("gssdelegation", "GSSAPI"),
    ("requirepeer", "checking the server's user on a Unix socket"),
    ("replication", "the replication protocol"),
    ("scram_client_key", "SCRAM by key"),
    ("scram_server_key", "SCRAM by key"),
    ("oauth_issuer", "OAuth"),
    ("oauth_client_id", "OAuth"),
    ("oauth_client_secret", "OAuth"),
    ("oauth_scope", "OAuth"),
];

/// Variables that ask for what this version lacks, with a name for that. They are refused too.
pub const UNSUPPORTED_VARIABLES: &[(&str, &str)] = &[
    ("PGSSLCRLDIR", "a directory of revocation lists"),
    ("PGREQUIREPEER", "checking the server's user on a Unix socket"),
];

/// Variables that ask a language for settings that it does not have: the name, the value that asks
/// for nothing, and what it asks for. `has` says which settings it has.
pub fn lacking_in(
    has: impl Fn(&Row) -> bool,
) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let everywhere = UNSUPPORTED_VARIABLES.iter().map(|&(name, what)| (name, "", what));
    let rows = KEYWORDS.iter().filter(move |row| !row.variable.is_empty() && !has(row));
    // An older protocol than the newest is always spoken.
    let rows = rows.filter(|row| row.keyword != Keyword::MaxProtocolVersion);
    everywhere.chain(rows.map(|row| (row.variable, row.default, row.name)))
}

/// Parts of the messages about a refused value. They follow the name of its keyword.
pub mod says {
    /// The words follow.
    pub const ONE_OF: &str = "takes one of ";
    /// The value is not a number.
    pub const WHOLE: &str = "takes a whole number";
    /// The least number follows.
    pub const AT_LEAST: &str = "must be at least ";
    /// The largest number follows.
    pub const AT_MOST: &str = "must be at most ";
    /// The unknown name follows.
    pub const UNKNOWN: &str = "there is no keyword ";
    /// Between the name and the thing that it needs.
    pub const NEEDS: &str = " needs ";
    /// After that.
    pub const LACKING: &str = ", which isn't in this version: remove it";
}
