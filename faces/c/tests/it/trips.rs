//! How often the network is crossed, as a proxy in between counts it.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use onetrip_lab::postgres::{Options, PrivatePostgres};
use onetrip_lab::proxy::{Proxy, ProxyConfig};

use crate::staged::{Linked, compiled, home};

#[test]
fn what_is_submitted_together_crosses_the_network_together() {
    let server = PrivatePostgres::start(Options::default()).unwrap();
    let upstream = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let proxy = Proxy::start(ProxyConfig::new(upstream)).unwrap();
    let port = proxy.addr().port().to_string();
    // All of it on one connection.
    let url = server.url().replace(&server.port().to_string(), &port) + "?connections_max=1";
    let source = home().join("tests/c/trips.c");
    let program = compiled(&source, &["-std=c11"], Linked::Shared);
    let mut child = Command::new(program)
        .arg(url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut stdin = child.stdin.take().unwrap();
    let trips = || proxy.stats().trips;
    let mut counted = Vec::new();
    let mut before = None;
    for line in lines {
        assert_eq!(line.unwrap(), "ready");
        let now = trips();
        counted.extend(before.replace(now).map(|before| now - before));
        writeln!(stdin, "go").unwrap();
    }
    assert!(child.wait().unwrap().success());
    // The transfer, one in a transaction, four statements one by one, a hundred in a pipeline, and
    // three that were submitted one behind the other.
    assert_eq!(counted, [1, 1, 4, 1, 1]);
}
