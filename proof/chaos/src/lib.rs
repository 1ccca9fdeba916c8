//! Chaos: many tasks write numbered rows over one client while the line is cut, reset and stalled
//! and the server is shut down, crashes and comes back. A ledger has what the client said of each
//! write, and in the end it is held against the table.
//!
//! [`postgres`] does so with PostgreSQL, [`redis`] with a Redis server and with a cluster of six;
//! what knows no protocol is theirs together: the ledger and its check, the plan of the faults, and
//! those of the line.
//!
//! What must hold, with acknowledged writes on disk and nothing sent again by itself but what the
//! server says it never started, or what its writer says may run twice:
//!
//! * a row that was acknowledged is there once;
//! * one that was `NotSent` or `Rejected`, or whose transaction was rolled back, is absent;
//! * one that is `Unknown` is there once or absent, and what stands or falls together does so;
//! * `Unknown` is only what was in flight at a fault, see below;
//! * every reply is that of its own request, and every request ends;
//! * then the client serves again, nothing waits there, no connection was lost beyond those that
//!   were struck, and the server has no session that is in a transaction or that nobody has.
//!
//! # In flight at a fault
//! A fault has a *window*, from the moment when it is commanded until it is over: each connection
//! that it breaks has been let go by the client, and the server answers again. A write is in flight
//! at it when it began before the end of that time, and ended after its beginning. Between two
//! faults there is a pause, and whatever begins and ends within one may not be `Unknown`. The one
//! exception is a write with a deadline of its own that was late: that is counted apart.
//!
//! The faults and what the writers choose follow from a seed; when they meet doesn't, since the
//! server, the sockets and the clock are real. It is run by the tests, for ten seconds, and by the
//! benchmarks, for sixty. This crate is for them alone and is never published.
#![allow(clippy::unwrap_used, reason = "it is a test: whatever fails is to be seen")]

mod check;
mod drive;
mod end;
mod ledger;
mod line;
mod plan;
pub mod postgres;
mod random;
pub mod redis;
mod report;
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
    /// How long faults come. It takes longer where not every kind has come by then, and the end
    /// takes some seconds more.
    pub duration: Duration,
}

impl Options {
    /// The seed that `ONETRIP_SEED` says; otherwise one of its own from the clock.
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
