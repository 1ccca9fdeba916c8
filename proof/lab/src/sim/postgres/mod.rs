//! The simulation with PostgreSQL's protocol: a [model](crate::model) of its server, and what only
//! PostgreSQL has.
//!
//! A host has isolated requests, segments, groups, transactions, prepared statements and cancels.
//! In some runs the session changes hands, and who has it leaves there what a session keeps. Beside
//! what every run compares:
//!
//! * a provisional request stands if and only if its segment does;
//! * whoever has the session to themselves, or shares it, finds none of another's state there,
//!   whatever became of the reset in between.

mod book;
mod cancels;
mod check;
mod floor;
mod host;
mod judge;
mod lending;
mod mutation;
mod owners;
mod plan;
mod protocol;
mod reply;
mod side;
mod wire;
mod workload;

use std::time::Duration;

use onetrip_postgres::StatementId;

pub use mutation::Own;

use super::{book as generic, world};
use cancels::Cancels;
use floor::Floor;
use owners::Owners;
use plan::PreparedText;

type World = world::World<Postgres>;
type Plan = generic::Plan<plan::Request>;
type Record = generic::Record<Postgres>;

/// What only a host of PostgreSQL knows.
pub struct Postgres {
    cancels: Cancels,
    /// Those that have the session, one after the other.
    owners: Option<Owners>,
    floors: Vec<Floor>,
    prepared: Vec<(StatementId, PreparedText)>,
    /// Explicit transactions.
    transactions: Vec<Vec<u64>>,
    /// Whether prepared statements were lost or went stale, so that requests were sent again.
    healing: bool,
    /// The longest reply so far.
    reply_max: usize,
}

/// What a seed makes of a run of PostgreSQL.
#[derive(Clone, Debug)]
pub struct OwnSettings {
    /// Whether requests are cancelled at the server.
    cancels: bool,
    /// How long a cancel may still hit something when its connection was closed, as one that a
    /// pooler passes on.
    cancel_lag: Duration,
    /// Whether requests share sync points with their neighbours.
    joins: bool,
    /// The most rows of a reply, and the most bytes of a row's payload or of a text.
    rows_max: usize,
    size_max: usize,
}
