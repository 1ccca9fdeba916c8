//! Private Redis servers: the behaviour that tests rely on.

use std::fs;
use std::io::BufRead;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command as Process, Stdio};

use onetrip_lab::redis::{
    Answer, ClientCertificates, Installation, Plain, Server, Settings, Tls, found_or_skipped,
    shared,
};
use onetrip_redis::Command;

fn start(settings: Settings) -> Option<Server> {
    let installation = Some(found_or_skipped()?);
    Some(Server::start(Settings { installation, ..settings }).unwrap())
}

fn ping(plain: &mut Plain) -> Answer {
    plain.ask(&Command::new("PING")).unwrap()
}

fn text(text: &str) -> Answer {
    Answer::Text(text.into())
}

fn is_refused(answer: &Answer, code: &str) -> bool {
    matches!(answer, Answer::Error(text) if text.starts_with(code))
}

fn ask(server: &Server, command: &Command) -> Answer {
    server.plain().unwrap().ask(command).unwrap()
}

#[test]
fn a_server_answers_on_tcp_and_on_its_socket() {
    let Some(server) = shared() else { return };
    assert_eq!(ping(&mut server.plain().unwrap()), text("PONG"));
    let mut plain = Plain::tcp(server.port()).unwrap();
    assert!(is_refused(&ping(&mut plain), "NOAUTH"));
    let login = |password: &str| Command::new("AUTH").arg(password);
    assert!(is_refused(&plain.ask(&login("wrong")).unwrap(), "WRONGPASS"));
    assert_eq!(plain.ask(&login(server.password())).unwrap(), text("OK"));
    assert_eq!(ping(&mut plain), text("PONG"));
    let url = format!("redis://:{}@127.0.0.1:{}/0", server.password(), server.port());
    assert_eq!(server.url(), url);
    let info = ask(server, &Command::new("INFO").arg("server"));
    assert_eq!(info.field("process_id"), Some(server.pid().to_string().as_str()));
    assert!(!format!("{server:?}").contains(server.password()));
}

#[test]
fn values_of_any_bytes_and_any_length_come_back() {
    let Some(server) = shared() else { return };
    let mut plain = server.plain().unwrap();
    let value: Vec<u8> = (0..100_000).map(|at| (at % 256) as u8).collect();
    plain.tell(&Command::new("SET").arg("bytes").arg(&value)).unwrap();
    assert_eq!(plain.ask(&Command::new("GET").arg("bytes")).unwrap(), Answer::Text(value));
    assert_eq!(plain.ask(&Command::new("GET").arg("absent")).unwrap(), Answer::Nil);
    let list = Command::new("EVAL").arg("return {1, 'two', {}}").arg(0);
    let items = vec![Answer::Number(1), text("two"), Answer::Many(Vec::new())];
    assert_eq!(plain.ask(&list).unwrap(), Answer::Many(items));
}

#[test]
fn settings_reach_the_server() {
    let settings = Settings { password: false, debug_command: true, ..Settings::default() };
    let settings = settings.setting("maxclients", "77").user("anna", "on >secret ~a:* +get +ping");
    let Some(server) = start(settings) else { return };
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}/0", server.port()));
    let mut plain = Plain::tcp(server.port()).unwrap();
    let maximum = plain.ask(&Command::new("CONFIG GET").arg("maxclients")).unwrap();
    assert_eq!(maximum.items(), [text("maxclients"), text("77")]);
    let debug = Command::new("DEBUG PROTOCOL").arg("integer");
    assert!(matches!(plain.ask(&debug).unwrap(), Answer::Number(_)));
    plain.tell(&Command::new("AUTH").arg("anna").arg("secret")).unwrap();
    assert_eq!(plain.ask(&Command::new("GET").arg("a:1")).unwrap(), Answer::Nil);
    assert!(is_refused(&plain.ask(&Command::new("GET").arg("b")).unwrap(), "NOPERM"));
}

#[test]
fn debug_is_refused_unless_it_was_asked_for() {
    let Some(server) = shared() else { return };
    if server.installation().major() >= 7 {
        assert!(is_refused(&ask(server, &Command::new("DEBUG PROTOCOL").arg("integer")), "ERR"));
    }
}

#[test]
fn nothing_listens_on_tcp_where_the_socket_is_enough() {
    let Some(server) = start(Settings { unix_only: true, ..Settings::default() }) else { return };
    assert_eq!(server.port(), 0);
    let url = format!("unix::{}@{}", server.password(), server.socket().display());
    assert_eq!(server.url(), url);
    let config = ask(&server, &Command::new("CONFIG GET").arg("port"));
    assert_eq!(config.items(), [text("port"), text("0")]);
    assert_eq!(ping(&mut server.plain().unwrap()), text("PONG"));
}

#[test]
fn with_certificates_the_port_speaks_tls_alone() {
    let Some(installation) = found_or_skipped() else { return };
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let tls = Tls {
        certificate: certificate.pem().into_bytes(),
        key: key.serialize_pem().into_bytes(),
        authority: certificate.pem().into_bytes(),
        clients: ClientCertificates::Optional,
    };
    let settings =
        Settings { installation: Some(installation), tls: Some(tls), ..Settings::default() };
    let server = Server::start(settings).unwrap();
    assert!(server.url().starts_with("rediss://"), "{}", server.url());
    let answer = Plain::tcp(server.port()).unwrap().ask(&Command::new("PING"));
    assert!(answer.is_err(), "{answer:?}");
    let wanted = ask(&server, &Command::new("CONFIG GET").arg("tls-auth-clients"));
    assert_eq!(wanted.items()[1], text("optional"));
}

#[test]
fn a_killed_server_starts_again_on_its_port_without_its_data() {
    let Some(mut server) = start(Settings::default()) else { return };
    let (url, pid) = (server.url(), server.pid());
    server.plain().unwrap().tell(&Command::new("SET").arg("k").arg("v")).unwrap();
    server.kill().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
    assert!(server.kill().is_err(), "it is not running");
    assert!(server.plain().is_err());
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    assert_ne!(server.pid(), pid);
    assert_eq!(ask(&server, &Command::new("GET").arg("k")), Answer::Nil);
    // And one that runs is stopped first.
    let pid = server.pid();
    server.restart().unwrap();
    assert_ne!(server.pid(), pid);
    assert_eq!(ping(&mut server.plain().unwrap()), text("PONG"));
}

#[test]
fn stopping_and_dropping_leave_no_process_and_no_file() {
    for is_dropped in [false, true] {
        let Some(server) = start(Settings::default()) else { return };
        let (socket, port) = (server.socket(), server.port());
        let directory = socket.parent().unwrap().to_path_buf();
        // An idle client must not hold it up.
        let _client = server.plain().unwrap();
        match is_dropped {
            true => drop(server),
            false => server.stop().unwrap(),
        }
        assert!(!directory.exists());
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        let output = Process::new("ps").args(["-ww", "-A", "-o", "args="]).output().unwrap();
        let processes = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!processes.contains(&directory.display().to_string()));
    }
}

#[test]
fn a_port_that_is_taken_is_told_when_a_server_wants_it_again() {
    let Some(mut server) = start(Settings::default()) else { return };
    server.kill().unwrap();
    let _thief = TcpListener::bind(("127.0.0.1", server.port())).unwrap();
    let error = server.restart().unwrap_err().to_string();
    assert!(error.contains(&format!("took port {}", server.port())), "{error}");
}

#[test]
fn a_server_that_does_not_start_says_why_in_one_line() {
    let Some(installation) = found_or_skipped() else { return };
    let settings = Settings { installation: Some(installation), ..Settings::default() };
    let error = Server::start(settings.setting("maxclients", "many")).unwrap_err().to_string();
    assert!(error.contains("did not start") && error.contains("maxclients"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn what_is_no_server_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("redis-server");
    fs::write(&path, "#!/bin/sh\necho something else\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Installation::at(&path).unwrap_err().to_string();
    assert!(
        error.contains("is neither Redis nor Valkey") && error.contains("redis-server"),
        "{error}"
    );
    assert!(Installation::at("/nowhere").unwrap_err().to_string().contains("/nowhere"));
}

/// This test runs itself a second time as the parent that gets killed.
#[test]
fn a_server_ends_when_its_parent_is_killed() {
    const ROLE: &str = "ONETRIP_TEST_PARENT";
    const NAME: &str = "private_redis::a_server_ends_when_its_parent_is_killed";
    if std::env::var_os(ROLE).is_some() {
        let Some(server) = start(Settings { password: false, ..Settings::default() }) else {
            return;
        };
        println!("\nserver {}", server.port());
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    if found_or_skipped().is_none() {
        return;
    }
    let mut parent = Process::new(std::env::current_exe().unwrap());
    parent.args(["--exact", NAME, "--nocapture"]).env(ROLE, "yes");
    let mut parent = parent.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(parent.stdout.take().unwrap()).lines();
    let port = lines.find_map(|line| line.unwrap().strip_prefix("server ").map(str::to_owned));
    let port: u16 = port.expect("the parent names its server").parse().unwrap();
    let mut client = Plain::tcp(port).unwrap();
    assert_eq!(ping(&mut client), text("PONG"));
    parent.kill().unwrap();
    parent.wait().unwrap();
    // The server cuts its clients when it ends, and not before.
    let cut = client.answer().unwrap_err().kind();
    assert_ne!(cut, std::io::ErrorKind::WouldBlock);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}
