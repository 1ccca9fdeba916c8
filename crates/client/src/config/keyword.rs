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
    ResultBytesMax,
    PrepareThreshold,
    PreparedMax,
    ConnectionsMax,
    ConnectionsMin,
    WaitTimeoutMs,
    WaitingMax,
    IdleTimeoutMs,
    LifetimeMs,
    SlowHeadMs,
    IdleOrder,
    RequestTimeoutMs,
    LogStatements,
    StallTimeoutMs,
    CancelOnTimeout,
    CancelOnDrop,
    CancelsMax,
    CancelTimeoutMs,
    OneSegment,
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
pub(super) const KEYWORDS: [(Keyword, &str, &str); 60] = [
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
    (Keyword::ResultBytesMax, "result_bytes_max", ""),
    (Keyword::PrepareThreshold, "prepare_threshold", ""),
    (Keyword::PreparedMax, "prepared_max", ""),
    (Keyword::ConnectionsMax, "connections_max", ""),
    (Keyword::ConnectionsMin, "connections_min", ""),
    (Keyword::WaitTimeoutMs, "wait_timeout_ms", ""),
    (Keyword::WaitingMax, "waiting_max", ""),
    (Keyword::IdleTimeoutMs, "idle_timeout_ms", ""),
    (Keyword::LifetimeMs, "lifetime_ms", ""),
    (Keyword::SlowHeadMs, "slow_head_ms", ""),
    (Keyword::IdleOrder, "idle_order", ""),
    (Keyword::RequestTimeoutMs, "request_timeout_ms", ""),
    (Keyword::LogStatements, "log_statements", ""),
    (Keyword::StallTimeoutMs, "stall_timeout_ms", ""),
    (Keyword::CancelOnTimeout, "cancel_on_timeout", ""),
    (Keyword::CancelOnDrop, "cancel_on_drop", ""),
    (Keyword::CancelsMax, "cancels_max", ""),
    (Keyword::CancelTimeoutMs, "cancel_timeout_ms", ""),
    (Keyword::OneSegment, "one_segment", ""),
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

/// The known name that is closest to an unknown one, if it is close: within a third of the longer
/// name's letters, so that one letter of `host` counts as a slip and two do not.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let known = KEYWORDS.iter().map(|entry| (slips(name, entry.1), entry.1));
    let (slips, known) = known.min_by_key(|(slips, _)| *slips)?;
    (slips * 3 <= name.len().max(known.len())).then_some(known)
}

/// The number of single-letter changes, and of neighbours that change places, that lead from one
/// name to the other.
fn slips(from: &str, to: &str) -> usize {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let change = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = change.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            let swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
            if swapped {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_nearest() {
        for (name, near) in [
            ("hots", Some("host")),
            ("hst", Some("host")),
            ("ports", Some("port")),
            ("aplication_name", Some("application_name")),
            ("conect_timout", Some("connect_timeout")),
            ("nope", None),
            ("x", None),
            ("color", None),
        ] {
            assert_eq!(nearest(name), near, "{name}");
        }
    }
}
