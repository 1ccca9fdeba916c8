//! The session with a server of rustls on the other side, joined in memory.
#![allow(clippy::unwrap_used)]

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use bytes::BytesMut;
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ServerConfig, ServerConnection};

use super::session::{Decrypted, Session};
use super::{files, session};
use crate::config::Settings;

/// A socket that takes a limited number of bytes.
struct Wire {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room);
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.room -= taken;
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn wire(room: usize) -> Wire {
    Wire { bytes: Vec::new(), room }
}

/// Both ends, after the handshake.
fn joined() -> (Session, ServerConnection) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let mut server = ServerConnection::new(Arc::new(config)).unwrap();
    server.set_buffer_limit(None);
    let config = files::load(&Settings::default()).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = Session::new(config, name).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut out = wire(usize::MAX);
        client.flush(&mut out).unwrap();
        assert!(server_reads(&mut server, &out.bytes).is_empty());
        let decrypted = client_reads(&mut client, &server_writes(&mut server, b""));
        assert!(decrypted.1.is_empty() && decrypted.0.error.is_none());
    }
    (client, server)
}

fn server_reads(server: &mut ServerConnection, mut encrypted: &[u8]) -> Vec<u8> {
    let mut said = Vec::new();
    while !encrypted.is_empty() {
        server.read_tls(&mut encrypted).unwrap();
        server.process_new_packets().unwrap();
        while let Ok(chunk) = server.reader().fill_buf()
            && !chunk.is_empty()
        {
            let len = chunk.len();
            said.extend_from_slice(chunk);
            server.reader().consume(len);
        }
    }
    said
}

fn server_writes(server: &mut ServerConnection, plain: &[u8]) -> Vec<u8> {
    server.writer().write_all(plain).unwrap();
    let mut out = Vec::new();
    while server.wants_write() {
        server.write_tls(&mut out).unwrap();
    }
    out
}

fn client_reads(client: &mut Session, encrypted: &[u8]) -> (Decrypted, BytesMut) {
    let (mut encrypted, mut plain) = (BytesMut::from(encrypted), BytesMut::new());
    let decrypted = client.decrypt(&mut encrypted, &mut plain);
    assert!(encrypted.is_empty());
    assert_eq!(decrypted.bytes, plain.len());
    (decrypted, plain)
}

/// Numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

#[test]
fn no_more_is_taken_than_may_wait_for_the_socket() {
    let (mut client, mut server) = joined();
    let plain = Random(3).bytes(1 << 20);
    let mut stuck = wire(0);
    let mut taken = 0;
    let blocked = loop {
        match client.write(&plain[taken..], &mut stuck) {
            Ok(more) => taken += more,
            Err(error) => break error,
        }
    };
    assert_eq!(blocked.kind(), io::ErrorKind::WouldBlock);
    assert!(taken > 0 && taken <= session::OUTSTANDING_MAX, "{taken}");
    assert!(!client.is_flushed());
    // All bytes that were taken arrive once the socket takes them, and no others.
    let mut open = wire(usize::MAX);
    client.flush(&mut open).unwrap();
    assert!(client.is_flushed());
    assert!(open.bytes.len() < session::OUTSTANDING_MAX + 4096);
    assert_eq!(server_reads(&mut server, &open.bytes), plain[..taken]);
}

#[test]
fn bytes_arrive_in_order_whatever_the_socket_takes() {
    let mut random = Random(0x5eed);
    println!("seed {:#x}", random.0);
    let (mut client, mut server) = joined();
    let plain = random.bytes(300_000);
    let (mut taken, mut arrived) = (0, Vec::new());
    while arrived.len() < plain.len() {
        let mut socket = wire(random.below(40_000));
        let end = plain.len().min(taken + random.below(100_000));
        match client.write(&plain[taken..end], &mut socket) {
            Ok(more) => taken += more,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        arrived.extend(server_reads(&mut server, &socket.bytes));
    }
    assert_eq!(arrived, plain);
}

#[test]
fn bytes_are_decrypted_in_order_whatever_a_read_brings() {
    let mut random = Random(0xfeed);
    println!("seed {:#x}", random.0);
    let (mut client, mut server) = joined();
    let plain = random.bytes(300_000);
    let mut encrypted = Vec::new();
    for piece in plain.chunks(9_000) {
        encrypted.extend(server_writes(&mut server, piece));
        server.refresh_traffic_keys().unwrap();
    }
    let (mut rest, mut arrived) = (&encrypted[..], Vec::new());
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.len().min(1 + random.below(50_000)));
        let (decrypted, bytes) = client_reads(&mut client, piece);
        assert!(decrypted.error.is_none() && !decrypted.closed);
        arrived.extend_from_slice(&bytes);
        rest = behind;
    }
    assert_eq!(arrived, plain);
}

/// A server that requests new keys gets ours with the next bytes that we send.
#[test]
fn new_keys_that_are_asked_for_come_with_the_next_bytes() {
    let (mut client, mut server) = joined();
    for round in 0..5 {
        server.refresh_traffic_keys().unwrap();
        let said = server_writes(&mut server, b"what?");
        assert_eq!(&client_reads(&mut client, &said).1[..], b"what?");
        let mut socket = wire(usize::MAX);
        assert_eq!(client.write(b"that", &mut socket).unwrap(), 4);
        assert_eq!(server_reads(&mut server, &socket.bytes), b"that", "{round}");
    }
}

#[test]
fn what_came_before_an_error_or_an_end_is_handed_out() {
    let (mut client, mut server) = joined();
    let mut said = server_writes(&mut server, b"good");
    let mut bad = server_writes(&mut server, b"changed");
    *bad.last_mut().unwrap() ^= 1;
    said.extend(bad);
    let (decrypted, bytes) = client_reads(&mut client, &said);
    assert_eq!(&bytes[..], b"good");
    assert!(decrypted.error.is_some());
    // The peer is told why.
    assert!(!client.is_flushed());

    let (mut client, mut server) = joined();
    let mut said = server_writes(&mut server, b"good");
    server.send_close_notify();
    said.extend(server_writes(&mut server, b""));
    said.extend_from_slice(b"what comes behind the goodbye counts for nothing");
    let (decrypted, bytes) = client_reads(&mut client, &said);
    assert_eq!(&bytes[..], b"good");
    assert!(decrypted.closed && decrypted.error.is_none());
}

#[test]
fn an_error_of_the_socket_comes_up_but_takes_nothing_back() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (mut client, _server) = joined();
    assert_eq!(client.write(b"taken", &mut Broken).unwrap(), 5);
    let error = client.write(b"not taken", &mut Broken).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}
