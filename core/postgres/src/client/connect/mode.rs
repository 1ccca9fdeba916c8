//! Settings about how a server is reached.

/// Whether a connection is encrypted with TLS, and what is checked. Only the last two, and
/// [`Require`](SslMode::Require) with a root certificate, know who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SslMode {
    /// Never TLS.
    Disable,
    /// TLS if the server lets nobody in without.
    Allow,
    /// TLS if the server has it; without, if it hasn't, or if TLS fails.
    Prefer,
    /// Always TLS. The server's certificate is checked as with [`VerifyCa`](SslMode::VerifyCa) if
    /// there is a root certificate (`sslrootcert`), and not at all otherwise.
    Require,
    /// Always TLS, with a server whose certificate an authority of `sslrootcert` has signed.
    VerifyCa,
    /// The same, and the certificate is one for the name or address in `host`.
    VerifyFull,
}

impl SslMode {
    /// In the order of the words for them.
    #[doc(hidden)]
    pub const ALL: [SslMode; 6] = [
        SslMode::Disable,
        SslMode::Allow,
        SslMode::Prefer,
        SslMode::Require,
        SslMode::VerifyCa,
        SslMode::VerifyFull,
    ];

    /// Whether a connection without TLS is out of the question.
    #[must_use]
    pub fn requires_tls(self) -> bool {
        self >= SslMode::Require
    }
}

/// How TLS begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SslNegotiation {
    /// The server is asked whether it has TLS, which costs a round trip.
    Postgres,
    /// With the first byte, for PostgreSQL 17 and later. Needs `sslmode` require or stronger.
    Direct,
}

impl SslNegotiation {
    /// In the order of the words for them.
    #[doc(hidden)]
    pub const ALL: [SslNegotiation; 2] = [SslNegotiation::Postgres, SslNegotiation::Direct];
}

/// Which server of a list will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetSessionAttrs {
    /// Any that answers.
    Any,
    /// One whose sessions may write by default.
    ReadWrite,
    /// One whose sessions may only read by default.
    ReadOnly,
    /// One that isn't in recovery.
    Primary,
    /// One that is in recovery.
    Standby,
    /// A standby if there is one, else any.
    PreferStandby,
}

impl TargetSessionAttrs {
    /// In the order of the words for them.
    #[doc(hidden)]
    pub const ALL: [TargetSessionAttrs; 6] = [
        TargetSessionAttrs::Any,
        TargetSessionAttrs::ReadWrite,
        TargetSessionAttrs::ReadOnly,
        TargetSessionAttrs::Primary,
        TargetSessionAttrs::Standby,
        TargetSessionAttrs::PreferStandby,
    ];
}

/// In which order the servers of a list are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadBalanceHosts {
    /// As they are listed, and their addresses as the name's lookup has them.
    Disable,
    /// At random, hosts and addresses, anew for each connection. A `connect_timeout` keeps one that
    /// doesn't answer from holding up the others.
    Random,
}

impl LoadBalanceHosts {
    /// In the order of the words for them.
    #[doc(hidden)]
    pub const ALL: [LoadBalanceHosts; 2] = [LoadBalanceHosts::Disable, LoadBalanceHosts::Random];
}
