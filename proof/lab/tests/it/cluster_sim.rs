//! The client's policy of a cluster over many simulated networks, while slots move; and whether the
//! checks can fail.

use crate::simulated;
use onetrip_lab::sim::{Clustered, Mutation, OfCluster};

/// What the seeds must have come across, and how often.
const COVERAGE: [(&str, u64); 24] = [
    ("asked elsewhere", 500),
    ("closed: goodbye", 50),
    ("closed: violation", 50),
    ("connection lost", 500),
    ("connection opened again", 1000),
    ("cut: down", 80),
    ("cut: reset", 60),
    ("cut: silence", 80),
    ("cut: up", 80),
    ("ended Complete", 50_000),
    ("ended NotSent at the close", 3000),
    ("ended NotSent at the deadline", 3000),
    ("ended NotSent, cancelled", 1000),
    ("ended Rejected at the close", 500),
    ("ended Rejected at the deadline", 50),
    ("ended Rejected by the server", 1000),
    ("ended Unknown at the close", 3000),
    ("ended Unknown at the deadline", 1000),
    ("ended Unknown by the server", 3000),
    ("given up", 3000),
    ("redirected", 3000),
    ("requests", 80_000),
    ("script loaded", 100),
    ("slot moved", 1000),
];

/// Whether a mutation can be applied. A cluster's client reports no queue to its callers, and sends
/// no request without a caller.
fn has_an_occasion(mutation: &Mutation<OfCluster>) -> bool {
    !matches!(mutation, Mutation::DropDrained | Mutation::DoubleFull | Mutation::DropRoom)
}

#[test]
fn the_contract_holds_on_two_thousand_clusters_whose_slots_move() {
    simulated::assert_holds::<Clustered>(&COVERAGE);
}

#[test]
fn a_seed_repeats_its_run() {
    simulated::assert_repeats::<Clustered>();
}

#[test]
fn every_broken_promise_is_noticed() {
    let each =
        Mutation::all().filter(|mutation| !mutation.is_ambient() && has_an_occasion(mutation));
    simulated::assert_noticed::<Clustered>(each, &[]);
}

#[test]
fn a_client_of_a_cluster_that_is_wrong_throughout_is_noticed() {
    simulated::assert_ambient_noticed::<Clustered>();
}
