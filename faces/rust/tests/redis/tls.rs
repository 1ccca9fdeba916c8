//! Connections with TLS, and the errors if only one side has it.

use std::path::{Path, PathBuf};

use onetrip::config::{RootCert, SslMode};
use onetrip::redis::{Client, Config};
use onetrip::{Error, Outcome};
use onetrip_lab::redis::{ClientCertificates, Server, Settings, Tls};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;

/// A server with TLS, and the files that clients need for it.
struct TlsServer {
    server: Server,
    directory: TempDir,
}

/// An authority: its key for signing, and its certificate in PEM.
pub(crate) fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), pem)
}

/// A certificate for these names, and its key, in PEM.
pub(crate) fn identity(issuer: &Issuer<'static, KeyPair>, names: &[&str]) -> (String, String) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let params = CertificateParams::new(names).unwrap();
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, issuer).unwrap().pem(), key.serialize_pem())
}

impl TlsServer {
    /// Starts a server whose certificate is for these names; `None` if this machine has no server.
    fn start(names: &[&str], clients: ClientCertificates) -> Option<TlsServer> {
        let (issuer, root) = authority("the authority");
        let (certificate, key) = identity(&issuer, names);
        let tls = Tls {
            certificate: certificate.into_bytes(),
            key: key.into_bytes(),
            authority: root.clone().into_bytes(),
            clients,
        };
        let server = crate::support::server(Settings { tls: Some(tls), ..Settings::default() })?;
        let server = TlsServer { server, directory: tempfile::tempdir().unwrap() };
        let (certificate, key) = identity(&issuer, &["a client"]);
        server.file("root.crt", &root);
        server.file("other.crt", &authority("another authority").1);
        server.file("client.crt", &certificate);
        server.file("client.key", &key);
        Some(server)
    }

    /// A file that only its owner can read.
    fn file(&self, name: &str, content: &str) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(self.path(name), content).unwrap();
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(0o600)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The configuration to reach it with this scheme, this host, and this authority.
    fn config(&self, scheme: &str, host: &str, root: &str) -> Config {
        let (password, port) = (self.server.password(), self.server.port());
        let url = format!("{scheme}://:{password}@{host}:{port}");
        url.parse::<Config>().unwrap().root_cert(file_of(&self.path(root)))
    }

    /// The error of a client that can't connect like this.
    async fn refused(&self, config: &Config) -> Error {
        let error = Client::connect_with(config).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert_eq!(error.outcome(), Outcome::NotSent, "{text}");
        assert!(!error.to_string().contains('\n') && !text.contains(self.server.password()));
        error
    }
}

fn file_of(path: &Path) -> RootCert {
    RootCert::File(path.to_owned())
}

async fn answers(config: &Config) {
    let client = Client::connect_with(config).await.unwrap();
    let large = vec![b'x'; 1 << 20];
    let key = crate::support::key("tls");
    client.cmd("SET").arg(&key).arg(&large).send::<()>().await.unwrap();
    let replies: Vec<_> = (0..10).map(|_| client.cmd("GET").arg(&key).send::<Vec<u8>>()).collect();
    for reply in replies {
        assert_eq!(reply.await.unwrap(), large);
    }
}

#[tokio::test]
async fn the_server_and_its_name_are_verified() {
    let Some(server) = TlsServer::start(&["localhost"], ClientCertificates::Ignored) else {
        return;
    };
    answers(&server.config("rediss", "localhost", "root.crt")).await;
    let error = server.refused(&server.config("rediss", "127.0.0.1", "root.crt")).await;
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
    let error = server.refused(&server.config("rediss", "localhost", "other.crt")).await;
    assert!(error.to_string().contains("certificate"), "{error}");
    // If no name is verified, this certificate will do.
    let config = server.config("rediss", "127.0.0.1", "root.crt").tls(SslMode::VerifyCa);
    answers(&config).await;
}

#[tokio::test]
async fn a_side_that_has_no_tls_is_told_that_the_other_has() {
    let Some(server) = TlsServer::start(&["localhost"], ClientCertificates::Ignored) else {
        return;
    };
    let error = server.refused(&server.config("redis", "localhost", "root.crt")).await;
    assert!(error.to_string().contains("rediss://"), "{error}");

    let Some(plain) = crate::support::server(Settings::default()) else { return };
    let url = format!("rediss://:{}@localhost:{}", plain.password(), plain.port());
    let config = url.parse::<Config>().unwrap().root_cert(file_of(&server.path("root.crt")));
    // The server waits for the rest of what it takes for a command.
    let short = std::time::Duration::from_millis(500);
    let config = config.limits(|limits| limits.connect_timeout = short);
    let error = server.refused(&config).await;
    assert!(error.to_string().contains("redis:// is without"), "{error}");
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_gets_it() {
    let Some(server) = TlsServer::start(&["localhost"], ClientCertificates::Required) else {
        return;
    };
    let config = server.config("rediss", "localhost", "root.crt");
    let error = server.refused(&config).await;
    assert!(error.to_string().contains("certificate"), "{error}");
    answers(&config.client_cert(server.path("client.crt"), server.path("client.key"))).await;
}
