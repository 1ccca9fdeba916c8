//! What a seed makes of a run.

use crate::seeded::{Ending, Network, Rng};

/// The circumstances of one run.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) network: Network,
    /// Whether the connection is a RESP2 one that is there for subscriptions only.
    pub(super) subscriber: bool,
    /// One in how many commands has a push or an attribute in front of its reply.
    pub(super) noise: u64,
    /// One in how many commands is refused before it begins, and one in how many fails.
    pub(super) refusals: u64,
    pub(super) failures: u64,
    /// Whether scripts get lost.
    pub(super) losses: bool,
    /// Whether reading waits for callers that are slow to take their replies.
    pub(super) metered: bool,
    /// How many rounds the network makes at once, and one in how many steps it does.
    pub(super) rounds: usize,
    pub(super) calm: u64,
    /// How long the busy part of the run is.
    pub(super) steps: usize,
    /// One in how many steps is a request.
    pub(super) idleness: u64,
    /// One in how many requests has a deadline.
    pub(super) deadlines: u64,
    /// The most bytes of a value.
    pub(super) size_max: usize,
    pub(super) ending: Ending,
}

impl Settings {
    pub(super) fn new(rng: &mut Rng) -> Settings {
        let mut network = Network::new(rng);
        network.limits.untaken_bytes_max = rng.pick(&[0, 100, 5000, 1 << 20]);
        let speed = network.speed();
        let steps = 40 + rng.index(260);
        // Replies of more than 16 KiB are handed on in parts.
        let large = speed >= 1000 && rng.one_in(3);
        Settings {
            network,
            subscriber: rng.one_in(8),
            noise: rng.pick(&[0, 0, 2, 20]),
            refusals: rng.pick(&[0, 0, 3, 20]),
            failures: rng.pick(&[0, 3, 12, 12]),
            losses: rng.one_in(2),
            metered: rng.one_in(3),
            rounds: rng.pick(&[1, 8, 30, 100]),
            calm: rng.pick(&[1, 2, 8]),
            steps,
            idleness: rng.pick(&[2, 4, 10]),
            deadlines: rng.pick(&[0, 0, 3, 12]),
            size_max: if large { 50_000 } else { (speed * 2).clamp(8, 1500) },
            ending: Ending::new(rng, steps, speed),
        }
    }
}
