//! Reading certificates and files, and the errors for those that can't be used.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
    PublicKeyData, SignatureAlgorithm,
};
use tempfile::TempDir;

use super::certificate::{end_point, public_key};
use super::verify::Verification;
use super::{Setup, files};
use crate::Error;
use crate::config::{Config, RootCert, Settings, SslMode, TlsVersion};

/// One value in DER.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let header = match u8::try_from(len) {
        Ok(len @ ..128) => vec![tag, len],
        Ok(len) => vec![tag, 0x81, len],
        Err(_) => vec![tag, 0x82, (len >> 8) as u8, len as u8],
    };
    [header, content.to_vec()].concat()
}

const SEQUENCE: u8 = 0x30;
const OID: u8 = 0x06;

/// A certificate that is signed with this algorithm, as far as it is read.
fn signed_with(oid: &[u8], parameters: &[u8]) -> Vec<u8> {
    let algorithm = der(SEQUENCE, &[der(OID, oid), parameters.to_vec()].concat());
    der(SEQUENCE, &[der(SEQUENCE, &[]), algorithm, der(0x03, &[0, 1, 2])].concat())
}

const NULL: &[u8] = &[5, 0];
const RSA: [u8; 8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1];
const ECDSA: [u8; 6] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 4];
const SHA: [u8; 8] = [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2];

fn pss(hash: &[u8]) -> Vec<u8> {
    let hash = der(0xa0, &der(SEQUENCE, &[der(OID, hash), NULL.to_vec()].concat()));
    let salt = der(0xa2, &[2, 1, 32]);
    signed_with(&[&RSA[..], &[10]].concat(), &der(SEQUENCE, &[hash, salt].concat()))
}

#[test]
fn a_login_is_bound_to_the_certificate_by_the_hash_of_its_signature() {
    let rsa = |last: u8| signed_with(&[&RSA[..], &[last]].concat(), NULL);
    let ecdsa = |last: &[u8]| signed_with(&[&ECDSA[..], last].concat(), &[]);
    let sha = |last: u8| [&SHA[..], &[last]].concat();
    let default_pss = signed_with(&[&RSA[..], &[10]].concat(), &der(SEQUENCE, &[]));
    for (certificate, bits) in [
        (rsa(4), 256),
        (rsa(5), 256),
        (rsa(11), 256),
        (rsa(12), 384),
        (rsa(13), 512),
        (rsa(14), 224),
        (ecdsa(&[1]), 256),
        (ecdsa(&[3, 1]), 224),
        (ecdsa(&[3, 2]), 256),
        (ecdsa(&[3, 3]), 384),
        (ecdsa(&[3, 4]), 512),
        (pss(&sha(1)), 256),
        (pss(&sha(2)), 384),
        (pss(&sha(3)), 512),
        (pss(&[0x2b, 0x0e, 3, 2, 0x1a]), 256),
        (default_pss, 256),
    ] {
        let hash = end_point(&certificate).unwrap();
        assert_eq!(hash.len() * 8, bits, "{certificate:02x?}");
    }
    for unknown in
        [signed_with(&[0x2b, 0x65, 0x70], &[]), rsa(99), pss(&[0x2a, 3]), vec![], vec![1]]
    {
        assert_eq!(end_point(&unknown), None);
    }
}

fn certificate(algorithm: &'static SignatureAlgorithm) -> (Vec<u8>, KeyPair) {
    let key = KeyPair::generate_for(algorithm).unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().der().to_vec(), key)
}

#[test]
fn the_key_of_a_certificate_is_found_in_every_version() {
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
        let (certificate, key) = certificate(algorithm);
        let found = public_key(&certificate).unwrap();
        assert_eq!(found.key, key.der_bytes());
        assert_eq!(found.info, key.subject_public_key_info());
        // Version 1: the same without the version, and without extensions.
        let fields = [&[2, 1, 7][..], NULL, NULL, NULL, NULL, found.info].concat();
        let old = der(SEQUENCE, &[der(SEQUENCE, &fields), NULL.to_vec()].concat());
        assert_eq!(public_key(&old).unwrap().info, found.info);
    }
}

#[test]
fn a_broken_certificate_is_an_error_and_nothing_worse() {
    let (whole, _) = certificate(&PKCS_ECDSA_P256_SHA256);
    for len in 0..whole.len() {
        assert!(public_key(&whole[..len]).is_err());
        assert_eq!(end_point(&whole[..len]), None);
    }
    for at in 0..whole.len() {
        for change in [1, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] ^= change;
            let _ = (public_key(&changed).is_ok(), end_point(&changed));
        }
    }
}

/// A directory with files that only their owner can read, by name and contents.
struct Files(TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        mode(&path, 0o600);
        path
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn identity() -> (String, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["me".to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key)
}

fn failure(config: Config) -> String {
    let error: Error = files::load(config.settings()).unwrap_err();
    assert_eq!(error.code(), "config");
    let said = error.to_string();
    assert!(!said.contains('\n'), "{said}");
    said
}

#[test]
fn a_certificate_and_its_key_are_taken_in_each_of_their_forms() {
    let (files, (certificate, key)) = (Files::new(), identity());
    let certificate = files.file("c.pem", certificate);
    for (name, content) in
        [("k.pem", key.serialize_pem().into_bytes()), ("k.der", key.serialize_der())]
    {
        let key = files.file(name, content);
        let config = Config::new().sslcert(&certificate).sslkey(key);
        assert!(files::load(config.settings()).unwrap().client_auth_cert_resolver.has_certs());
    }
    let none = files::load(Config::new().settings()).unwrap();
    assert!(!none.client_auth_cert_resolver.has_certs());
}

#[test]
fn a_key_that_others_can_read_is_refused_by_name() {
    let (files, (certificate, key)) = (Files::new(), identity());
    let certificate = files.file("c.pem", certificate);
    let key = files.file("k.pem", key.serialize_pem());
    let config = || Config::new().sslcert(&certificate).sslkey(&key);
    let owner_is_root = fs::metadata(&key).map(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0);
    for (bits, allowed) in [
        (0o600, true),
        (0o400, true),
        (0o640, owner_is_root.unwrap()),
        (0o604, false),
        (0o660, false),
        (0o644, false),
        (0o777, false),
    ] {
        mode(&key, bits);
        match allowed {
            true => assert!(files::load(config().settings()).is_ok(), "{bits:o}"),
            false => {
                let said = failure(config());
                for word in ["sslkey", "chmod 600", key.to_str().unwrap()] {
                    assert!(said.contains(word), "{bits:o}: {said}");
                }
            }
        }
    }
}

#[test]
fn files_that_are_of_no_use_are_named_with_the_reason_and_never_quoted() {
    let (files, (certificate, key)) = (Files::new(), identity());
    let other_key = files.file("other.pem", KeyPair::generate().unwrap().serialize_pem());
    let certificate = files.file("c.pem", certificate);
    let encrypted = ["PRIVATE KEY", "ENCRYPTED PRIVATE KEY"];
    let encrypted = files.file("e.pem", key.serialize_pem().replace(encrypted[0], encrypted[1]));
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n";
    let encrypted_old = files.file("o.pem", old);
    let broken =
        files.file("b.pem", "-----BEGIN PRIVATE KEY-----\ns3cr3t!\n-----END PRIVATE KEY-----");
    let text = files.file("text", "s3cr3t");
    let missing = files.0.path().join("missing");
    let directory = files.0.path().to_owned();
    let with_key = |key: &Path| Config::new().sslcert(&certificate).sslkey(key);
    let roots = |path: &Path| {
        Config::new().sslmode(SslMode::VerifyCa).sslrootcert(RootCert::File(path.to_owned()))
    };
    for (config, words) in [
        (with_key(&other_key), ["sslcert", "does not belong"]),
        (with_key(&encrypted), ["sslkey", "encrypted"]),
        (with_key(&encrypted_old), ["sslkey", "encrypted"]),
        (with_key(&broken), ["sslkey", "no key"]),
        (with_key(&text), ["sslkey", "no key"]),
        (with_key(&missing), ["sslkey", "can't be read"]),
        (with_key(&directory), ["sslkey", "plain file"]),
        (Config::new().sslcert(&certificate), ["sslcert", "without sslkey"]),
        (Config::new().sslcert(&missing), ["sslcert", "can't be read"]),
        (Config::new().sslcert(&text), ["sslcert", "no certificate"]),
        (roots(&missing), ["sslrootcert", "can't be read"]),
        (roots(&text), ["sslrootcert", "no certificate"]),
        (roots(&certificate).sslcrl(&missing), ["sslcrl", "can't be read"]),
        (roots(&certificate).sslcrl(&text), ["sslcrl", "no list"]),
    ] {
        let said = failure(config);
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
        assert!(!said.contains("s3cr3t"), "{said}");
    }
}

#[test]
fn only_the_modes_that_say_so_verify_the_server() {
    let setup = |config: Config| {
        Setup::new(config.settings(), "localhost", [127, 0, 0, 1].into()).verifies()
    };
    let root = || Config::new().sslrootcert(RootCert::File("r".into()));
    for (mode, without, with) in [
        (SslMode::Allow, false, false),
        (SslMode::Prefer, false, false),
        (SslMode::Require, false, true),
        (SslMode::VerifyCa, true, true),
        (SslMode::VerifyFull, true, true),
    ] {
        assert_eq!(setup(Config::new().sslmode(mode)), without, "{mode:?}");
        assert_eq!(setup(root().sslmode(mode)), with, "{mode:?}");
    }
    let full = Settings { sslmode: SslMode::VerifyFull, ..Settings::default() };
    assert_eq!(Verification::of(&full), Verification::Name);
}

#[test]
fn versions_of_tls_are_kept_within_their_limits() {
    use TlsVersion::{V1_2, V1_3};
    use rustls::ProtocolVersion::{TLSv1_2, TLSv1_3};
    for (min, max, expected) in [
        (V1_2, None, &[TLSv1_3, TLSv1_2][..]),
        (V1_3, None, &[TLSv1_3]),
        (V1_2, Some(V1_2), &[TLSv1_2]),
        (V1_2, Some(V1_3), &[TLSv1_3, TLSv1_2]),
    ] {
        let config = Config::new().ssl_min_protocol_version(min).ssl_max_protocol_version(max);
        let versions = files::versions(config.settings());
        let versions: Vec<_> = versions.into_iter().map(|version| version.version).collect();
        assert_eq!(versions, expected);
    }
}

#[test]
fn a_host_that_no_certificate_can_be_for_is_refused_where_names_count() {
    let name = |mode, host: &str| {
        let settings = Settings { sslmode: mode, ..Settings::default() };
        Setup::new(&settings, host, [127, 0, 0, 1].into()).name()
    };
    assert!(name(SslMode::VerifyFull, "db.example").is_ok());
    assert!(name(SslMode::VerifyFull, "a_b.example").is_ok());
    assert!(name(SslMode::VerifyFull, "::1").is_ok());
    let error = name(SslMode::VerifyFull, "no name").unwrap_err();
    assert!(error.to_string().contains("verify-full"), "{error}");
    assert!(name(SslMode::VerifyCa, "no name").is_ok());
}
