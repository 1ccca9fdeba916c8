//! Connecting by another address than the server's own.

use std::net::SocketAddr;

use onetrip::config::RootCert;
use onetrip::redis::{Client, Config, commands::*};
use onetrip_lab::redis::{ClientCertificates, Server, Settings, Tls};

use crate::support::server;

fn address(server: &Server) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.port()))
}

#[tokio::test]
async fn a_server_is_reached_through_another_address_and_keeps_its_name_in_messages() {
    let Some(mut server) = server(Settings::default()) else { return };
    let config = Config::new().server("nowhere.invalid", 7).password(server.password());
    let config = config.through(address(&server));
    let client = Client::connect_with(&config).await.unwrap();
    client.ping().await.unwrap();
    server.kill().unwrap();
    let error = Client::connect_with(&config).await.unwrap_err().to_string();
    assert!(error.contains("nowhere.invalid:7"), "{error}");
}

#[tokio::test]
async fn a_certificate_has_to_be_about_the_servers_name_and_not_about_the_way() {
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec!["cache.example".to_owned()];
    let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let tls = Tls {
        certificate: certificate.pem().into_bytes(),
        key: key.serialize_pem().into_bytes(),
        authority: certificate.pem().into_bytes(),
        clients: ClientCertificates::Ignored,
    };
    let Some(server) = server(Settings { tls: Some(tls), ..Settings::default() }) else { return };
    let root = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(root.path(), certificate.pem()).unwrap();
    let named = |name: &str| {
        let url = format!("rediss://:{}@{name}:7", server.password());
        let config: Config = url.parse().unwrap();
        config.root_cert(RootCert::File(root.path().into())).through(address(&server))
    };
    let client = Client::connect_with(&named("cache.example")).await.unwrap();
    client.ping().await.unwrap();
    let error = Client::connect_with(&named("127.0.0.1")).await.unwrap_err();
    assert_eq!(error.kind(), onetrip::Kind::Transport, "{error}");
}
