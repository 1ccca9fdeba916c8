//! The contract of the engine with RESP over many simulated networks; and whether the checks can
//! fail.

use crate::simulated;
use onetrip_lab::sim::{Mutation, OfRedis, Redis};

/// What the seeds must have come across, and how often.
const COVERAGE: [(&str, u64); 37] = [
    ("atomic complete", 1500),
    ("cancelled", 2000),
    ("closed: by an error", 60),
    ("closed: goodbye", 50),
    ("closed: stalled", 80),
    ("closed: transport", 300),
    ("closed: violation", 50),
    ("complete with errors among its replies", 1000),
    ("cut: down", 80),
    ("cut: reset", 40),
    ("cut: silence", 40),
    ("cut: up", 80),
    ("drained", 500),
    ("dropped on its way", 900),
    ("ended Complete", 15000),
    ("ended NotSent at the close", 8000),
    ("ended NotSent at the deadline", 1200),
    ("ended NotSent, cancelled", 2000),
    ("ended Rejected at the close", 10),
    ("ended Rejected at the deadline", 1),
    ("ended Rejected by the server", 3500),
    ("ended Unknown at the close", 4000),
    ("ended Unknown at the deadline", 1500),
    ("ended Unknown by the server", 400),
    ("ended while waiting for room", 3000),
    ("event push", 10000),
    ("full", 800),
    ("part of a reply", 10000),
    ("refused", 5000),
    ("refused to wait", 5000),
    ("requests", 40000),
    ("room announced", 3000),
    ("script complete", 1500),
    ("script loaded", 800),
    ("sent again", 800),
    ("subscription confirmed", 3500),
    ("waited for room", 6000),
];

/// Mutations that stay unnoticed if the connection ends before anything else comes.
const FORGETTABLE: [Mutation<OfRedis>; 3] =
    [Mutation::DropDrained, Mutation::Own(OfRedis::DropPush), Mutation::Own(OfRedis::PushIsReply)];

#[test]
fn the_contract_holds_with_resp_on_two_thousand_simulated_networks() {
    simulated::assert_holds::<Redis>(&COVERAGE);
}

#[test]
fn a_seed_repeats_its_run() {
    simulated::assert_repeats::<Redis>();
}

#[test]
fn every_broken_promise_is_noticed() {
    let each = Mutation::all().filter(|mutation| !mutation.is_ambient());
    simulated::assert_noticed::<Redis>(each, &FORGETTABLE);
}

#[test]
fn a_host_or_engine_that_is_wrong_throughout_is_noticed() {
    simulated::assert_ambient_noticed::<Redis>();
}
