//! Three degrees of verifying the server. rustls checks the chain, the name and the lists of
//! revoked certificates; here is what is left out of that, and when.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, SignatureScheme};

use super::certificate::public_key;
use crate::config::{Settings, SslMode};

/// How much of a server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verification {
    /// Nothing, except that the server has the certificate's key: the login can be bound to it.
    None,
    /// A trusted authority has signed it.
    Authority,
    /// The same, and it is for the requested host.
    Name,
}

impl Verification {
    /// The degree for `sslmode`. As in libpq, require verifies if there is a root certificate.
    pub(crate) fn of(settings: &Settings) -> Verification {
        match settings.sslmode {
            SslMode::VerifyFull => Verification::Name,
            SslMode::VerifyCa => Verification::Authority,
            SslMode::Require if settings.sslrootcert.is_some() => Verification::Authority,
            _ => Verification::None,
        }
    }
}

/// Checks everything but the name (verify-ca).
#[derive(Debug)]
pub(super) struct AnyName(pub(super) Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let verified =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
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
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Accepts any certificate, also one that rustls can't parse (version 1, which PostgreSQL's own
/// recipe makes with older OpenSSL), and checks that the server has its key.
#[derive(Debug)]
pub(super) struct AnyServer(pub(super) WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    /// A signature scheme of TLS 1.2 does not name the key's curve, so all algorithms of the scheme
    /// are tried with the key.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = public_key(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let scheme = self.0.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let (_, algorithms) =
            scheme.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        let fits = |id: &[u8]| id == key.algorithm;
        let algorithm = algorithms.iter().find(|it| fits(it.public_key_alg_id().as_ref()));
        let verified =
            algorithm.map(|it| it.verify_signature(key.key, message, signed.signature()));
        match verified {
            Some(Ok(())) => Ok(HandshakeSignatureValid::assertion()),
            _ => Err(CertificateError::BadSignature.into()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = public_key(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let info = SubjectPublicKeyInfoDer::from(key.info);
        verify_tls13_signature_with_raw_key(message, &info, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
