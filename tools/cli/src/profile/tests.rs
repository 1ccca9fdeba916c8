//! Whatever passes and whatever becomes of the analysis, bytes arrive as they were sent.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use onetrip_profile::Profile;

use super::analysis::{Analysis, Settings};
use super::splice::Front;

/// A test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(600);

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Bytes that begin as one of the protocols does, or as none, and go on with whole messages or
    /// garbage.
    fn stream(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = BEGINNINGS[self.below(BEGINNINGS.len())].to_vec();
        while bytes.len() < len {
            match self.below(4) {
                0 => bytes.extend(self.next().to_le_bytes()),
                _ => bytes.extend(PARTS[self.below(PARTS.len())]),
            }
        }
        bytes
    }
}

const BEGINNINGS: [&[u8]; 5] = [
    b"\0\0\0\x13\0\x03\0\0user\0u\0\0\0",
    b"\0\0\0\x08\x04\xd2\x16\x2f",
    b"*1\r\n$4\r\nPING\r\n",
    b"\x16\x03\x01\x02\0\x01",
    b"",
];

const PARTS: [&[u8]; 11] = [
    b"Q\0\0\0\x0dselect 1\0",
    b"P\0\0\0\x10\0select 1\0\0\0",
    b"B\0\0\0\x0c\0\0\0\0\0\0\0\0",
    b"E\0\0\0\x09\0\0\0\0\0",
    b"S\0\0\0\x04",
    b"C\0\0\0\x0dSELECT 1\0",
    b"Z\0\0\0\x05I",
    b"R\0\0\0\x08\0\0\0\0",
    b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
    b"$1\r\nv\r\n+OK\r\n",
    b"",
];

/// Writes all bytes in pieces of any size, and then reads to the end.
fn talk(mut stream: TcpStream, bytes: &[u8], mut random: Random) -> Vec<u8> {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let heard = thread::spawn(move || {
        let mut heard = Vec::new();
        reader.read_to_end(&mut heard).unwrap();
        heard
    });
    let mut rest = bytes;
    while !rest.is_empty() {
        let most = if random.below(8) == 0 { 20_000 } else { 20 };
        let count = (1 + random.below(most)).min(rest.len());
        stream.write_all(&rest[..count]).unwrap();
        rest = &rest[count..];
    }
    stream.shutdown(Shutdown::Write).unwrap();
    heard.join().unwrap()
}

/// Random streams in both directions of several connections at once.
fn pass_on(settings: Settings, seed: u64) -> Profile {
    const CONNECTIONS: u64 = 4;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server: SocketAddr = listener.local_addr().unwrap();
    let analysis = Analysis::start(settings).unwrap();
    let proxy = Front::free().proxy(server.into(), analysis.tap(0)).unwrap();
    for connection in 0..CONNECTIONS {
        let mut random = Random(seed << 8 | connection);
        let (len_up, len_down) = (random.below(100_000), random.below(100_000));
        let (up, down) = (random.stream(len_up), random.stream(len_down));
        let client = TcpStream::connect(proxy.addr()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        thread::scope(|scope| {
            let heard = scope.spawn(|| talk(stream, &down, Random(seed ^ 1)));
            assert!(talk(client, &up, random) == down, "seed {seed}: down");
            assert!(heard.join().unwrap() == up, "seed {seed}: up");
        });
    }
    drop(proxy);
    analysis.finish().unwrap()
}

/// How many seeds: few by default.
fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("ONETRIP_PROFILE_SEEDS").ok().and_then(|it| it.parse().ok());
    0..count.unwrap_or(10)
}

#[test]
fn bytes_arrive_as_they_were_sent() {
    for seed in seeds() {
        let profile = pass_on(Settings::default(), seed);
        assert_eq!((profile.lossy, profile.incomplete), (0, None), "seed {seed}");
    }
}

#[test]
fn bytes_arrive_when_the_analysis_panics_and_the_profile_says_what_is_missing() {
    for seed in seeds() {
        let settings = Settings { panics_at: Some(1 + seed % 5), ..Settings::default() };
        let profile = pass_on(settings, seed);
        let said = profile.incomplete.unwrap();
        assert!(said.starts_with("the analysis failed at "), "seed {seed}: {said}");
        assert!(profile.lossy > 0, "seed {seed}");
    }
}

#[test]
fn bytes_arrive_when_the_ring_is_full_and_the_profile_says_what_is_missing() {
    for seed in seeds() {
        for bytes_max in [0, 30, 5_000] {
            let profile = pass_on(Settings { bytes_max, ..Settings::default() }, seed);
            let said = profile.incomplete.unwrap_or_default();
            assert!(said.contains("came faster") == (profile.lossy > 0), "seed {seed}: {said}");
            assert!(bytes_max > 0 || profile.lossy > 0, "seed {seed}");
        }
    }
}
