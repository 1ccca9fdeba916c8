//! Servers that can't be trusted, or have no TLS, are told nothing.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use onetrip_lab::proxy::{Direction, Proxy, ProxyConfig, Tap};
use onetrip_postgres::message::ssl_request::SSL_REQUEST;

use super::super::{Mode, TlsArgs};
use super::support::{Database, HOST, Profiled, database};

/// What a server was sent.
#[derive(Debug, Default)]
struct Heard(Mutex<Vec<u8>>);

impl Tap for Heard {
    fn opened(&self, _: u64, _: Duration) {}

    fn passed(&self, _: u64, direction: Direction, _: u64, bytes: &[u8]) {
        if direction == Direction::Up {
            self.0.lock().unwrap().extend_from_slice(bytes);
        }
    }

    fn closed(&self, _: u64) {}
}

/// What psql says of a server at this host, and what the server was sent.
fn refusal(database: &Database, host: &str, args: &TlsArgs) -> (String, Vec<u8>) {
    let heard = Arc::<Heard>::default();
    let server = std::net::SocketAddr::from(([127, 0, 0, 1], database.postgres.port()));
    let config = ProxyConfig { tap: Some(heard.clone()), ..ProxyConfig::new(server) };
    let proxy = Proxy::start(config).unwrap();
    let profiled = Profiled::to(&format!("{host}:{}", proxy.addr().port()), args);
    let error = database.psql(profiled.port(), "", "select 1").unwrap_err();
    let [note] = &profiled.notes()[..] else { panic!("{:?}", profiled.notes()) };
    assert!(error.contains(note.as_str()), "{error}: {note}");
    let place = format!("onetrip profile: {host}:{}: ", proxy.addr().port());
    assert!(note.starts_with(&place) && !note.contains('\n'), "{note}");
    drop(proxy);
    let heard = heard.0.lock().unwrap().clone();
    (note.clone(), heard)
}

#[test]
fn a_server_that_is_not_verified_is_sent_nothing_of_the_login() {
    let Some(database) = database() else { return };
    let args = database.certificates.args(Mode::VerifyFull, None);
    let other = database.certificates.path("other.crt").display().to_string();
    let unknown = TlsArgs { tls_root: Some(other), ..args.clone() };
    for (host, args, says) in
        [("127.0.0.1", args, "not for this host"), (HOST, unknown, "no authority that")]
    {
        let (note, heard) = refusal(database, host, &args);
        assert!(note.contains(says), "{note}");
        assert!(heard.starts_with(&SSL_REQUEST), "{heard:?}");
        assert_eq!(heard[SSL_REQUEST.len()], 0x16, "{heard:?}");
        assert!(!heard.windows(4).any(|it| it == b"user" || it == b"safe"), "{heard:?}");
    }
}

#[test]
fn a_server_without_tls_is_sent_nothing_of_the_login() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let Some(database) = database() else { return };
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = [0; 8];
        client.read_exact(&mut request).unwrap();
        client.write_all(b"N").unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        (request, rest)
    });
    let args = database.certificates.args(Mode::VerifyFull, None);
    let profiled = Profiled::to(&format!("{HOST}:{port}"), &args);
    let error = database.psql(profiled.port(), "", "select 1").unwrap_err();
    assert!(error.contains("the server has no TLS, which is required here"), "{error}");
    assert_eq!(server.join().unwrap(), (SSL_REQUEST, Vec::new()));
}

#[test]
fn a_server_that_is_not_there_is_told_of() {
    let Some(database) = database() else { return };
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let args = database.certificates.args(Mode::Require, None);
    let profiled = Profiled::to(&free.to_string(), &args);
    let error = database.psql(profiled.port(), "", "select 1").unwrap_err();
    assert!(error.contains(&format!("onetrip profile: {free}: can't connect")), "{error}");
}

#[test]
fn a_mode_that_leaves_the_choice_takes_tls_where_it_is() {
    let Some(database) = database() else { return };
    let root = database.certificates.path("root.crt");
    let port = database.postgres.port();
    for (mode, encrypted) in [("prefer", "t"), ("verify-full", "t"), ("disable", "f")] {
        let to = format!("postgres://{HOST}:{port}/?sslmode={mode}&sslrootcert={}", root.display());
        let profiled = Profiled::to(&to, &TlsArgs::default());
        let said = database.psql(profiled.port(), "user=postgres", super::support::IS_ENCRYPTED);
        assert_eq!(said.as_deref(), Ok(encrypted), "{mode}");
    }
}

#[test]
fn files_that_can_not_be_used_are_told_of_at_once() {
    let Some(database) = database() else { return };
    let missing = |mut args: TlsArgs| {
        args.tls_root = Some("/no/such".to_owned());
        Profiled::begin(&database.to(), &args).err().unwrap()
    };
    let error = missing(database.certificates.args(Mode::VerifyFull, None));
    assert!(error.contains("/no/such") && !error.contains('\n'), "{error}");
    let mut args = database.certificates.args(Mode::Off, Some("mine"));
    args.key = Some(database.certificates.path("server.key"));
    let error = Profiled::begin(&database.to(), &args).err().unwrap();
    assert!(error.starts_with("--cert and --key can't be used together"), "{error}");
}
