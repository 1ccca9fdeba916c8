//! The policy of a pool, driven by the engine's own random host, which takes its choices from the
//! input.

#[path = "../../../../core/engine/tests/it/pool_random/actions.rs"]
mod actions;
#[path = "../../../../core/engine/tests/it/pool_random/callers.rs"]
mod callers;
#[path = "../../../../core/engine/tests/it/pool_random/invariants.rs"]
mod invariants;
#[path = "../../../../core/engine/tests/it/pool_random/rng.rs"]
mod rng;
#[path = "../../../../core/engine/tests/it/pool_random/sim.rs"]
mod sim;

use rng::Rng;
use sim::Sim;

/// Eight bytes of seed, then choices. After the last choice the seed decides.
pub(super) fn run(data: &[u8]) {
    let (seed, choices) = data.split_at(data.len().min(8));
    let seed = seed.iter().fold(0, |seed, &byte| seed << 8 | u64::from(byte));
    Sim::new(Rng::with_choices(seed, choices), seed).live();
}
