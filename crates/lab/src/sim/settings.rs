//! What a seed makes of a run.

use std::time::Duration;

use onetrip_engine::Limits;

use crate::model::Rng;

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

/// What ends a run, beside the end of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nothing: all requests are answered.
    Peace,
    /// The host says goodbye at this step.
    Terminate(usize),
    /// What the client writes is lost behind this byte.
    CutUp(u64),
    /// What the server writes is lost behind this byte.
    CutDown(u64),
    /// The host sees the transport fail at this step.
    Reset(usize),
    /// An administrator ends the session at this step.
    Fatal(usize),
    /// The server sends what it never would at this step.
    Hostile(usize),
    /// Nothing comes from the server any more from this step on.
    Silence(usize),
    /// Nothing gets to the server any more from this step on.
    Stall(usize),
}

impl Settings {
    pub(super) fn new(rng: &mut Rng) -> Settings {
        let limits = Limits {
            in_flight_max: rng.pick(&[1, 2, 3, 4, 8, 16, 64, 64, 64]),
            in_flight_bytes_max: rng.pick(&[1, 200, 1000, 4000, 1 << 20, 1 << 20, 1 << 20]),
            queue_max: rng.pick(&[0, 1, 3, 8, 64, 64, 64]),
            queue_bytes_max: rng.pick(&[0, 500, 5000, 16 << 20, 16 << 20, 16 << 20]),
            waiting_max: rng.pick(&[0, 1, 4, 16, 1000, 1000]),
            convoy_max: rng.pick(&[0, 2, 3, 64, 64]),
            convoy_bytes_max: rng.pick(&[0, 300, 16 << 10, 16 << 10]),
            stall_timeout: rng.pick(&[
                Duration::from_secs(30),
                Duration::from_secs(30),
                Duration::from_secs(30),
                Duration::from_millis(50),
            ]),
            ..Limits::default()
        };
        let limits = if rng.one_in(4) { Limits::default() } else { limits };
        let chunk_max = rng.pick(&[1, 3, 16, 100, 1000, 8192, 65_536]);
        let caps = [(); 2].map(|()| rng.pick(&[1, 50, 300, 4096, 65_536]));
        let delays = [(); 2].map(|()| Duration::from_micros(rng.pick(&[0, 20, 500, 10_000])));
        // A byte at a time, large replies would take all of the run.
        let speed = chunk_max.min(caps[0]).min(caps[1]);
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

impl Ending {
    fn new(rng: &mut Rng, steps: usize, speed: usize) -> Ending {
        let step = rng.index(steps);
        let byte = rng.below(if speed < 100 { 600 } else { 8000 });
        match rng.below(16) {
            0 => Ending::Terminate(step),
            1 | 2 => Ending::CutUp(byte),
            3 | 4 => Ending::CutDown(byte),
            5 => Ending::Reset(step),
            6 => Ending::Fatal(step),
            7 => Ending::Hostile(step),
            8 => Ending::Silence(step),
            9 => Ending::Stall(step),
            _ => Ending::Peace,
        }
    }
}
