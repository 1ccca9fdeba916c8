//! What a seed makes of a run.

use std::time::Duration;

use onetrip_engine::Limits;

use crate::seeded::{Ending, Network, Rng};

/// The circumstances of one run.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) limits: Limits,
    /// The most bytes that move at once.
    pub(super) chunk_max: usize,
    /// What each direction holds between writer and reader.
    pub(super) caps: [usize; 2],
    pub(super) delays: [Duration; 2],
    /// One in how many messages of the server has a notice or its like in front.
    pub(super) noise: u64,
    /// How many rounds the network makes at once, and one in how many steps it does.
    pub(super) rounds: usize,
    pub(super) calm: u64,
    /// How long the busy part of the run is.
    pub(super) steps: usize,
    /// One in how many steps is a request.
    pub(super) idleness: u64,
    /// One in how many requests fails.
    pub(super) failures: u64,
    /// One in how many requests has a deadline.
    pub(super) deadlines: u64,
    /// Whether requests are cancelled at the server.
    pub(super) cancels: bool,
    /// How long a cancel may still hit something when its connection was closed, as one that a pooler
    /// passes on.
    pub(super) cancel_lag: Duration,
    /// Whether requests share sync points with their neighbours.
    pub(super) joins: bool,
    /// Whether prepared statements get lost and stale.
    pub(super) losses: bool,
    /// The most rows of a reply, and the most bytes of a row's payload or of a text.
    pub(super) rows_max: usize,
    pub(super) size_max: usize,
    pub(super) ending: Ending,
}

impl Settings {
    pub(super) fn new(rng: &mut Rng) -> Settings {
        let network = Network::new(rng);
        let speed = network.speed();
        let Network { limits, chunk_max, caps, delays } = network;
        let steps = 40 + rng.index(260);
        Settings {
            limits,
            chunk_max,
            caps,
            delays,
            noise: rng.pick(&[0, 0, 2, 20]),
            rounds: rng.pick(&[1, 8, 30, 100]),
            calm: rng.pick(&[1, 2, 8]),
            steps,
            idleness: rng.pick(&[2, 4, 10]),
            failures: rng.pick(&[0, 3, 12, 12]),
            deadlines: rng.pick(&[0, 0, 3, 12]),
            cancels: rng.one_in(2),
            cancel_lag: rng.pick(&[Duration::ZERO, Duration::ZERO, Duration::from_millis(300)]),
            joins: !rng.one_in(3),
            losses: rng.one_in(2),
            rows_max: if speed < 100 { 3 } else { 20 },
            size_max: (speed * 2).clamp(8, 1500),
            ending: Ending::new(rng, steps, speed),
        }
    }
}
