//! What simulations have in common, whatever the protocol: randomness, the network, what happened at a
//! server, and many seeds at once.

mod circumstances;
mod falsify;
mod log;
mod pipe;
mod report;
mod rng;
mod sweep;

pub(crate) use circumstances::{Ending, Network};
pub(crate) use falsify::{drop_first, duplicate_end, replace_end, swap_replies};
pub use log::{Effect, Entry, Log, Seen};
pub(crate) use pipe::Pipe;
pub use report::Report;
pub use rng::Rng;
pub(crate) use sweep::sweep;
pub use sweep::{FailedSeed, Simulation};

/// Where the lines of a trace go.
pub type Trace = Option<Box<dyn FnMut(&str)>>;

/// What a run found.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was wrong; empty if nothing was.
    pub findings: Vec<String>,
    /// What the run came across.
    pub report: Report,
    /// Whether the mutation found its occasion.
    pub mutated: bool,
}
