//! The contract of the engine once more, with RESP: an engine and a [model](super::model) of a Redis
//! server joined in memory, with a virtual clock, where everything that happens follows from a seed.
//!
//! A run draws its circumstances (limits, chunk sizes, delays, socket buffers, what goes wrong) and then
//! does anything a host may: commands of every kind of reply, several in one request, MULTI and EXEC,
//! scripts by their hash, subscriptions, published messages, deadlines, requests that are taken back or
//! that nobody waits for, waiting callers, a goodbye. The network cuts at any byte, stalls and falls
//! silent; the server refuses, fails, pushes, forgets its scripts, ends and turns hostile. Meanwhile and
//! at the end the run compares what the host was told with what happened at the server:
//!
//! * every request ends exactly once, those that nobody waits for never;
//! * each reply is its own, byte by byte, and whole where it is complete; what is pushed is never a reply,
//!   and arrives in order, all of it;
//! * the outcome is true: what was `NotSent` never arrived, what was `Rejected` left nothing behind, what
//!   is complete ran once, nothing ran twice, sent again or not; `Unknown` is only what may have left
//!   something, and at the end of a connection no more than its window;
//! * the bytes on the wire are the requests in issue order, and so they run;
//! * every limit holds at every step; `Full` and `Drained` alternate;
//! * deadlines come within a millisecond, and nothing gets stuck.
//!
//! [`run`] is one seed, [`sweep`] many of them on several threads. [`Mutation`] makes the engine, the
//! protocol or the host appear to break the contract: a check that can't fail is a defect.

mod book;
mod check;
mod host;
mod mutation;
mod network;
mod plan;
mod reply;
mod settings;
mod world;

pub use crate::seeded::{FailedSeed, Report, Run, Simulation, Trace};
pub use mutation::Mutation;

use world::World;

/// Runs one seed.
pub fn run(seed: u64, mutation: Option<Mutation>, trace: Trace) -> Run {
    World::new(seed, mutation, trace).live()
}

/// Runs `count` seeds from `from` on, on as many threads as there are cores. `progress` hears, now and
/// then and from any thread, how many are done.
///
/// # Errors
/// The smallest of the seeds that failed before the others stopped.
pub fn sweep(from: u64, count: u64, progress: impl Fn(u64) + Sync) -> Result<Report, FailedSeed> {
    let run = |seed| run(seed, None, None);
    crate::seeded::sweep(Simulation::Redis, from..from + count, run, progress)
}
