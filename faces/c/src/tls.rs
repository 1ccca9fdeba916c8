//! TLS by rustls: the configuration from the settings and their files, how much of the server's
//! certificate is checked, and what a login is bound to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use der::asn1::{AnyRef, ObjectIdentifier};
use der::{Decode, SliceReader};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, SupportedProtocolVersion, version,
};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use crate::config::Wrong;

/// How TLS is set up. The files are read for each connection: they may change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls {
    /// A trusted authority must have signed the certificate; and for the host's name.
    pub(crate) verifies: bool,
    pub(crate) checks_name: bool,
    pub(crate) uses_system: bool,
    pub(crate) root: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) revoked: Option<PathBuf>,
    pub(crate) sends_name: bool,
    pub(crate) oldest: String,
    pub(crate) newest: String,
    pub(crate) alpn: Option<Vec<u8>>,
}

impl Tls {
    /// A session with this host, of which nothing was sent.
    pub(crate) fn session(
        &self,
        host: &str,
        peer: Option<std::net::IpAddr>,
    ) -> Result<ClientConnection, Wrong> {
        let name = match (ServerName::try_from(host.to_owned()), peer) {
            (Ok(name), _) => name,
            (Err(_), Some(peer)) if !self.checks_name => ServerName::IpAddress(peer.into()),
            _ => {
                return Err(
                    "sslmode=verify-full needs a host that a certificate can be for: a DNS \
                     name or an address"
                        .into(),
                );
            }
        };
        let failed = |error: Error| format!("TLS can't be set up: {error}");
        let mut session = ClientConnection::new(Arc::new(self.load()?), name).map_err(failed)?;
        // More would only wait here instead of in the engine, which can take requests back.
        session.set_buffer_limit(Some(OUTSTANDING_MAX));
        Ok(session)
    }

    fn load(&self) -> Result<ClientConfig, Wrong> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&self.versions()?)
            .map_err(|error| format!("TLS can't be set up: {error}"))?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(provider)?);
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let key = self.key.as_ref().ok_or("sslcert is of no use without sslkey")?;
                let (chain, key) = (certificates(path, "sslcert")?, private_key(key)?);
                let misfit = |_| fault(path, "sslcert", "does not fit the key in sslkey");
                builder.with_client_auth_cert(chain, key).map_err(misfit)?
            }
        };
        config.alpn_protocols = self.alpn.clone().into_iter().collect();
        config.enable_sni = self.sends_name;
        // A connection that resumes a session shows no certificate.
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// The versions to speak, the newest first. Older ones than 1.2 are never spoken.
    pub(crate) fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, Wrong> {
        let of = |text: &str, name: &str, is_oldest: bool| match &*text.to_ascii_lowercase() {
            "" => Ok(if is_oldest { 2 } else { 3 }),
            "tlsv1" | "tlsv1.1" if is_oldest => Ok(2),
            "tlsv1.2" => Ok(2),
            "tlsv1.3" => Ok(3),
            _ => Err(format!("{name} takes one of TLSv1.2, TLSv1.3")),
        };
        let oldest = of(&self.oldest, "ssl_min_protocol_version", true)?;
        let newest = of(&self.newest, "ssl_max_protocol_version", false)?;
        let spoken: Vec<_> = [(3, &version::TLS13), (2, &version::TLS12)]
            .into_iter()
            .filter(|(number, _)| (oldest..=newest).contains(number))
            .map(|(_, version)| version)
            .collect();
        match spoken.is_empty() {
            true => Err("ssl_min_protocol_version is newer than ssl_max_protocol_version: raise \
                 the latter"
                .into()),
            false => Ok(spoken),
        }
    }

    fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, Wrong> {
        if !self.verifies {
            return Ok(Arc::new(Lenient { provider, inner: None }));
        }
        let (roots, of) = (Arc::new(self.roots()?), provider.clone());
        let mut builder = WebPkiServerVerifier::builder_with_provider(roots, of);
        if let Some(path) = &self.revoked {
            let content = read(path, "sslcrl")?;
            let lists = CertificateRevocationListDer::pem_slice_iter(&content);
            let lists = lists.collect::<Result<Vec<_>, _>>().ok().filter(|it| !it.is_empty());
            let lists = lists.ok_or_else(|| fault(path, "sslcrl", "holds no list in PEM"))?;
            builder = builder.with_crls(lists).enforce_revocation_expiration();
        }
        let inner = builder.build().map_err(|error| {
            format!("there is no certificate to trust: set sslrootcert ({error})")
        })?;
        match self.checks_name {
            true => Ok(inner),
            false => Ok(Arc::new(Lenient { provider, inner: Some(inner) })),
        }
    }

    fn roots(&self) -> Result<RootCertStore, Wrong> {
        let mut roots = RootCertStore::empty();
        match &self.root {
            Some(path) if !self.uses_system => {
                for certificate in certificates(path, "sslrootcert")? {
                    let bad = |_| fault(path, "sslrootcert", "holds one that can't be understood");
                    roots.add(certificate).map_err(bad)?;
                }
            }
            // A system has hundreds; one that rustls can't read is left out without harm.
            _ => {
                _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)
            }
        }
        Ok(roots)
    }
}

/// How many encrypted bytes may wait for the socket: four records.
const OUTSTANDING_MAX: usize = 64 << 10;

fn read(path: &Path, keyword: &str) -> Result<Vec<u8>, Wrong> {
    std::fs::read(path).map_err(|error| fault(path, keyword, &format!("can't be read: {error}")))
}

fn fault(path: &Path, keyword: &str, how: &str) -> Wrong {
    format!("the file {} ({keyword}) {how}", path.display())
}

fn certificates(path: &Path, keyword: &str) -> Result<Vec<CertificateDer<'static>>, Wrong> {
    let content = read(path, keyword)?;
    let found = CertificateDer::pem_slice_iter(&content).collect::<Result<Vec<_>, _>>();
    let found = found.ok().filter(|it| !it.is_empty());
    found.ok_or_else(|| fault(path, keyword, "holds no certificate in PEM"))
}

/// libpq's rule: only the owner may read the key, but if root owns it, a group may.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Wrong> {
    use std::os::unix::fs::MetadataExt;
    let unread = |error| fault(path, "sslkey", &format!("can't be read: {error}"));
    let metadata = std::fs::metadata(path).map_err(unread)?;
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if !metadata.is_file() || metadata.mode() & forbidden != 0 {
        return Err(fault(path, "sslkey", "can be read by others than its owner: chmod 600 it"));
    }
    let content = read(path, "sslkey")?;
    let of_pem = PrivateKeyDer::from_pem_slice(&content).ok();
    let key = of_pem.or_else(|| PrivateKeyDer::try_from(content.clone()).ok());
    key.ok_or_else(|| fault(path, "sslkey", "holds no key in PEM or DER that is not encrypted"))
}

/// Leaves out the check of the name (verify-ca), or all checks but that the server has the
/// certificate's key (require and below).
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    inner: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is compared last, after everything else was found valid.
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// `tls-server-end-point` (RFC 5929 section 4.1): the hash of the certificate by the hash of its
/// signature, but SHA-256 in place of MD5 and SHA-1. None where the RFC defines nothing, and of
/// RSASSA-PSS, whose hash is in its parameters.
pub(crate) fn end_point(session: &ClientConnection) -> Option<Vec<u8>> {
    let certificate: &[u8] = session.peer_certificates()?.first()?;
    let name = signature(certificate).ok()?.to_string();
    Some(match &*name {
        "1.2.840.113549.1.1.4"
        | "1.2.840.113549.1.1.5"
        | "1.2.840.10045.4.1"
        | "1.2.840.113549.1.1.11"
        | "1.2.840.10045.4.3.2" => Sha256::digest(certificate).to_vec(),
        "1.2.840.113549.1.1.14" | "1.2.840.10045.4.3.1" => Sha224::digest(certificate).to_vec(),
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Sha384::digest(certificate).to_vec(),
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Sha512::digest(certificate).to_vec(),
        _ => return None,
    })
}

/// The algorithm of a certificate's signature.
fn signature(certificate: &[u8]) -> der::Result<ObjectIdentifier> {
    let mut fields = SliceReader::new(AnyRef::from_der(certificate)?.value())?;
    AnyRef::decode(&mut fields)?;
    let mut algorithm = SliceReader::new(AnyRef::decode(&mut fields)?.value())?;
    ObjectIdentifier::decode(&mut algorithm)
}
