//! TLS: what each mode asks for, and who is refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use onetrip_lab::postgres::{Options, PrivatePostgres};
use onetrip_lab::redis::{ClientCertificates, Server, Settings, Tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::staged::{Linked, compiled, done, home};

/// An authority, and a server's certificate and key.
struct Certificates {
    authority: String,
    server: String,
    key: String,
}

fn certificates() -> Certificates {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&authority_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let issuer = Issuer::new(params, authority_key);
    let server = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    Certificates { authority: authority.pem(), server: server.pem(), key: key.serialize_pem() }
}

fn written(name: &str, text: &str) -> PathBuf {
    let unique = format!("{}_{name}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique);
    fs::write(&path, text).unwrap();
    path
}

/// What the program says of a server: whether it is encrypted, or the status and the message.
fn said(url: &str) -> String {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let source = || home().join("tests/c/secured.c");
    let program = PROGRAM.get_or_init(|| compiled(&source(), &["-std=c11"], Linked::Shared));
    String::from_utf8(done(Command::new(program).arg(url)).stdout).unwrap()
}

#[test]
fn each_mode_gets_what_it_asks_for() {
    let of = certificates();
    let options = Options::default()
        .setting("ssl", "on")
        .file("server.crt", of.server.clone())
        .file("server.key", of.key.clone());
    let server = PrivatePostgres::start(options).unwrap();
    let root = written("root.pem", &of.authority);
    let other = written("other.pem", &certificates().authority);
    let (root, other) = (root.display(), other.display());
    for (settings, expected) in [
        ("sslmode=disable".to_owned(), "plain"),
        ("sslmode=prefer".to_owned(), "TLSv1.3"),
        (format!("sslmode=require&sslrootcert={root}"), "TLSv1.3"),
        (format!("sslmode=verify-ca&sslrootcert={root}"), "TLSv1.3"),
        (format!("sslmode=verify-full&sslrootcert={root}"), "TLSv1.3"),
        (
            format!("sslmode=verify-full&sslrootcert={root}&ssl_max_protocol_version=TLSv1.2"),
            "TLSv1.2",
        ),
        (format!("sslmode=verify-full&sslrootcert={other}"), "connect not sent"),
        (format!("sslmode=require&sslrootcert={other}"), "connect not sent"),
        ("sslmode=verify-full&sslrootcert=/nowhere".to_owned(), "connect not sent"),
        ("sslmode=verify-full&sslrootcert=".to_owned(), "refused not sent"),
        ("sslmode=prefer&channel_binding=require".to_owned(), "refused not sent"),
    ] {
        let got = said(&format!("{}?{settings}", server.url()));
        assert!(got.starts_with(expected), "{settings}: {got}");
        assert!(!got.contains(server.password()), "{settings}: {got}");
    }
}

#[test]
fn redis_is_spoken_to_by_tls() {
    let of = certificates();
    let tls = Tls {
        certificate: of.server.clone().into_bytes(),
        key: of.key.clone().into_bytes(),
        authority: of.authority.clone().into_bytes(),
        clients: ClientCertificates::Ignored,
    };
    let Some(_) = onetrip_lab::redis::shared() else { return };
    let server = Server::start(Settings { tls: Some(tls), ..Settings::default() }).unwrap();
    let root = written("redis.pem", &of.authority);
    let other = written("redis_other.pem", &certificates().authority);
    let url = |root: &Path| {
        let of = server.url();
        let rest = of.split_once("://").unwrap().1;
        let rest = rest.split(['?', '#']).next().unwrap();
        format!("rediss://{rest}?sslrootcert={}", root.display())
    };
    assert_eq!(said(&url(&root)), "PONG\n");
    let refused = said(&url(&other));
    assert!(refused.starts_with("connect not sent"), "{refused}");
}
