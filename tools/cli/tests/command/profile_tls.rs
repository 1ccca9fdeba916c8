//! `onetrip profile` where a program's URLs want TLS.

use std::fs;
use std::path::{Path, PathBuf};

use onetrip_lab::postgres::{Options, PrivatePostgres};
use onetrip_lab::redis::{ClientCertificates, Server, Settings, Tls, found_or_skipped};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tempfile::tempdir;

use crate::profile::{make_family, profile, read, said};

/// A certificate for localhost that is its own authority, and its key.
fn certificate() -> (String, String) {
    let names = vec!["localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    (cert.pem(), signing_key.serialize_pem())
}

/// A server that takes connections over TCP with TLS only, as localhost.
pub(crate) fn tls_server(files: &Path) -> (PrivatePostgres, PathBuf) {
    let (certificate, key) = certificate();
    let root = files.join("root.crt");
    fs::write(&root, &certificate).unwrap();
    let options = Options::default()
        .setting("ssl", "on")
        .setting("ssl_cert_file", "server.crt")
        .setting("ssl_key_file", "server.key")
        .file("server.crt", certificate)
        .file("server.key", key)
        .file("pg_hba.conf", "local all all scram-sha-256\nhostssl all all all scram-sha-256\n");
    (PrivatePostgres::start(options).unwrap(), root)
}

#[test]
fn a_program_of_postgresql_is_read_and_its_server_is_verified() {
    let files = tempdir().unwrap();
    let (server, root) = tls_server(files.path());
    let url = |host: &str| {
        let (port, password) = (server.port(), server.password());
        format!(
            "postgres://postgres:{password}@{host}:{port}/postgres\
             ?sslmode=verify-full&sslrootcert={}",
            root.display()
        )
    };
    make_family(&url("localhost"));
    let (output, out) = profile("n+1", &[("DATABASE_URL", &url("localhost"))], &[]);
    assert!(output.status.success(), "{}", said(&output));
    let found = read(out.path());
    assert!(found.opaque.is_empty() && found.units >= 30, "{}", said(&output));
    // By its address it is not the server that was asked for.
    let (output, _) = profile("n+1", &[("DATABASE_URL", &url("127.0.0.1"))], &[]);
    assert!(!output.status.success() && said(&output).contains("not for this host"));
    assert!(!said(&output).contains(server.password()));
}

#[test]
fn a_program_of_redis_is_read_and_its_server_is_verified() {
    let (certificate, key) = certificate();
    let files = tempdir().unwrap();
    let root = files.path().join("root.crt");
    fs::write(&root, &certificate).unwrap();
    let tls = Tls {
        certificate: certificate.clone().into_bytes(),
        key: key.into_bytes(),
        authority: certificate.into_bytes(),
        clients: ClientCertificates::Ignored,
    };
    let Some(installation) = found_or_skipped() else { return };
    let settings =
        Settings { installation: Some(installation), tls: Some(tls), ..Settings::default() };
    let server = Server::start(settings).unwrap();
    let (port, password) = (server.port(), server.password());
    let url = format!("rediss://:{password}@localhost:{port}/?sslrootcert={}", root.display());
    let (output, out) = profile("redis", &[("REDIS_URL", &url)], &[]);
    assert!(output.status.success(), "{}", said(&output));
    let profile = read(out.path());
    assert!(profile.opaque.is_empty(), "{:?}", profile.opaque);
    assert!(profile.trips.now >= 80.0, "{:?}", profile.trips);
}
