//! Captures that are cut, that lack packets, that are of something else: a line says so, and
//! nothing panics or is guessed.

use onetrip_profile::capture::{CaptureError, Captured, read};
use onetrip_profile::{Piece, Profile, Profiler, Side};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Random;

use crate::sessions::packets::{Form, Link, Wire};
use crate::sessions::{packets_of, session};

fn profiled(file: &[u8]) -> Result<(Captured, Profile), CaptureError> {
    let mut profiler = Profiler::new();
    let captured = read(file, &[5432], &mut profiler)?;
    assert!(!captured.to_string().is_empty());
    Ok((captured, profiler.finish()))
}

#[test]
fn a_capture_is_read_up_to_where_it_is_cut() {
    for is_ng in [false, true] {
        let (mut form, packets) = packets_of(3, &[session(3)]);
        form.is_ng = is_ng;
        let file = form.file(&packets[..packets.len().min(9)]);
        let whole = profiled(&file).expect("it is a capture").0;
        assert!(!whole.is_cut);
        for len in 0..file.len() {
            match profiled(&file[..len]) {
                Ok((captured, _)) => {
                    assert!(captured.packets < whole.packets, "{len}");
                    let says = captured.to_string().contains("ends within a packet");
                    assert_eq!(captured.is_cut, says);
                }
                Err(error) => {
                    assert!(matches!(error, CaptureError::Empty | CaptureError::NoCapture));
                    assert!(len < 110, "{len}: {error}");
                }
            }
        }
    }
}

#[test]
fn what_is_no_capture_is_told() {
    let error = |file: &[u8]| profiled(file).expect_err("it is none").to_string();
    assert_eq!(error(b""), "the capture is empty, or ends within its header");
    assert!(error(b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n").contains("no capture"));
    assert!(error(b"\x1f\x8b\x08\x00 and so on").contains("gunzip -c"));
    let form =
        Form { is_ng: false, is_big_endian: true, is_nanos: true, link: Link::Raw, is_v6: false };
    let mut file = form.file(&[(1, vec![0; 60])]);
    file[20..24].copy_from_slice(&9999_u32.to_be_bytes());
    assert!(error(&file).contains("type 9999"));
}

/// Packets are lost by the capture, and cut by its snaplen: the rest is counted, holes are told, and
/// no more is found than there was.
#[test]
fn packets_that_were_not_captured_are_holes() {
    let mut holes = 0;
    for seed in 0..150 {
        let session = session(seed);
        let expected = session.counts;
        let (form, mut packets) = packets_of(seed, &[session]);
        let mut random = Random::seed_from_u64(seed);
        packets.retain(|_| !random.next_u64().is_multiple_of(20));
        for (_, packet) in &mut packets {
            if random.next_u64().is_multiple_of(30) {
                let len = packet.len();
                packet.truncate(len - (random.next_u64() as usize % len));
            }
        }
        let (captured, profile) = profiled(&form.file(&packets)).expect("it is a capture");
        holes += captured.holes;
        assert!(profile.exchanges <= expected.exchanges, "seed {seed}: {captured}");
    }
    assert!(holes > 50, "{holes}");
}

#[test]
fn one_direction_alone_makes_no_trips() {
    for seed in 0..50 {
        for own in [0, 1_u8] {
            let (form, packets) = packets_of(seed, &[session(seed)]);
            let form = Form { link: Link::Raw, is_v6: false, ..form };
            let mut wire = Wire::new(form, Random::seed_from_u64(seed), 40_000, 0);
            wire.connection(&session(seed).acts);
            let of_one: Vec<_> =
                wire.packets.into_iter().filter(|it| it.1[15] == 10 + own).collect();
            assert!(of_one.len() < packets.len() * 3);
            let (_, profile) = profiled(&form.file(&of_one)).expect("it is a capture");
            assert_eq!((profile.trips.now, profile.exchanges), (0.0, 0), "seed {seed}");
        }
    }
}

/// A capture that begins amid connections is taken up where nothing can be in flight. What it shows
/// has a text or says that it has none, and no answer goes to another request.
#[test]
fn connections_that_were_open_before_are_taken_up() {
    let (mut taken_up, mut all) = (0, 0);
    for seed in 0..200 {
        let session = session(seed);
        let expected = session.counts;
        let (form, packets) = packets_of(seed, &[session]);
        let middle = packets.len() / 3;
        let (_, profile) = profiled(&form.file(&packets[middle..])).expect("it is a capture");
        assert!(profile.exchanges <= expected.exchanges, "seed {seed}");
        taken_up += profile.exchanges;
        all += expected.exchanges;
    }
    assert!(taken_up * 4 > all, "{taken_up} of {all}");
}

#[test]
fn what_is_no_database_is_told() {
    let tls = [0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3];
    let random: Vec<u8> = (0..200_u32).map(|it| ((it * 7919) >> 3) as u8 | 0x80).collect();
    for (client, server, why) in [
        (&b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"[..], &b"HTTP/1.1 200 OK\r\n\r\n"[..], "neither"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", "neither"),
        (b"EHLO a\r\n", b"250 hello\r\n", "neither"),
        (&random, &random, "neither"),
        (&tls, b"\x16\x03\x03\0\x10", "encrypted"),
    ] {
        let mut profiler = Profiler::new();
        for round in 0..3 {
            for (from, bytes) in [(Side::Client, client), (Side::Server, server)] {
                let at = round * 1_000_000 + u64::from(from == Side::Server) * 100_000;
                profiler.piece(Piece { at, connection: 1, from, bytes });
            }
        }
        let profile = profiler.finish();
        assert_eq!(profile.exchanges, 0);
        let said = &profile.opaque[0].0;
        assert!(said.starts_with(why), "{:?}: {said}", client.escape_ascii().to_string());
        // Its trips are told apart by their times.
        assert_eq!(profile.trips.now, 3.0, "{said}");
    }
}

/// Any change of any byte of a capture, and of the bytes of a proxy. `ONETRIP_SEED=n` repeats one.
#[test]
fn changed_bytes_break_nothing() {
    let seed = std::env::var("ONETRIP_SEED").ok().and_then(|it| it.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed: u64 = seed.unwrap_or(now.map_or(0, |it| it.as_millis() as u64));
    println!("ONETRIP_SEED={seed}");
    let mut random = Random::seed_from_u64(seed);
    for run in 0..300 {
        let which = session(random.next_u64() % 1000);
        let mut profiler = Profiler::new();
        for (at, act) in which.acts.iter().enumerate() {
            let mut bytes = act.bytes.clone();
            if random.next_u64().is_multiple_of(4) {
                let place = random.next_u64() as usize % bytes.len();
                bytes[place] = random.next_u64() as u8;
            }
            let at = if run % 3 == 0 { random.next_u64() } else { at as u64 };
            profiler.piece(Piece { at, connection: 1, from: act.from, bytes: &bytes });
        }
        let _ = profiler.finish();
        let (form, packets) = packets_of(random.next_u64(), &[which]);
        let mut file = form.file(&packets);
        for _ in 0..1 + random.next_u64() % 20 {
            let place = random.next_u64() as usize % file.len();
            file[place] = random.next_u64() as u8;
        }
        let _ = profiled(&file);
    }
}
