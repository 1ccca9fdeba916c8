//! Requests that wait for the next reply of a busy server.

use std::net::{TcpListener, TcpStream};

use onetrip_abi::completion::kind;
use onetrip_abi::export::{onetrip_deadline, onetrip_time, onetrip_transmit_len};

use crate::host::Host;

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];

/// The reply to a statement without rows.
fn reply() -> Vec<u8> {
    let parts = [
        message(b'1', b""),
        message(b'2', b""),
        message(b'n', b""),
        message(b'C', b"SELECT 0\0"),
        READY.to_vec(),
    ];
    parts.concat()
}

#[test]
fn what_is_held_back_leaves_in_time_and_is_not_taken_for_a_peer_that_stalls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut host = Host::on(socket, "user\0me\0");
    host.write();
    host.receive(&[&message(b'R', &[0; 4])[..], &READY].concat());
    host.wait_for(kind::READY);
    host.clock = Some(1_000_000.0);
    (0..30).for_each(|_| _ = host.submit(0, "select 1", "", &[]));
    host.write();
    host.receive(&reply());
    host.clock = Some(1_000_000.05);
    host.receive(&reply());
    host.take();
    host.submit(0, "select 2", "", &[]);
    // SAFETY: the connection lives.
    unsafe {
        assert_eq!(onetrip_transmit_len(host.connection), 0, "it waits for the next reply");
        assert!(onetrip_deadline(host.connection) < 1_000_001.0);
        // The host was busy for longer than the stall timeout.
        onetrip_time(host.connection, 1_060_000.0);
        host.take();
        assert!(host.happened.iter().all(|it| it.kind != kind::CLOSED), "{:?}", host.happened);
        assert!(onetrip_transmit_len(host.connection) > 0);
    }
}
