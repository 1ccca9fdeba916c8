//! Why a server is refused although the connection to it is open, in words that follow its name.

/// Why a connection can't be used although it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// The server does not support TLS, which is required.
    NoTls = 1,
    /// The server answers the question for TLS with an error, which is not read (CVE-2024-10977).
    ErrorForTls,
    /// Bytes came behind the server's answer about TLS, and it had been asked nothing else.
    EarlyBytes,
    /// The server's answer to the question for TLS is not one.
    NotPostgres,
    /// TLS began at once, and the server has not agreed to use PostgreSQL's protocol in it.
    NoAlpn,
    /// The server is not what `target_session_attrs` asks for.
    Target,
    /// The server doesn't say whether it is what `target_session_attrs` asks for.
    TargetUnknown,
    /// The server takes writes on a timeline from before a promotion that was seen.
    FormerPrimary,
}

impl Refusal {
    /// The code of the error.
    pub fn code(self) -> &'static str {
        match self {
            Refusal::NoTls => "tls_missing",
            Refusal::ErrorForTls | Refusal::EarlyBytes | Refusal::NoAlpn => "tls_failed",
            Refusal::NotPostgres => "connect_failed",
            Refusal::Target | Refusal::TargetUnknown => "target_session_attrs",
            Refusal::FormerPrimary => "former_primary",
        }
    }

    /// The message that follows the name of the server.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::NoTls => " has no TLS: switch it on there (ssl=on), or choose another sslmode",
            Refusal::ErrorForTls => {
                ": the server answered the question for TLS with an error, which is not shown since \
                 nobody knows who wrote it: see the server's log"
            }
            Refusal::EarlyBytes => {
                ": something was sent behind the server's answer about TLS, where it has to wait, \
                 so somebody may have tampered with the connection, which was closed"
            }
            Refusal::NotPostgres => {
                ": the peer does not speak PostgreSQL's protocol: is the port that of another \
                 service, or does it expect TLS at once (sslnegotiation=direct)?"
            }
            Refusal::NoAlpn => {
                ": the server did not agree to speak PostgreSQL's protocol (ALPN), which \
                 sslnegotiation=direct needs: is the port that of another service?"
            }
            Refusal::Target => " is not what target_session_attrs asks for",
            Refusal::TargetUnknown => {
                " is too old to say whether it is what target_session_attrs asks for (14 or newer \
                 is)"
            }
            Refusal::FormerPrimary => {
                " is a former primary: another was promoted since, so what is written here would be \
                 lost; make it a standby"
            }
        }
    }
}
