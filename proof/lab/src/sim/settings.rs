//! What a seed makes of a run, whatever the protocol.

use std::time::Duration;

use onetrip_engine::Limits;

use super::side::Side;
use crate::seeded::Rng;

/// The circumstances of one run.
#[derive(Clone, Debug)]
pub struct Settings<Own> {
    pub(crate) network: Network,
    /// One in this many replies of the server has an unsolicited message in front of it.
    pub(crate) noise: u64,
    /// How many rounds the network makes at once, and one in how many steps it does.
    pub(crate) rounds: usize,
    pub(crate) calm: u64,
    /// How long the busy part of the run is.
    pub(crate) steps: usize,
    /// One in how many steps is a request.
    pub(crate) idleness: u64,
    /// One in how many requests fails.
    pub(crate) failures: u64,
    /// One in how many requests has a deadline.
    pub(crate) deadlines: u64,
    /// Whether the server forgets what was prepared.
    pub(crate) losses: bool,
    /// What only one side has.
    pub(crate) own: Own,
    pub(crate) ending: Ending,
}

impl<Own> Settings<Own> {
    pub(crate) fn new<S: Side<Settings = Own>>(rng: &mut Rng) -> Settings<Own> {
        let mut network = Network::new(rng);
        let steps = 40 + rng.index(260);
        let mut settings = Settings {
            noise: rng.pick(&[0, 0, 2, 20]),
            rounds: rng.pick(&[1, 8, 30, 100]),
            calm: rng.pick(&[1, 2, 8]),
            idleness: rng.pick(&[2, 4, 10]),
            failures: rng.pick(&[0, 3, 12, 12]),
            deadlines: rng.pick(&[0, 0, 3, 12]),
            own: S::settings(rng, &mut network),
            losses: rng.one_in(2),
            ending: Ending::new(rng, steps, network.speed()),
            steps,
            network,
        };
        // A server that answers nothing any more would be asked again and again for a cancel.
        if settings.ending.is_silent() {
            settings.network.limits.yield_after = Duration::MAX;
        }
        settings
    }
}

/// What lies between the two sides, and what the engine may hold.
#[derive(Clone, Debug)]
pub struct Network {
    pub(crate) limits: Limits,
    /// The most bytes that move at once.
    pub(crate) chunk_max: usize,
    /// What each direction holds between writer and reader.
    pub(crate) caps: [usize; 2],
    pub(crate) delays: [Duration; 2],
}

impl Network {
    pub(crate) fn new(rng: &mut Rng) -> Network {
        let limits = Limits {
            in_flight_max: rng.pick(&[1, 2, 3, 4, 8, 16, 64, 64, 64]),
            in_flight_bytes_max: rng.pick(&[1, 200, 1000, 4000, 1 << 20, 1 << 20, 1 << 20]),
            queue_max: rng.pick(&[0, 1, 3, 8, 64, 64, 64]),
            queue_bytes_max: rng.pick(&[0, 500, 5000, 16 << 20, 16 << 20, 16 << 20]),
            waiting_max: rng.pick(&[0, 1, 4, 16, 1000, 1000]),
            shared_sync_max: rng.pick(&[0, 2, 3, 64, 64]),
            shared_sync_bytes_max: rng.pick(&[0, 300, 16 << 10, 16 << 10]),
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
        // A head that is not answered within a trip is not late yet.
        let trip = delays[0] + delays[1];
        let millis = Duration::from_millis;
        // It follows from what was chosen so far, so that a seed still means the same network.
        let choices = [Duration::MAX, trip + millis(1), trip * 2 + millis(20)];
        let yield_after = choices[(caps[0] + caps[1]) % choices.len()];
        let limits = Limits { yield_after, ..limits };
        Network { limits, chunk_max, caps, delays }
    }

    /// How long it takes there and back.
    pub(crate) fn trip(&self) -> Duration {
        self.delays[0] + self.delays[1]
    }

    /// The most bytes that can move at once. A byte at a time, large replies would take all of a
    /// run.
    pub(crate) fn speed(&self) -> usize {
        self.chunk_max.min(self.caps[0]).min(self.caps[1])
    }
}

/// What ends a run, beside the end of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
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

impl Ending {
    fn is_silent(self) -> bool {
        matches!(self, Ending::Stall(_) | Ending::Silence(_))
    }

    /// Which of so many links it is that it meets at this step.
    pub(crate) fn link(self, step: usize, links: usize) -> usize {
        step % links
    }

    pub(crate) fn new(rng: &mut Rng, steps: usize, speed: usize) -> Ending {
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
