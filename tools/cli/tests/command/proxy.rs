//! `onetrip proxy`: what it prints while it runs, and how it ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use crate::process::{Onetrip, closed, full};
use rustix::process::Signal;

const ARGUMENTS: [&str; 3] = ["proxy", "--upstream", "127.0.0.1:5432"];

#[test]
fn a_signal_ends_it_in_order() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut proxy = Onetrip::start(&ARGUMENTS, Stdio::piped());
        let line = proxy.first_line();
        assert!(line.contains("-> 127.0.0.1:5432"), "{line}");
        proxy.signal(signal);
        let (status, said) = proxy.end();
        assert!(status.success() && said.is_empty(), "{signal:?}: {said}");
    }
}

#[test]
fn an_address_that_cannot_be_told_ends_it() {
    let (status, said) = Onetrip::start(&ARGUMENTS, full()).end();
    assert_eq!(status.code(), Some(2));
    assert!(said.starts_with("onetrip: can't write to standard output"), "{said}");
    let (status, said) = Onetrip::start(&ARGUMENTS, closed()).end();
    assert!(status.success() && said.is_empty(), "{said}");
}

/// An echo server: each connection has a thread of its own. Returns its address.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                std::io::copy(&mut stream.try_clone().unwrap(), &mut stream)
            });
        }
    });
    address
}

fn trip(stream: &mut TcpStream) {
    stream.write_all(b"?").unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

#[test]
fn the_counts_are_told_while_it_runs_and_begin_anew_at_a_signal() {
    let upstream = echo();
    let arguments = ["proxy", "--upstream", &upstream, "--interval", "0.1"];
    let mut proxy = Onetrip::start(&arguments, Stdio::piped());
    let mut lines = proxy.lines().map(Result::unwrap);
    let head = lines.next().unwrap();
    let address = head.split(" -> ").next().unwrap().to_owned();
    let mut next = |part: &str| lines.find(|line| line.contains(part)).unwrap();
    let (mut one, mut other) =
        (TcpStream::connect(&address).unwrap(), TcpStream::connect(&address).unwrap());
    for _ in 0..3 {
        trip(&mut one);
    }
    trip(&mut other);
    let line = next("; 4 trips (4 one after the other, 0 side by side)");
    assert!(line.contains("; 2 connections (#") && line.contains("#1 3, "), "{line}");
    proxy.signal(Signal::USR1);
    let line = next("reset: ");
    assert!(line.starts_with("reset: 2 connections, 4 trips ("), "{line}");
    trip(&mut one);
    next("; 1 trip (1 one after the other, 0 side by side)");
    proxy.signal(Signal::INT);
    let line = next("bytes up");
    assert!(line.starts_with("2 connections, 1 trip (1 one after the other"), "{line}");
    assert!(line.ends_with("1 bytes up, 1 bytes down"), "{line}");
    let (status, said) = proxy.end();
    assert!(status.success() && said.is_empty(), "{said}");
}

#[test]
fn nothing_is_told_of_an_interval_without_a_trip() {
    let upstream = echo();
    let arguments = ["proxy", "--upstream", &upstream, "--interval", "0.1"];
    let mut proxy = Onetrip::start(&arguments, Stdio::piped());
    let mut lines = proxy.lines().map(Result::unwrap);
    let head = lines.next().unwrap();
    let mut stream = TcpStream::connect(head.split(" -> ").next().unwrap()).unwrap();
    // Both in one interval, or the connection in one and the trip in another.
    trip(&mut stream);
    lines.find(|line| line.contains("; 1 trip (")).unwrap();
    trip(&mut stream);
    let line = lines.next().unwrap();
    assert!(line.contains("; 2 trips ("), "{line}");
    proxy.signal(Signal::TERM);
    assert!(lines.next().unwrap().starts_with("1 connection, 2 trips ("));
}
