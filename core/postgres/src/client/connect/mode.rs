//! The values of settings about how a server is reached.

/// Whether a connection is encrypted with TLS, and what is checked. Only the last two, and
/// [`Require`](SslMode::Require) with a root certificate, verify the identity of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SslMode {
    /// Never TLS.
    Disable,
    /// TLS only if the server refuses a connection without it.
    Allow,
    /// TLS if the server supports it. Without TLS if it does not, or if the handshake fails.
    Prefer,
    /// Always TLS. If there is a root certificate (`sslrootcert`), the server's certificate is
    /// checked as with [`VerifyCa`](SslMode::VerifyCa); otherwise it is not checked at all.
    Require,
    /// Always TLS, with a server whose certificate is signed by an authority of `sslrootcert`.
    VerifyCa,
    /// The same, and the certificate must be for the name or address in `host`.
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

    /// Whether a connection without TLS is not allowed.
    #[must_use]
    pub fn requires_tls(self) -> bool {
        self >= SslMode::Require
    }
}

/// How TLS begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SslNegotiation {
    /// The server is asked whether it supports TLS, which costs a round trip.
    Postgres,
    /// TLS begins with the first byte. For PostgreSQL 17 and later; needs `sslmode` require or
    /// stronger.
    Direct,
}

impl SslNegotiation {
    /// In the order of the words for them.
    #[doc(hidden)]
    pub const ALL: [SslNegotiation; 2] = [SslNegotiation::Postgres, SslNegotiation::Direct];
}

/// Which servers of a list are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetSessionAttrs {
    /// Any server.
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
    /// In the listed order, and their addresses in the order that the name lookup returned.
    Disable,
    /// In random order, hosts and addresses, chosen anew for each connection. A `connect_timeout`
    /// keeps a host that doesn't answer from delaying the others.
    Random,
}

impl LoadBalanceHosts {
    /// In the order of the words for them.
    #[doc(hidden)]
    pub const ALL: [LoadBalanceHosts; 2] = [LoadBalanceHosts::Disable, LoadBalanceHosts::Random];
}
