//! Several servers behind one sidecar.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use onetrip_lab::postgres::{Options, PrivatePostgres, shared};

use super::Sidecar;
use crate::database::wait_for_session;
use crate::process::Onetrip;
use crate::profile_tls::tls_server;
use crate::wire::Wire;

/// Says this to the first who comes, whatever is asked, and hears him out.
fn says(words: &'static [u8]) -> (u16, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
        stream.write_all(words).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        while stream.read(&mut [0; 64]).is_ok_and(|len| len > 0) {}
    });
    (port, thread)
}

fn nobody() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

const STARTING: &[u8] =
    b"E\0\0\0\x3eSFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";

#[test]
fn a_server_that_is_gone_or_starting_is_passed_over() {
    let (starting, thread) = says(STARTING);
    let (empty, other) = says(b"");
    let ports = [nobody(), starting, empty, shared().port()];
    let hosts = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    let sidecar = Sidecar::to(&format!("postgres://{hosts}/"), &[]);
    let mut wire = Wire::log_in(shared(), &sidecar.addr, "postgres");
    assert_eq!(wire.query("select 1"), ["T", "D 1", "C SELECT 1", "Z Idle"]);
    thread.join().unwrap();
    other.join().unwrap();
}

#[test]
fn what_one_server_says_is_heard_in_its_own_words_and_of_several_that_fail_each() {
    let (starting, thread) = says(STARTING);
    let sidecar = Sidecar::to(&format!("127.0.0.1:{starting}"), &[]);
    let Err(error) = Wire::try_log_in(shared(), &sidecar.addr, "postgres") else { panic!() };
    assert!(error.contains("57P03") && !error.contains("onetrip"), "{error}");
    thread.join().unwrap();
    let (starting, thread) = says(STARTING);
    let hosts = format!("postgres://127.0.0.1:{},127.0.0.1:{starting}/", nobody());
    let sidecar = Sidecar::to(&hosts, &[]);
    let Err(error) = Wire::try_log_in(shared(), &sidecar.addr, "postgres") else { panic!() };
    for part in ["can't connect", "the database system is starting up"] {
        assert!(error.contains(part) && error.lines().count() == 1, "{error}");
    }
    thread.join().unwrap();
    // What is about the user is the same everywhere.
    let port = shared().port();
    let sidecar = Sidecar::to(&format!("postgres://127.0.0.1:{port},127.0.0.1:{port}/"), &[]);
    let Err(error) = Wire::try_log_in(shared(), &sidecar.addr, "no such one") else { panic!() };
    assert!(error.contains("3D000") && !error.contains("onetrip"), "{error}");
}

#[test]
fn keyword_pairs_and_services_name_servers_that_are_verified() {
    let files = tempfile::tempdir().unwrap();
    let (tls, root) = tls_server(files.path());
    let pairs = format!(
        "host=localhost,localhost\nport={},{}\nsslmode=verify-full\nsslrootcert={}\n",
        nobody(),
        tls.port(),
        root.display()
    );
    let service = files.path().join("services");
    std::fs::write(&service, format!("[shop]\n{pairs}")).unwrap();
    let service = format!("service=shop servicefile={}", service.display());
    for to in [pairs.replace('\n', " "), service] {
        let sidecar = Sidecar::to(&to, &[]);
        let mut wire = Wire::log_in(&tls, &sidecar.addr, "postgres");
        let heard = wire.query("select ssl from pg_stat_ssl where pid = pg_backend_pid()");
        assert_eq!(heard[1], "D t", "{to}");
    }
}

#[test]
fn a_server_that_is_not_what_is_asked_for_is_left() {
    let primary = PrivatePostgres::start(Options::default()).unwrap();
    let trusting = Options::default().file("pg_hba.conf", "host all all all trust\n");
    for (options, logins) in [(Options::default(), 2), (trusting, 1)] {
        let standby = primary.start_standby(options).unwrap();
        let (first, second) = (standby.port(), primary.port());
        let sidecar = Sidecar::to(
            &format!(
                "postgres://127.0.0.1:{first},127.0.0.1:{second}/?target_session_attrs=read-write"
            ),
            &[],
        );
        let mut refused = 0;
        let mut wire = loop {
            match Wire::try_log_in(&primary, &sidecar.addr, "postgres") {
                Ok(wire) => break wire,
                Err(error) => {
                    refused += 1;
                    assert!(error.contains("57P03"), "{error}");
                    assert!(error.contains("target_session_attrs") && refused < logins, "{error}");
                }
            }
        };
        // Whoever has asked the program for a password can't be replaced, and is passed over then.
        assert_eq!(refused + 1, logins);
        assert_eq!(wire.query("select pg_is_in_recovery()")[1], "D f");
        let mut next = Wire::log_in(&primary, &sidecar.addr, "postgres");
        assert_eq!(next.query("select pg_is_in_recovery()")[1], "D f");
    }
}

#[test]
fn a_cancel_reaches_the_server_that_it_is_for() {
    let other = PrivatePostgres::start(Options::default()).unwrap();
    let role = format!("alter role postgres password '{}'", shared().password());
    crate::database::run(&other.url(), &role);
    let sidecar = Sidecar::to(
        &format!(
            "postgres://127.0.0.1:{},127.0.0.1:{}/?load_balance_hosts=random",
            shared().port(),
            other.port()
        ),
        &[],
    );
    let mut wires: Vec<(String, Wire)> = Vec::new();
    for _ in 0..64 {
        let mut wire = Wire::log_in(shared(), &sidecar.addr, "postgres");
        let port = wire.query("select current_setting('port')")[1].clone();
        if wires.iter().all(|(of, _)| *of != port) {
            wires.push((port, wire));
        }
    }
    assert_eq!(wires.len(), 2, "by chance once in 2^63");
    for (_, wire) in &mut wires {
        wire.begin_query("select pg_sleep(3600)");
    }
    for (port, wire) in wires {
        let is_other = port == format!("D {}", other.port());
        let (user, password) = (shared().user(), shared().password());
        let port = if is_other { other.port() } else { shared().port() };
        let url = format!("postgres://{user}:{password}@127.0.0.1:{port}/postgres");
        let pid = wire.ready.process_id;
        let runs = format!("pid = {pid} and query like 'select pg_sleep%' and state = 'active'");
        wait_for_session(&url, &runs);
        let mut wire = wire;
        wire.cancel(&sidecar.addr);
        assert!(wire.hear(1).iter().any(|it| it.starts_with("E 57014")));
    }
}

#[test]
fn servers_of_which_none_can_be_found_end_it_with_a_line() {
    for (to, word) in [
        ("postgres://a.invalid,b.invalid/", "a.invalid"),
        ("service=nowhere servicefile=/nonexistent", "/nonexistent"),
        ("host=localhost nonsense=1", "nonsense"),
        ("postgres://a,b:1,c:2,/?port=1,2", ""),
    ] {
        let all = ["sidecar", "--listen", "127.0.0.1:0", "--to", to];
        let (status, said) = Onetrip::start(&all, Stdio::null()).end();
        assert_eq!(status.code(), Some(2), "{said}");
        assert!(said.contains(word) && said.lines().count() == 1, "{said}");
    }
}
