//! A simulation that tests the contract of the engine. It joins the tested state machine and a
//! model server in memory, with a virtual clock; everything that happens follows from a seed. All
//! protocols share one simulation; the parts of one protocol are in `postgres`, `redis` and
//! `cluster`. The policy of Redis Sentinel has a simulation of its own, `sentinel`, and so has what a
//! client of PostgreSQL remembers while tables are migrated, `migrations`.
//!
//! A run draws its circumstances (limits, chunk sizes, delays, socket buffers, faults) and then
//! does anything that a host may do. The network cuts at any byte, stalls and falls silent; the
//! server fails, forgets, shuts down and turns hostile. During the run and at its end, what the
//! host was told is compared with what happened at the server:
//!
//! * every request ends exactly once; discarded requests never report an end;
//! * each reply belongs to its request, and is whole if the request completed;
//! * the outcome is true: a `NotSent` request never arrived, a `Rejected` one left no effect, a
//!   complete one took effect, and no request ran twice unless it was sent again;
//! * the bytes on the wire are the requests in issue order, and they run in that order;
//! * every limit holds at every step; `Full` and `Drained` alternate;
//! * deadlines are reported within a millisecond, and nothing gets stuck.
//!
//! [`Mutation`] makes the engine, the protocol or the host appear to break the contract, to show
//! that the checks notice it.
//!
//! The loop and the clock are `world`, the bytes between both sides `network` and `pipe`. The host
//! submits (`host`), takes outputs (`outputs`) and records them (`book`); `check` compares. A
//! protocol is a [`Side`], and the tested state machine implements `Driven`.
//!
//! [`run`] is one seed, [`sweep`] many of them on several threads.

mod book;
mod check;
mod cluster;
mod driven;
mod host;
mod link;
mod migrations;
mod mutation;
mod network;
mod outputs;
mod pipe;
mod postgres;
mod redis;
mod report;
mod sentinel;
mod settings;
mod side;
mod sweep;
mod world;

pub use cluster::{Clustered, Own as OfCluster};
pub use migrations::{MIGRATIONS_OPTION, OfMigrations, run_migrations, sweep_migrations};
pub use mutation::{Mutation, OwnMutation};
pub use postgres::{Own as OfPostgres, Postgres};
pub use redis::{Own as OfRedis, Redis};
pub use report::Report;
pub use sentinel::{OfSentinel, SENTINEL_OPTION, run_sentinel, sweep_sentinel};
pub use side::Side;
pub use sweep::{FailedSeed, sweep};

use sweep::sweep_of;
use world::World;

/// Where the lines of a trace go.
pub type Trace = Option<Box<dyn FnMut(&str)>>;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was wrong; empty if nothing was.
    pub findings: Vec<String>,
    /// What happened in the run.
    pub report: Report,
    /// Whether the mutation was applied.
    pub mutated: bool,
}

/// Runs one seed.
pub fn run<S: Side>(seed: u64, mutation: Option<Mutation<S::Mutation>>, trace: Trace) -> Run {
    World::<S>::new(seed, mutation, trace).live()
}
