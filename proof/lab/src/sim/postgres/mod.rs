//! The simulation with PostgreSQL's protocol: a [model](crate::model) of its server, and the parts
//! that only PostgreSQL has.
//!
//! A host has isolated requests, segments, groups, transactions, prepared statements and cancels.
//! In some runs the session has several owners in turn, which leave state in it. In addition to the
//! common checks:
//!
//! * a provisional request takes effect if and only if its segment does;
//! * an owner of the session, or the requests that share it, find no state of another owner there,
//!   whatever the outcome of the reset in between.

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

/// The state of PostgreSQL's host.
pub struct Postgres {
    cancels: Cancels,
    /// The owners of the session, if the run has any.
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

/// The circumstances of a run of PostgreSQL, drawn from the seed.
#[derive(Clone, Debug)]
pub struct OwnSettings {
    /// Whether requests are cancelled at the server.
    cancels: bool,
    /// How long after its connection was closed a cancel may still hit something, like one that a
    /// pooler passes on.
    cancel_lag: Duration,
    /// Whether requests share sync points with their neighbours.
    joins: bool,
    /// The most rows of a reply, and the most bytes of a row's payload or of a text.
    rows_max: usize,
    size_max: usize,
}
