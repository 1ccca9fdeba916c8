//! Makes rustls' configuration from the settings and the files that they name. Reading files
//! blocks. No error repeats a file's contents.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};

use super::verify::{AnyName, AnyServer, Verification};
use crate::Error;
use crate::config::{RootCert, Settings, TlsVersion};

/// PostgreSQL's protocol name in TLS (PG_ALPN_PROTOCOL in src/include/libpq/pqcomm.h).
pub(super) const ALPN: &[u8] = b"postgresql";

/// Makes rustls' configuration.
///
/// # Errors
/// A file is missing, can't be read or can't be used; or others can read the key.
pub(super) fn load(settings: &Settings) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions(settings))
        .map_err(|error| Error::misuse("config", format!("TLS can't be set up: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(verifier(settings, provider)?);
    let mut config = match &settings.sslcert {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let (certificates, key) = identity(settings, path)?;
            let config = builder.with_client_auth_cert(certificates, key);
            config.map_err(|error| fault("certificate", path, "sslcert", misfit(&error)))?
        }
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.enable_sni = settings.sslsni;
    // PostgreSQL's servers keep no sessions (SSL_CTX_set_session_cache_mode and SSL_OP_NO_TICKET in
    // be-secure-openssl.c), and a connection that resumes one shows no certificate.
    config.resumption = Resumption::disabled();
    Ok(config)
}

pub(super) fn versions(settings: &Settings) -> Vec<&'static SupportedProtocolVersion> {
    let min = settings.ssl_min_protocol_version;
    let max = settings.ssl_max_protocol_version.unwrap_or(TlsVersion::V1_3);
    [(TlsVersion::V1_3, &version::TLS13), (TlsVersion::V1_2, &version::TLS12)]
        .into_iter()
        .filter(|(version, _)| (min..=max).contains(version))
        .map(|(_, version)| version)
        .collect()
}

fn verifier(
    settings: &Settings,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    Ok(match Verification::of(settings) {
        Verification::None => Arc::new(AnyServer(provider.signature_verification_algorithms)),
        Verification::Authority => Arc::new(AnyName(full_verifier(settings, provider)?)),
        Verification::Name => full_verifier(settings, provider)?,
    })
}

fn full_verifier(
    settings: &Settings,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, Error> {
    let roots = Arc::new(roots(settings)?);
    let mut builder = WebPkiServerVerifier::builder_with_provider(roots, provider);
    let list = settings.sslcrl.as_deref();
    if let Some(path) = list {
        builder = builder.with_crls(revocations(path)?).enforce_revocation_expiration();
    }
    builder.build().map_err(|error| match (error, list) {
        (VerifierBuilderError::InvalidCrl(_), Some(path)) => {
            fault("list of revoked certificates", path, "sslcrl", "can't be understood")
        }
        _ => Error::misuse("config", "there is no certificate to trust: set sslrootcert"),
    })
}

fn roots(settings: &Settings) -> Result<RootCertStore, Error> {
    match &settings.sslrootcert {
        Some(RootCert::System) => system_roots(),
        Some(RootCert::File(path)) => file_roots(path),
        None => Ok(RootCertStore::empty()),
    }
}

fn file_roots(path: &Path) -> Result<RootCertStore, Error> {
    const WHAT: &str = "root certificate";
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, WHAT, "sslrootcert")? {
        roots.add(certificate).map_err(|_| {
            fault(WHAT, path, "sslrootcert", "holds a certificate that can't be understood")
        })?;
    }
    Ok(roots)
}

/// A system has hundreds of certificates; one that rustls can't read is left out without harm.
fn system_roots() -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match roots.is_empty() {
        false => Ok(roots),
        true => Err(Error::misuse(
            "config",
            "this system has no trusted certificates where they are looked for (sslrootcert=system): \
             install its package ca-certificates, or name a file in sslrootcert",
        )),
    }
}

fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, Error> {
    const WHAT: &str = "list of revoked certificates";
    let content = read(path, WHAT, "sslcrl")?;
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&content).collect();
    some(lists.ok()).ok_or_else(|| fault(WHAT, path, "sslcrl", "holds no list in PEM"))
}

fn certificates(
    path: &Path,
    what: &str,
    keyword: &str,
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let content = read(path, what, keyword)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
    some(certificates.ok()).ok_or_else(|| fault(what, path, keyword, "holds no certificate in PEM"))
}

fn some<T>(list: Option<Vec<T>>) -> Option<Vec<T>> {
    list.filter(|list| !list.is_empty())
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(settings: &Settings, path: &Path) -> Result<Identity, Error> {
    let certificates = certificates(path, "certificate", "sslcert")?;
    let Some(key) = &settings.sslkey else {
        let path = path.display();
        let message = format!("the certificate {path} (sslcert) is of no use without sslkey");
        return Err(Error::misuse("config", message));
    };
    Ok((certificates, private_key(key)?))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    let wrong = |how: &str| fault("key", path, "sslkey", how);
    let mut file = File::open(path).map_err(|error| unreadable("key", path, "sslkey", &error))?;
    let metadata = file.metadata().map_err(|error| unreadable("key", path, "sslkey", &error))?;
    check_key_file(&metadata).map_err(wrong)?;
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(|error| unreadable("key", path, "sslkey", &error))?;
    let holds = |text: &[u8]| content.windows(text.len()).any(|window| window == text);
    if holds(b"BEGIN ENCRYPTED PRIVATE KEY") || holds(b"Proc-Type: 4,ENCRYPTED") {
        return Err(wrong(
            "is encrypted, which isn't in this version: decrypt it with `openssl pkey`",
        ));
    }
    PrivateKeyDer::from_pem_slice(&content)
        .ok()
        .or_else(|| PrivateKeyDer::try_from(content.clone()).ok())
        .ok_or_else(|| wrong("holds no key in PEM or DER"))
}

/// libpq's rule (initialize_SSL in fe-secure-openssl.c): only the owner may read the key, but if
/// root owns it, a group may.
#[cfg(unix)]
fn check_key_file(metadata: &fs::Metadata) -> Result<(), &'static str> {
    use std::os::unix::fs::MetadataExt;
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    match metadata.is_file() {
        false => Err("is not a plain file"),
        true if metadata.mode() & forbidden != 0 => {
            Err("can be read by others than its owner, and is not used: chmod 600 it")
        }
        true => Ok(()),
    }
}

#[cfg(not(unix))]
fn check_key_file(_: &fs::Metadata) -> Result<(), &'static str> {
    Ok(())
}

/// Why a certificate and a key can't be used together.
fn misfit(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::InconsistentKeys(_) => "does not belong to the key in sslkey",
        _ => "and the key in sslkey can't be used together: their kind isn't supported",
    }
}

fn read(path: &Path, what: &str, keyword: &str) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| unreadable(what, path, keyword, &error))
}

fn unreadable(what: &str, path: &Path, keyword: &str, error: &std::io::Error) -> Error {
    fault(what, path, keyword, &format!("can't be read: {error}"))
}

fn fault(what: &str, path: &Path, keyword: &str, how: &str) -> Error {
    Error::misuse("config", format!("the {what} {} ({keyword}) {how}", path.display()))
}
