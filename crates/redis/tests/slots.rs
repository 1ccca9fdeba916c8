//! Hash slots against a server.

#![allow(clippy::unwrap_used)]

mod support;

use onetrip_redis::Command;
use onetrip_redis::slots::slot_of;
use support::{Said, Server};

/// Keys of all bytes, with braces more often than chance would have them.
fn keys(seed: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut state = seed;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    std::iter::repeat_with(move || {
        let len = next() % 20;
        (0..len).map(|_| if next() % 3 == 0 { b"{}"[next() % 2] } else { next() as u8 }).collect()
    })
}

#[test]
fn slots_are_those_that_a_cluster_computes() {
    let Some(mut server) = Server::start("slots", &["--cluster-enabled", "yes"]) else { return };
    let seed = 20_261_121;
    println!("seed {seed}");
    for key in keys(seed).take(2_000) {
        let said = server.ask(Command::new("CLUSTER KEYSLOT").arg(&key));
        assert_eq!(said, Said::Number(slot_of(&key).into()), "{}", key.escape_ascii());
    }
}
