//! `onetrip demo` on a user's server: what it leaves there, and how it ends.

use std::net::SocketAddr;
use std::process::Stdio;

use crate::process::{Onetrip, closed, full};
use onetrip::Client;
use onetrip_lab::postgres::shared;
use onetrip_lab::proxy::{Direction, Fault, Proxy, ProxyConfig, Scope};
use rustix::process::Signal;

/// A database of the test's own.
fn database() -> String {
    let name = shared().new_name();
    run(&shared().url(), &format!("create database {name}"));
    shared().database_url(&name)
}

/// Runs a statement; the number of its rows.
fn run(url: &str, sql: &str) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let session = Client::connect(url).await.unwrap().session().await.unwrap();
        session.query(sql, &[]).await.unwrap().len()
    })
}

fn has_schema(url: &str) -> bool {
    run(url, "select 1 from pg_namespace where nspname = 'onetrip_demo'") == 1
}

#[test]
fn stopping_by_any_signal_leaves_no_schema() {
    let url = database();
    for moment in ["making the demo's tables", "transfer: warming up", "selects: warming up"] {
        for (signal, name) in
            [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP")]
        {
            let mut demo = Onetrip::start(&["demo", "--url", &url], Stdio::null());
            demo.wait_for(moment);
            demo.signal(signal);
            let (status, said) = demo.end();
            assert_eq!(status.code(), Some(2), "{said}");
            assert!(said.ends_with(&format!("onetrip: stopped by {name}\n")), "{said}");
            assert!(!has_schema(&url), "{name} while {moment}: {said}");
        }
    }
}

#[test]
fn a_schema_that_was_there_before_stays() {
    let url = database();
    run(&url, "create schema onetrip_demo");
    let (status, said) = Onetrip::start(&["demo", "--url", &url], Stdio::null()).end();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("has a schema onetrip_demo already"), "{said}");
    assert!(has_schema(&url));
}

/// A demo whose server hangs from the moment that its tables are there.
fn hung() -> (Onetrip, Proxy) {
    let server = SocketAddr::from(([127, 0, 0, 1], shared().port()));
    let line = Proxy::start(ProxyConfig::new(server)).unwrap();
    let url = database().replace(&shared().port().to_string(), &line.addr().port().to_string());
    let mut demo = Onetrip::start(&["demo", "--url", &url], Stdio::null());
    demo.wait_for("transfer: warming up");
    for direction in [Direction::Up, Direction::Down] {
        line.fault(Fault::Stall { direction }, Scope::All);
    }
    (demo, line)
}

#[test]
fn a_second_signal_ends_a_demo_whose_server_hangs_at_once() {
    let (mut demo, _line) = hung();
    demo.signal(Signal::INT);
    demo.wait_for("dropping the schema onetrip_demo");
    demo.signal(Signal::TERM);
    let (status, said) = demo.end();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.starts_with("onetrip: stopped by SIGTERM"), "{said}");
    assert!(said.contains("drop schema onetrip_demo cascade"), "{said}");
}

#[test]
fn a_server_that_hangs_is_given_up_and_the_schema_named() {
    let (mut demo, _line) = hung();
    demo.signal(Signal::INT);
    demo.wait_for("dropping the schema onetrip_demo");
    let (status, said) = demo.end();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.starts_with("onetrip: stopped by SIGINT; the server did not answer"), "{said}");
    assert!(said.contains("drop schema onetrip_demo cascade"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_signal_while_it_connects_ends_it_at_once() {
    // Accepts by the backlog, and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://u@{}/d", silent.local_addr().unwrap());
    let demo = Onetrip::start(&["demo", "--url", &url], Stdio::null());
    let (_client, _) = silent.accept().unwrap();
    demo.signal(Signal::INT);
    let (status, said) = demo.end();
    assert_eq!((status.code(), said.as_str()), (Some(2), "onetrip: stopped by SIGINT\n"));
}

#[test]
fn a_report_that_cannot_be_written_is_one_line_and_nobody_listening_is_none() {
    let url = database();
    let arguments = ["demo", "--url", &url, "--runs", "1"];
    let (status, said) = Onetrip::start(&arguments, full()).end();
    assert_eq!(status.code(), Some(2), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("onetrip: can't write to standard output: No space"), "{said}");
    let (status, said) = Onetrip::start(&arguments, closed()).end();
    assert!(status.success() && said.ends_with("dropping the schema onetrip_demo\n"), "{said}");
    assert!(!has_schema(&url));
}

#[test]
fn several_hosts_are_refused_in_one_line() {
    let url = "postgres://u@127.0.0.1,localhost/d";
    let (status, said) = Onetrip::start(&["demo", "--url", url], Stdio::null()).end();
    assert_eq!(status.code(), Some(2));
    assert!(said.contains("several hosts") && said.lines().count() == 1, "{said}");
}
