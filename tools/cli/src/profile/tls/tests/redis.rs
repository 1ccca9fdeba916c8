//! Redis with TLS, which begins without asking.

use onetrip::config::RootCert;
use onetrip::redis::{Client, Config};
use onetrip_lab::redis::{ClientCertificates, Server, Settings, Tls, found_or_skipped};

use super::super::{Mode, TlsArgs};
use super::support::{Certificates, HOST, Profiled};

fn server(certificates: &Certificates) -> Option<Server> {
    let tls = Tls {
        certificate: certificates.certificate.clone().into_bytes(),
        key: certificates.key.clone().into_bytes(),
        authority: certificates.root.clone().into_bytes(),
        clients: ClientCertificates::Optional,
    };
    let installation = Some(found_or_skipped()?);
    Some(Server::start(Settings { installation, tls: Some(tls), ..Settings::default() }).unwrap())
}

/// What a server answers.
fn ask(config: &Config) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect_with(config).await.map_err(|it| it.to_string())?;
        client.cmd("ECHO").arg("hello").send::<String>().await.map_err(|it| it.to_string())
    })
}

#[test]
fn commands_of_clients_without_tls_go_to_a_server_with_it() {
    let certificates = Certificates::new();
    let Some(server) = server(&certificates) else { return };
    let to = format!("rediss://{HOST}:{}", server.port());
    let profiled = Profiled::to(&to, &certificates.args(Mode::Auto, None));
    let config = Config::new().server("127.0.0.1", profiled.port()).password(server.password());
    assert_eq!(ask(&config).as_deref(), Ok("hello"));
    let profile = profiled.end();
    assert_eq!((profile.connections, profile.opaque.len()), (1, 0), "{profile:?}");
    assert!(profile.shapes.iter().any(|it| it.is_redis), "{profile:?}");
}

#[test]
fn commands_of_clients_with_tls_go_to_a_server_with_it() {
    let certificates = Certificates::new();
    let Some(server) = server(&certificates) else { return };
    let to = format!("{HOST}:{}", server.port());
    let profiled = Profiled::to(&to, &certificates.args(Mode::VerifyFull, Some("mine")));
    let url = format!("rediss://{HOST}:{}", profiled.port());
    let config: Config = url.parse().unwrap();
    let config = config.password(server.password());
    let root = RootCert::File(certificates.path("root.crt"));
    assert_eq!(ask(&config.root_cert(root)).as_deref(), Ok("hello"));
    assert_eq!(profiled.end().opaque.len(), 0);
}

#[test]
fn a_server_that_is_not_verified_gets_no_command() {
    let certificates = Certificates::new();
    let Some(server) = server(&certificates) else { return };
    let to = format!("rediss://127.0.0.1:{}", server.port());
    let profiled = Profiled::to(&to, &certificates.args(Mode::Auto, None));
    let config = Config::new().server("127.0.0.1", profiled.port()).password(server.password());
    let error = ask(&config).unwrap_err();
    assert!(error.contains("not for this host"), "{error}");
    let plain = TlsArgs { tls: Mode::Off, ..TlsArgs::default() };
    drop(profiled);
    // Nor is it spoken to in clear by mistake: such a server takes no command so.
    let profiled = Profiled::to(&to, &plain);
    let config = Config::new().server("127.0.0.1", profiled.port());
    assert!(ask(&config).is_err());
}
