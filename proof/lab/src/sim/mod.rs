//! The contract of the engine, simulated: what is driven and a model server joined in memory, with
//! a virtual clock, where everything that happens follows from a seed. One simulation for every
//! protocol; what only one has stands in `postgres` and `redis`.
//!
//! A run draws its circumstances (limits, chunk sizes, delays, socket buffers, what goes wrong) and
//! then does anything a host may. The network cuts at any byte, stalls and falls silent; the server
//! fails, forgets, shuts down and turns hostile. Meanwhile and at the end the run compares what the
//! host was told with what happened at the server:
//!
//! * every request ends exactly once, those that nobody waits for never;
//! * each reply is its own, and whole where it is complete;
//! * the outcome is true: what was `NotSent` never arrived, what was `Rejected` left nothing behind,
//!   what is complete stands, and nothing ran twice that was not sent again;
//! * the bytes on the wire are the requests in issue order, and so they run;
//! * every limit holds at every step; `Full` and `Drained` alternate;
//! * deadlines come within a millisecond, and nothing gets stuck.
//!
//! [`Mutation`] makes the engine, the protocol or the host appear to break the contract: a check
//! that can't fail is a defect.
//!
//! The loop and the clock are `world`, the bytes between both sides `network` and `pipe`. The host
//! submits (`host`), takes what is said (`outputs`), and writes it down (`book`); `check` compares.
//! A protocol is a [`Side`], and what is driven is behind `Driven`.
//!
//! [`run`] is one seed, [`sweep`] many of them on several threads.

mod book;
mod check;
mod cluster;
mod driven;
mod host;
mod link;
mod mutation;
mod network;
mod outputs;
mod pipe;
mod postgres;
mod redis;
mod report;
mod settings;
mod side;
mod sweep;
mod world;

pub use cluster::{Clustered, Own as OfCluster};
pub use mutation::{Mutation, OwnMutation};
pub use postgres::{Own as OfPostgres, Postgres};
pub use redis::{Own as OfRedis, Redis};
pub use report::Report;
pub use side::Side;
pub use sweep::{FailedSeed, sweep};

use world::World;

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

/// Runs one seed.
pub fn run<S: Side>(seed: u64, mutation: Option<Mutation<S::Mutation>>, trace: Trace) -> Run {
    World::<S>::new(seed, mutation, trace).live()
}
