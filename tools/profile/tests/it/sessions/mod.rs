//! Generated sessions, of which it is known what must be counted, however they are cut.
//!
//! `ONETRIP_SESSIONS=first..last` runs other seeds.

pub(crate) mod flight;
pub(crate) mod packets;
mod postgres;
mod redis;

use onetrip_profile::{Nanos, Piece, Profile, Profiler, Side, capture};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Random;

use flight::{Act, Counts, Session};
use packets::{Form, Wire};

/// The session of a seed.
pub(crate) fn session(seed: u64) -> Session {
    let mut random = Random::seed_from_u64(seed);
    let of_postgres = !random.next_u64().is_multiple_of(3);
    if of_postgres { postgres::session(random) } else { redis::session(random) }
}

fn counted(profile: &Profile) -> Counts {
    let counts = Counts {
        connections: profile.connections,
        trips: profile.trips.now as u64,
        exchanges: profile.exchanges,
        units: profile.units,
    };
    assert_eq!(profile.opaque, [], "{counts:?}");
    counts
}

/// Feeds pieces, each cut where `cuts` says.
fn proxied(acts: &[Act], mut cuts: impl FnMut(usize, &[u8]) -> Vec<usize>) -> Counts {
    let mut profiler = Profiler::new();
    let mut at = 1_000_000_000;
    for (number, act) in acts.iter().enumerate() {
        at += act.after;
        let mut begin = 0;
        for end in cuts(number, &act.bytes).into_iter().chain([act.bytes.len()]) {
            let bytes = &act.bytes[begin..end];
            profiler.piece(Piece { at, connection: 1, from: act.from, bytes });
            (at, begin) = (at + 100, end);
        }
    }
    profiler.closed(1);
    counted(&profiler.finish())
}

/// Packets of some sessions at once, with their times, and a form for them.
pub(crate) fn packets_of(seed: u64, sessions: &[Session]) -> (Form, Vec<(Nanos, Vec<u8>)>) {
    let mut random = Random::seed_from_u64(seed);
    let form = Form::random(&mut random);
    let mut packets = Vec::new();
    for (number, session) in sessions.iter().enumerate() {
        let random = Random::seed_from_u64(random.next_u64());
        let at = 1_700_000_000_000_000_000 + number as u64 * 3_000_000;
        let mut wire = Wire::new(form, random, 40_000 + number as u16, at);
        wire.connection(&session.acts);
        packets.append(&mut wire.packets);
    }
    packets.sort_by_key(|it| it.0);
    (form, packets)
}

/// Reads a capture of some sessions.
fn captured(seed: u64, sessions: &[Session]) -> Counts {
    let (form, packets) = packets_of(seed, sessions);
    let mut profiler = Profiler::new();
    let read = capture::read(&form.file(&packets)[..], &[], &mut profiler).expect("it is one");
    assert_eq!((read.packets, read.holes), (packets.len() as u64, 0), "{form:?}: {read}");
    counted(&profiler.finish())
}

fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("ONETRIP_SESSIONS").ok();
    let range = wanted.as_deref().and_then(|it| it.split_once(".."));
    range.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?)).unwrap_or(0..400)
}

/// However the bytes come, all is counted exactly, by pieces and by packets.
#[test]
fn sessions_are_counted_exactly() {
    let (mut all, range) = (Counts::default(), seeds());
    for seed in range.clone() {
        let session = session(seed);
        let expected = session.counts;
        let mut random = Random::seed_from_u64(seed ^ 0x5eed);
        assert_eq!(proxied(&session.acts, |_, _| Vec::new()), expected, "seed {seed}");
        for most in [1, 3, 20] {
            let found = proxied(&session.acts, |_, bytes| {
                let mut cuts: Vec<usize> = (0..random.next_u64() % (most + 1))
                    .map(|_| random.next_u64() as usize % bytes.len())
                    .collect();
                cuts.sort_unstable();
                cuts
            });
            assert_eq!(found, expected, "seed {seed}, cut in up to {most} places");
        }
        assert_eq!(captured(seed, &[session]), expected, "seed {seed}, as a capture");
        all.trips += expected.trips;
    }
    println!("{} sessions, {} trips, all exact", range.end - range.start, all.trips);
}

/// Of small sessions each piece is cut at each of its bytes, and byte by byte.
#[test]
fn every_place_to_cut_makes_no_difference() {
    let range = seeds();
    for seed in range.start..range.start + (range.end - range.start) / 10 {
        let Session { acts, counts, .. } = session(seed);
        let len: usize = acts.iter().map(|it| it.bytes.len()).sum();
        assert_eq!(proxied(&acts, |_, bytes| (1..bytes.len()).collect()), counts, "seed {seed}");
        if len > 700 {
            continue;
        }
        for (which, act) in acts.iter().enumerate() {
            for place in 1..act.bytes.len() {
                let cuts = |at, _: &[u8]| if at == which { vec![place] } else { Vec::new() };
                let found = proxied(&acts, cuts);
                assert_eq!(found, counts, "seed {seed}, piece {which} cut at {place}");
            }
        }
    }
}

/// Connections of one capture don't disturb one another.
#[test]
fn captures_of_many_connections_are_counted_exactly() {
    let range = seeds();
    for seed in range.start..range.start + (range.end - range.start) / 20 {
        let sessions: Vec<_> = (0..4).map(|at| session(seed * 4 + at)).collect();
        let mut expected = Counts::default();
        for session in &sessions {
            expected.connections += session.counts.connections;
            expected.trips += session.counts.trips;
            expected.exchanges += session.counts.exchanges;
            expected.units += session.counts.units;
        }
        assert_eq!(captured(seed, &sessions), expected, "seeds from {}", seed * 4);
    }
}

/// What a side says when it has nothing to say.
#[test]
fn nothing_is_counted_of_silence() {
    let acts = [Act { after: 0, from: Side::Server, bytes: b"".to_vec() }];
    let counts = proxied(&acts, |_, _| Vec::new());
    assert_eq!(counts, Counts { connections: 1, ..Counts::default() });
}
