//! Chaos: many tasks write numbered rows over one client while connections are cut, reset and
//! stalled, and while the server is shut down, crashes and comes back. A ledger records what the
//! client said of each write. In the end the ledger is compared with the table.
//!
//! [`postgres`] does so with PostgreSQL, [`failover`] with three servers under Patroni, [`redis`]
//! with a Redis server and with a cluster of six nodes. They share the parts that depend on no
//! protocol: the ledger and its check, the plan of the faults, and the faults of the network.
//!
//! The server flushes acknowledged writes to disk. The client sends a write again only if the
//! server says that it never started it, or if its writer says that it may run twice. Then these
//! must hold:
//!
//! * a row that was acknowledged is there once;
//! * one that was `NotSent` or `Rejected`, or whose transaction was rolled back, is absent;
//! * one that is `Unknown` is there once or absent, and the rows of an atomic unit share one fate;
//! * only a write that was in flight at a fault is `Unknown`, see below;
//! * every reply belongs to its own request, and every request ends;
//! * afterwards the client serves again and has no request waiting, no connection was lost beyond
//!   those that a fault broke, and the server has no session that is in a transaction or that no
//!   client holds.
//!
//! # In flight at a fault
//! A fault has a *window*, from the moment when it is commanded until it is over: the client has
//! closed each connection that the fault broke, and the server answers again. A write is in flight
//! at the fault if it began before the end of the window and ended after its beginning. Between two
//! faults there is a pause, and a write that begins and ends within a pause may not be `Unknown`.
//! The one exception is a write that missed a deadline of its own: it is counted separately.
//!
//! The faults and the writers' choices follow from a seed. Their timing does not, because the
//! server, the sockets and the clock are real. Tests run chaos for ten seconds, benchmarks for
//! sixty. This crate is for them alone and is never published.
#![allow(clippy::unwrap_used, reason = "it is a test: whatever fails is to be seen")]

mod check;
mod drive;
mod end;
pub mod failover;
mod ledger;
mod line;
pub mod migrations;
mod plan;
pub mod postgres;
mod random;
pub mod redis;
mod report;
pub mod runbooks;
pub mod sessions;
mod writer;

use std::time::{Duration, SystemTime};

pub use plan::Kind;
pub use report::{Report, Tally};

/// How long, and from which seed.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Of the faults and of what the writers choose.
    pub seed: u64,
    /// How long faults come. A run takes longer if not every kind has come by then, and its end
    /// takes some seconds more.
    pub duration: Duration,
}

impl Options {
    /// Takes the seed from `ONETRIP_SEED`; without it, from the clock.
    ///
    /// # Panics
    /// If it says something that is no number.
    pub fn new(duration: Duration) -> Options {
        let seed = match std::env::var("ONETRIP_SEED") {
            Ok(seed) => seed.parse().expect("ONETRIP_SEED is a number"),
            Err(_) => SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros() as u64),
        };
        Options { seed, duration }
    }

    /// Ten seconds, or as many as `ONETRIP_SECONDS` says; the seed is printed.
    ///
    /// # Panics
    /// If a variable says something that is no number.
    pub fn of_a_test() -> Options {
        let seconds = std::env::var("ONETRIP_SECONDS").ok();
        let seconds = seconds.map_or(10, |text| text.parse().expect("ONETRIP_SECONDS is a number"));
        let options = Options::new(Duration::from_secs(seconds));
        println!("ONETRIP_SEED={}", options.seed);
        options
    }
}
