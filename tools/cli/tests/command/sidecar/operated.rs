//! A sidecar as a service: systemd, Unix sockets, and logs for a collector.

use std::io::Write;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::process::Stdio;
use std::time::Duration;

use onetrip_lab::postgres::shared;
use rustix::process::Signal;
use tempfile::tempdir;

use super::scraped::stops_listening;
use super::{Sidecar, fails, not_started, server};
use crate::process::Onetrip;
use crate::wire::{Wire, connect};

/// Logs in, and runs a statement.
fn works(addr: &str) {
    let mut wire = Wire::log_in(shared(), addr, "postgres");
    assert_eq!(wire.query("select 1"), ["T", "D 1", "C SELECT 1", "Z Idle"]);
    wire.terminate();
}

#[test]
fn systemd_hears_when_it_is_ready_and_when_it_stops() {
    let files = tempdir().unwrap();
    let path = files.path().join("notify");
    let name = format!("onetrip-test-{}", std::process::id());
    let (by_path, by_name) = (
        UnixDatagram::bind(&path).unwrap(),
        UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
    );
    for (socket, place) in
        [(by_path, path.to_str().unwrap().to_owned()), (by_name, format!("@{name}"))]
    {
        // Only a hang takes so long.
        socket.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
        let heard = || {
            let mut bytes = [0; 64];
            let len = socket.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..len].to_vec()).unwrap()
        };
        let to = server();
        let arguments = ["sidecar", "--listen", "127.0.0.1:0", "--to", &to];
        let set = [("NOTIFY_SOCKET", &*place)];
        let mut process = Onetrip::start_with(&arguments, Stdio::piped(), &set);
        assert_eq!(heard(), "READY=1");
        let addr = process.first_line().split(" -> ").next().unwrap().to_owned();
        let mut wire = Wire::log_in(shared(), &addr, "postgres");
        wire.query("begin");
        wire.query("select 1");
        process.signal(Signal::TERM);
        assert_eq!(heard(), "STOPPING=1");
        // It has not ended: there is a transaction.
        assert_eq!(wire.query("commit"), ["C COMMIT", "Z Idle"]);
        assert!(process.end().0.success());
    }
}

fn activate(socket: impl Into<std::os::fd::OwnedFd>, count: &str) -> Onetrip {
    let to = server();
    Onetrip::activate(&["sidecar", "--listen", "systemd", "--to", &to], socket.into(), count)
}

#[test]
fn a_socket_of_systemds_is_served() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let (sidecar, _) = Sidecar::of(activate(listener.try_clone().unwrap(), "1"));
    assert_eq!(sidecar.addr, addr);
    works(&addr);
    // Whoever comes while it is started again waits for it: the socket is systemd's.
    assert!(sidecar.end().starts_with("1 connection; "));
    let waiting = std::thread::spawn(move || works(&addr));
    let (sidecar, _) = Sidecar::of(activate(listener, "1"));
    waiting.join().unwrap();
    sidecar.end();
    let files = tempdir().unwrap();
    let path = files.path().join("socket");
    let (sidecar, _) = Sidecar::of(activate(UnixListener::bind(&path).unwrap(), "1"));
    assert_eq!(sidecar.addr, path.to_str().unwrap());
    works(&sidecar.addr);
    sidecar.end();
    assert!(path.exists(), "it is systemd's to remove");
}

#[test]
fn without_the_one_socket_that_was_promised_it_does_not_start() {
    let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
    let connected = UnixDatagram::unbound().unwrap();
    let remote = TcpListener::bind("0.0.0.0:0").unwrap();
    let to = server();
    let arguments = ["sidecar", "--listen", "systemd", "--to", &to];
    let of_another = [("LISTEN_FDS", "1"), ("LISTEN_PID", "1")];
    for (process, word) in [
        (activate(listener(), "2"), "not 2"),
        (activate(listener(), "0"), "not 0"),
        (activate(connected, "1"), "does not listen"),
        (activate(std::fs::File::open("/dev/null").unwrap(), "1"), "does not listen"),
        (activate(remote, "1"), "--allow-remote"),
        (Onetrip::start(&arguments, Stdio::piped()), "there is no socket"),
        (Onetrip::start_with(&arguments, Stdio::piped(), &of_another), "there is no socket"),
    ] {
        let said = not_started(process);
        assert!(said.contains("--listen systemd") && said.contains(word), "{said}");
    }
}

#[test]
fn programs_connect_by_a_unix_socket_which_goes_with_the_sidecar() {
    let files = tempdir().unwrap();
    // As libpq names it, for host=DIRECTORY and port=6543.
    let path = files.path().join(".s.PGSQL.6543");
    let listen = path.to_str().unwrap();
    let to = server();
    let arguments = ["--listen", listen, "--to", &to];
    let (sidecar, line) = Sidecar::start(&arguments);
    assert!(line.starts_with(&format!("{listen} -> ")), "{line}");
    let metadata = std::fs::metadata(&path).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o777);
    works(listen);
    // Whoever has it keeps it.
    let said = fails(&arguments);
    assert!(said.contains("is in use"), "{said}");
    works(listen);
    // Killed, it leaves its file.
    drop(sidecar);
    assert!(path.exists());
    let (sidecar, _) = Sidecar::start(&arguments);
    works(listen);
    sidecar.end();
    assert!(!path.exists());
}

#[test]
fn what_is_no_socket_or_anothers_is_left_alone() {
    let files = tempdir().unwrap();
    let path = files.path().join("socket");
    let listen = path.to_str().unwrap();
    let to = server();
    let arguments = ["--listen", listen, "--to", &to];
    std::fs::write(&path, "a letter").unwrap();
    fails(&arguments);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a letter");
    std::fs::remove_file(&path).unwrap();
    let (first, _) = Sidecar::start(&arguments);
    std::fs::remove_file(&path).unwrap();
    let (second, _) = Sidecar::start(&arguments);
    first.end();
    works(listen);
    second.end();
    assert!(!path.exists());
}

#[test]
fn a_program_that_is_run_is_led_to_a_port() {
    for listen in ["systemd", "/tmp/socket"] {
        let said = fails(&["--listen", listen, "--to", "127.0.0.1:1", "--run", "--", "true"]);
        assert!(said.contains("--run leads the program to a port"), "{said}");
    }
}

#[test]
fn each_line_of_a_log_for_a_collector_is_an_object_with_a_time_and_a_message() {
    let to = server();
    let arguments = ["--listen", "127.0.0.1:0", "--to", &to, "--log", "json"];
    let all = [&["sidecar"], &arguments[..]].concat();
    let mut process = Onetrip::start(&all, Stdio::piped());
    let mut lines = process.lines();
    let mut next = || message(&lines.next().unwrap().unwrap());
    let addr = next().split(" -> ").next().unwrap().to_owned();
    let mut stranger = connect(&addr);
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    process.wait_for("does not speak PostgreSQL");
    let mut wire = Wire::log_in(shared(), &addr, "postgres");
    wire.query("begin");
    wire.query("select 1");
    process.signal(Signal::TERM);
    // The first one is heard; the second one ends it at once.
    stops_listening(&addr);
    process.signal(Signal::TERM);
    let (status, said) = process.end();
    assert_eq!(status.code(), Some(128 + 15), "{said}");
    assert!(message(&said).contains("stopped by SIGTERM; programs that were in"), "{said}");
    // And so is what keeps it from starting, and what it saved.
    let nowhere = "nowhere.invalid:1";
    let said = fails(&["--listen", "127.0.0.1:0", "--to", nowhere, "--log", "json"]);
    assert!(message(&said).contains("nowhere.invalid"), "{said}");
    let said = fails(&["--config", "/nonexistent", "--log", "json"]);
    assert!(message(&said).contains("/nonexistent"), "{said}");
    let (sidecar, _) = Sidecar::start(&["--listen", "127.0.0.1:0", "--to", &to, "--log", "json"]);
    let said = sidecar.end();
    assert!(message(&said).starts_with("0 connections; saved 0 trips"), "{said}");
}

/// The message of a line, which must be the only one.
fn message(line: &str) -> String {
    let object: serde_json::Value = serde_json::from_str(line.trim_end_matches('\n')).unwrap();
    assert!(object["time"].as_f64().unwrap() > 1e9, "{line}");
    assert_eq!(object.as_object().unwrap().len(), 2, "{line}");
    object["message"].as_str().unwrap().to_owned()
}
