//! Random hosts of a pool: any interleaving of callers, replies, openings, losses and time.
//!
//! Each run is one seed. `ONETRIP_SEED=n cargo test -p onetrip-engine --test it pool_random`
//! repeats one, and `ONETRIP_RUNS=n` runs more.

pub(crate) mod actions;
mod callers;
mod invariants;
mod rng;
mod sim;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rng::Rng;
use sim::Sim;

#[test]
fn every_caller_ends_once_in_its_turn_and_nobody_waits_in_vain() {
    let number = |name| std::env::var(name).ok().map(|n| n.parse::<u64>().unwrap());
    if let Some(seed) = number("ONETRIP_SEED") {
        live(seed);
        return;
    }
    let mut seen = BTreeMap::new();
    for seed in 1..=number("ONETRIP_RUNS").unwrap_or(4000) {
        match catch_unwind(AssertUnwindSafe(|| live(seed))) {
            Ok(run) => add(&mut seen, run),
            Err(panic) => {
                eprintln!("ONETRIP_SEED={seed} repeats this run");
                resume_unwind(panic);
            }
        }
    }
    // A generator that no longer covers something would silently test nothing.
    for event in EVENTS {
        let times = seen.get(event).copied().unwrap_or_default();
        assert!(times > 500, "{event}: {times} times only; {seen:?}");
    }
}

/// What the runs must cover.
const EVENTS: [&str; 23] = [
    "placed at once",
    "placed without asking",
    "placed from the line",
    "placed behind an exclusive one",
    "granted",
    "granted a claim",
    "claim lifted",
    "deadline",
    "open failed",
    "failed for good",
    "line full",
    "line full while attempts fail",
    "pool closed",
    "pool cut",
    "served while closing",
    "gave up",
    "gave up too late",
    "attempt failed",
    "lost",
    "idle or old one closed",
    "reset",
    "stale report",
    "closed",
];

fn live(seed: u64) -> BTreeMap<&'static str, usize> {
    Sim::new(Rng::with_choices(seed, &[]), seed).live()
}

fn add(seen: &mut BTreeMap<&'static str, usize>, run: BTreeMap<&'static str, usize>) {
    for (event, times) in run {
        *seen.entry(event).or_default() += times;
    }
}
