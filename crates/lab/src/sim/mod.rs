//! The contract of the engine, simulated: an engine and a model server joined in memory, with a
//! virtual clock, where everything that happens follows from a seed.
//!
//! A run draws its circumstances (limits, chunk sizes, delays, socket buffers, what goes wrong) and
//! then does anything a host may: isolated requests, segments, groups, transactions, prepared
//! statements, cancels, deadlines, waiting callers, a goodbye. In some the session changes hands, and
//! who has it leaves there what a session keeps. The network cuts at any byte,
//! stalls and falls silent; the server fails, forgets, shuts down and turns hostile. Meanwhile and
//! at the end the run compares what the host was told with what happened at the server:
//!
//! * every request ends exactly once, those that nobody waits for never;
//! * each reply is its own, message by message, and whole where it is complete;
//! * the outcome is true: what was `NotSent` never arrived and no byte of it was written, what was
//!   `Rejected` left nothing behind, what is complete was committed, and a provisional request
//!   stands if and only if its segment does;
//! * the bytes on the wire are the requests in issue order, and so they run;
//! * whoever has the session to themselves, or shares it, finds none of another's state there, whatever
//!   became of the reset in between;
//! * every limit holds at every step; `Full` and `Drained` alternate;
//! * deadlines come within a millisecond, and nothing gets stuck.
//!
//! [`run`] is one seed, [`sweep`] many of them on several threads. [`Mutation`] makes the engine
//! appear to break the contract: a check that can't fail is a defect.

mod book;
mod cancels;
mod check;
mod floor;
mod host;
mod judge;
mod lending;
mod mutation;
mod network;
mod outputs;
mod owners;
mod plan;
mod protocol;
mod reply;
mod settings;
mod wire;
mod workload;
mod world;

pub use crate::seeded::{FailedSeed, Report, Run, Simulation, Trace};
pub use mutation::Mutation;

use world::World;

/// Runs one seed.
pub fn run(seed: u64, mutation: Option<Mutation>, trace: Trace) -> Run {
    World::new(seed, mutation, trace).live()
}

/// Runs `count` seeds from `from` on, on as many threads as there are cores. `progress` hears, now
/// and then and from any thread, how many are done.
///
/// # Errors
/// The smallest of the seeds that failed before the others stopped.
pub fn sweep(from: u64, count: u64, progress: impl Fn(u64) + Sync) -> Result<Report, FailedSeed> {
    let run = |seed| run(seed, None, None);
    crate::seeded::sweep(Simulation::Postgres, from..from + count, run, progress)
}
