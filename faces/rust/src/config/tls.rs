//! The settings for encryption: their values, their words in a text, and the default files.

use std::path::PathBuf;

use super::Settings;
use super::environment::Surroundings;
use super::error::{ConfigError, ConfigErrorKind as Kind, Place};

use onetrip_postgres::client::connect::keywords::{NEGOTIATIONS, SSL_MODES};
use onetrip_postgres::client::connect::rules::broken;
pub use onetrip_postgres::client::connect::{SslMode, SslNegotiation};

/// A version of TLS. Older ones are never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TlsVersion {
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

impl TlsVersion {
    /// Reads libpq's names, in any case. `Some(None)` for versions below 1.2.
    pub(super) fn named(name: &str) -> Option<Option<TlsVersion>> {
        match name.to_ascii_lowercase().as_str() {
            "tlsv1" | "tlsv1.1" => Some(None),
            "tlsv1.2" => Some(Some(TlsVersion::V1_2)),
            "tlsv1.3" => Some(Some(TlsVersion::V1_3)),
            _ => None,
        }
    }
}

/// The authorities that may have signed a server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RootCert {
    /// Those in a PEM file.
    File(PathBuf),
    /// Those that the operating system trusts. Anybody can get a certificate from one of these, so
    /// `sslmode` then has to be verify-full, which is the default.
    System,
}

/// Whether the client's certificate is sent to a server that asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SslCertMode {
    /// Never.
    Disable,
    /// If there is one.
    Allow,
}

impl SslCertMode {
    /// In the order of the table's words.
    pub(super) const ALL: [SslCertMode; 2] = [SslCertMode::Disable, SslCertMode::Allow];
}

/// Whether the login is bound to its TLS connection, so that nobody in between can pass it on. It
/// needs SCRAM and TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// If the server offers it.
    Prefer,
    /// Always: a server that asks for another login, or for none, is refused.
    Require,
}

impl ChannelBinding {
    /// In the order of the table's words.
    pub(super) const ALL: [ChannelBinding; 3] =
        [ChannelBinding::Disable, ChannelBinding::Prefer, ChannelBinding::Require];
}

/// Fills in defaults: the mode for the system's authorities, and the files in `~/.postgresql` that
/// exist.
pub(super) fn fill_defaults(
    settings: &mut Settings,
    mode_is_given: bool,
    surroundings: &Surroundings<'_>,
) {
    if settings.sslrootcert == Some(RootCert::System) && !mode_is_given {
        settings.sslmode = SslMode::VerifyFull;
    }
    let file = |name| surroundings.tls_file(name);
    let existing = |name| file(name).filter(|path| (surroundings.exists)(path));
    if settings.sslcertmode == SslCertMode::Disable {
        (settings.sslcert, settings.sslkey) = (None, None);
    } else if settings.sslcert.is_none() {
        settings.sslcert = existing("postgresql.crt");
    }
    if settings.sslkey.is_none() && settings.sslcert.is_some() {
        settings.sslkey = file("postgresql.key");
    }
    if settings.sslrootcert.is_none() {
        settings.sslrootcert = existing("root.crt").map(RootCert::File);
    }
    if settings.sslcrl.is_none() && settings.sslrootcert != Some(RootCert::System) {
        settings.sslcrl = existing("root.crl");
    }
}

/// Refuses settings that contradict one another. `over_tcp`: not all servers are reached by Unix
/// sockets.
pub(super) fn check(settings: &Settings, over_tcp: bool) -> Result<(), ConfigError> {
    let mode = settings.sslmode;
    let verifies = mode >= SslMode::VerifyCa;
    let what = if let Some(why) = broken(|name| said(settings, name)) {
        why
    } else if settings
        .ssl_max_protocol_version
        .is_some_and(|max| max < settings.ssl_min_protocol_version)
    {
        "ssl_min_protocol_version is newer than ssl_max_protocol_version: raise the latter"
    } else if verifies && over_tcp && settings.sslrootcert.is_none() {
        "this sslmode verifies the server, and there is no certificate to trust: name a file in \
         sslrootcert or put it at ~/.postgresql/root.crt, or set sslrootcert=system for a server \
         with a certificate of a public authority"
    } else {
        return Ok(());
    };
    Err(ConfigError::new(Kind::Tls, Place::Config, what))
}

/// A setting by its name in the rules.
fn said<'a>(settings: &'a Settings, name: &str) -> Option<&'a str> {
    let file = |file: &Option<PathBuf>| file.is_some().then_some("file");
    match name {
        "sslmode" => SSL_MODES.get(settings.sslmode as usize).copied(),
        "sslnegotiation" => NEGOTIATIONS.get(settings.sslnegotiation as usize).copied(),
        "sslcertmode" => Some(match settings.sslcertmode {
            SslCertMode::Disable => "disable",
            SslCertMode::Allow => "allow",
        }),
        "sslrootcert" => settings.sslrootcert.as_ref().map(|root| match root {
            RootCert::System => "system",
            RootCert::File(_) => "file",
        }),
        "sslcert" => file(&settings.sslcert),
        "sslkey" => file(&settings.sslkey),
        _ => None,
    }
}
