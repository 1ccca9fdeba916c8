//! The keywords, their environment variables, and which of libpq's are known and refused.

/// A setting that a text can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Keyword {
    Host,
    Hostaddr,
    Port,
    Dbname,
    User,
    Password,
    Passfile,
    ApplicationName,
    FallbackApplicationName,
    Options,
    ClientEncoding,
    ConnectTimeout,
    Keepalives,
    KeepalivesIdle,
    KeepalivesInterval,
    KeepalivesCount,
    TcpUserTimeout,
    TargetSessionAttrs,
    LoadBalanceHosts,
    MinProtocolVersion,
    MaxProtocolVersion,
    Sslmode,
    Sslnegotiation,
    Sslcert,
    Sslkey,
    Sslrootcert,
    Sslcrl,
    Sslsni,
    SslMinProtocolVersion,
    SslMaxProtocolVersion,
    Gssencmode,
    ChannelBinding,
    RequireAuth,
    AllowPlainPassword,
    ScramIterationsMax,
    InFlightMax,
    InFlightBytesMax,
    QueueMax,
    QueueBytesMax,
    WhenFull,
    WaitingBytesMax,
    PrepareThreshold,
    PreparedMax,
    RequestTimeoutMs,
    StallTimeoutMs,
}

impl Keyword {
    pub(super) fn named(name: &str) -> Option<Keyword> {
        KEYWORDS.iter().find(|entry| entry.1 == name).map(|entry| entry.0)
    }

    pub(super) fn name(self) -> &'static str {
        KEYWORDS.iter().find(|entry| entry.0 == self).map_or("", |entry| entry.1)
    }

    pub(super) fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// Keyword, name, and the environment variable that libpq reads for it (empty: none).
pub(super) const KEYWORDS: [(Keyword, &str, &str); 45] = [
    (Keyword::Host, "host", "PGHOST"),
    (Keyword::Hostaddr, "hostaddr", "PGHOSTADDR"),
    (Keyword::Port, "port", "PGPORT"),
    (Keyword::Dbname, "dbname", "PGDATABASE"),
    (Keyword::User, "user", "PGUSER"),
    (Keyword::Password, "password", "PGPASSWORD"),
    (Keyword::Passfile, "passfile", "PGPASSFILE"),
    (Keyword::ApplicationName, "application_name", "PGAPPNAME"),
    (Keyword::FallbackApplicationName, "fallback_application_name", ""),
    (Keyword::Options, "options", "PGOPTIONS"),
    (Keyword::ClientEncoding, "client_encoding", "PGCLIENTENCODING"),
    (Keyword::ConnectTimeout, "connect_timeout", "PGCONNECT_TIMEOUT"),
    (Keyword::Keepalives, "keepalives", ""),
    (Keyword::KeepalivesIdle, "keepalives_idle", ""),
    (Keyword::KeepalivesInterval, "keepalives_interval", ""),
    (Keyword::KeepalivesCount, "keepalives_count", ""),
    (Keyword::TcpUserTimeout, "tcp_user_timeout", ""),
    (Keyword::TargetSessionAttrs, "target_session_attrs", "PGTARGETSESSIONATTRS"),
    (Keyword::LoadBalanceHosts, "load_balance_hosts", "PGLOADBALANCEHOSTS"),
    (Keyword::MinProtocolVersion, "min_protocol_version", "PGMINPROTOCOLVERSION"),
    (Keyword::MaxProtocolVersion, "max_protocol_version", "PGMAXPROTOCOLVERSION"),
    (Keyword::Sslmode, "sslmode", "PGSSLMODE"),
    (Keyword::Sslnegotiation, "sslnegotiation", "PGSSLNEGOTIATION"),
    (Keyword::Sslcert, "sslcert", "PGSSLCERT"),
    (Keyword::Sslkey, "sslkey", "PGSSLKEY"),
    (Keyword::Sslrootcert, "sslrootcert", "PGSSLROOTCERT"),
    (Keyword::Sslcrl, "sslcrl", "PGSSLCRL"),
    (Keyword::Sslsni, "sslsni", "PGSSLSNI"),
    (Keyword::SslMinProtocolVersion, "ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION"),
    (Keyword::SslMaxProtocolVersion, "ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION"),
    (Keyword::Gssencmode, "gssencmode", "PGGSSENCMODE"),
    (Keyword::ChannelBinding, "channel_binding", "PGCHANNELBINDING"),
    (Keyword::RequireAuth, "require_auth", "PGREQUIREAUTH"),
    (Keyword::AllowPlainPassword, "allow_plain_password", ""),
    (Keyword::ScramIterationsMax, "scram_iterations_max", ""),
    (Keyword::InFlightMax, "in_flight_max", ""),
    (Keyword::InFlightBytesMax, "in_flight_bytes_max", ""),
    (Keyword::QueueMax, "queue_max", ""),
    (Keyword::QueueBytesMax, "queue_bytes_max", ""),
    (Keyword::WhenFull, "when_full", ""),
    (Keyword::WaitingBytesMax, "waiting_bytes_max", ""),
    (Keyword::PrepareThreshold, "prepare_threshold", ""),
    (Keyword::PreparedMax, "prepared_max", ""),
    (Keyword::RequestTimeoutMs, "request_timeout_ms", ""),
    (Keyword::StallTimeoutMs, "stall_timeout_ms", ""),
];

/// Keywords of libpq that need what this version lacks, and what that is. They are refused rather
/// than passed over: each of them is a promise.
pub(super) fn unsupported(name: &str) -> Option<&'static str> {
    match name {
        "sslcertmode" => Some("a rule about when the client's certificate is sent"),
        "sslpassword" => Some("encrypted key files"),
        "sslcrldir" => Some("a directory of revocation lists"),
        "sslcompression" => Some("compression by TLS"),
        "sslkeylogfile" => Some("a log of TLS keys"),
        "requiressl" => Some("what sslmode=require says today"),
        "krbsrvname" | "gsslib" | "gssdelegation" => Some("GSSAPI"),
        "service" | "servicefile" => Some("the service file"),
        "requirepeer" => Some("checking the server's user on a Unix socket"),
        "replication" => Some("the replication protocol"),
        "scram_client_key" | "scram_server_key" => Some("SCRAM by key"),
        "oauth_issuer" | "oauth_client_id" | "oauth_client_secret" | "oauth_scope" => Some("OAuth"),
        _ => None,
    }
}

/// Variables that ask for what this version lacks, and what that is.
pub(super) const UNSUPPORTED_VARIABLES: [(&str, &str); 3] = [
    ("PGSERVICE", "the service file"),
    ("PGSSLCERTMODE", "a rule about when the client's certificate is sent"),
    ("PGSSLCRLDIR", "a directory of revocation lists"),
];

/// The known name that is closest to an unknown one.
pub(super) fn nearest(name: &str) -> &'static str {
    let known = KEYWORDS.iter().map(|entry| entry.1);
    known.min_by_key(|known| distance(name, known)).unwrap_or("host")
}

/// The number of single-letter changes that lead from one name to the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.bytes().enumerate() {
            let change = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}
