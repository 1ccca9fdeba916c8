//! Explains rustls' errors to whoever configured the connection: what is wrong, and what to do.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

use crate::config::{RootCert, Settings};

/// What an error of a TLS connection means, if it is an error of TLS.
pub(crate) fn explain_io(error: &io::Error) -> Option<String> {
    explain(error, &Settings::default())
}

/// The same, with the settings that may be the cause.
pub(super) fn explain(error: &io::Error, settings: &Settings) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::InvalidCertificate(error) => certificate(error, settings),
        Error::AlertReceived(alert) => refusal(*alert),
        Error::InvalidMessage(_) | Error::PeerSentOversizedRecord => {
            "the server's answer is not TLS: is the port that of another service, or does \
             something in between tamper with the connection?"
                .to_owned()
        }
        Error::PeerIncompatible(why) => format!(
            "the server has no version or cipher of TLS in common with us ({why:?}): TLS 1.2 and \
             1.3 are spoken here, within ssl_min_protocol_version and ssl_max_protocol_version"
        ),
        Error::DecryptError => {
            "the server's data can't be decrypted: something in between has changed it".into()
        }
        other => format!("TLS failed: {other}"),
    })
}

fn certificate(error: &CertificateError, settings: &Settings) -> String {
    use CertificateError as C;
    match error {
        C::UnknownIssuer => {
            let roots = match &settings.sslrootcert {
                Some(RootCert::File(path)) => path.display().to_string(),
                _ => "this system".to_owned(),
            };
            format!(
                "no authority that {roots} trusts has signed the server's certificate: is it the \
                 right server, and sslrootcert the right one?"
            )
        }
        C::NotValidForName => no_name(&[]),
        C::NotValidForNameContext { presented, .. } => no_name(presented),
        C::Expired | C::ExpiredContext { .. } => {
            "the server's certificate, or that of an authority above it, has expired: it must be \
             renewed, or this machine's clock is wrong"
                .into()
        }
        C::NotValidYet | C::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet: is this machine's clock right?".into()
        }
        C::Revoked => "the server's certificate has been revoked (sslcrl)".into(),
        C::UnknownRevocationStatus => {
            "sslcrl has no list by one of the authorities above the server's certificate: it needs \
             one of each"
                .into()
        }
        C::ExpiredRevocationList | C::ExpiredRevocationListContext { .. } => {
            "a list in sslcrl has expired: get a newer one".into()
        }
        C::BadSignature => "the server can't prove that its certificate is its own".into(),
        C::BadEncoding => "the server's certificate can't be understood".into(),
        C::InvalidPurpose | C::InvalidPurposeContext { .. } => {
            "the server's certificate may not be used by a server (extendedKeyUsage)".into()
        }
        other => of_webpki(&format!("{other:?}")),
    }
}

/// rustls passes on errors that it has no name for in the words of webpki.
fn of_webpki(error: &str) -> String {
    let why = if error.contains("CaUsedAsEndEntity") {
        "it is that of an authority (CA:TRUE), which can't be a server's too: make one for the \
         server, signed by that authority"
    } else if error.contains("UnsupportedCertVersion") {
        "it is of X.509 version 1, which has no place for a name: make one of version 3 with \
         subjectAltName"
    } else {
        "it uses something that isn't supported"
    };
    format!("the server's certificate can't be verified: {why}")
}

/// How many names of a certificate an error lists.
const NAMES_SHOWN: usize = 4;

fn no_name(presented: &[String]) -> String {
    let shown: Vec<&str> = presented.iter().take(NAMES_SHOWN).map(|name| bare(name)).collect();
    let mut names = shown.join(", ");
    if presented.len() > NAMES_SHOWN {
        names += ", …";
    }
    match presented.is_empty() {
        true => {
            "the server's certificate is for no host at all: it has no subjectAltName, and its \
                 common name doesn't count"
                .to_owned()
        }
        false => format!(
            "the server's certificate is not for this host, but for {names}: connect by one of \
             these names, or is it the wrong server?"
        ),
    }
}

/// rustls writes `DnsName("a")` and `IpAddress(1.2.3.4)`.
fn bare(name: &str) -> &str {
    let inside = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inside.unwrap_or(name).trim_matches('"')
}

fn refusal(alert: AlertDescription) -> String {
    use AlertDescription as A;
    match alert {
        A::CertificateRequired
        | A::NoCertificate
        | A::BadCertificate
        | A::UnsupportedCertificate
        | A::CertificateRevoked
        | A::CertificateExpired
        | A::CertificateUnknown
        | A::UnknownCA
        | A::DecryptError => format!(
            "the server does not accept the client's certificate ({alert:?}): see sslcert and \
             sslkey, and the server's ssl_ca_file"
        ),
        A::ProtocolVersion | A::HandshakeFailure | A::InsufficientSecurity => format!(
            "the server has no version or cipher of TLS in common with us ({alert:?}): TLS 1.2 and \
             1.3 are spoken here"
        ),
        A::NoApplicationProtocol => {
            "the server speaks other protocols than PostgreSQL's (ALPN): is the port that of \
             another service?"
                .into()
        }
        other => format!("the server broke off TLS ({other:?})"),
    }
}
