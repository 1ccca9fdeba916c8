//! Failovers: tasks over one client, on a cluster of three PostgreSQL servers under Patroni whose
//! primary is killed, switched over and cut off. Programs in other languages may write beside them.
//!
//! Commits wait for a synchronous standby, always, and only that takes over. So whatever was
//! acknowledged is there in the end. One fault follows the other only when the cluster is well
//! again: three nodes, two of which follow the primary.

mod end;
mod faults;
mod guests;
mod paths;
mod probe;
mod stage;

use std::sync::Arc;
use std::time::SystemTime;

use onetrip_lab::postgres::patroni::Cluster;

use crate::Report;
use crate::drive::{Writers, on_threads};
use crate::ledger::Ledger;
use crate::plan::Kind;
use crate::random::Random;
use crate::writer::Writer;

pub use guests::Guest;
pub use paths::{PathReport, Paths};

use guests::Guests;
use stage::Stage;

/// Which faults come, who writes, and the seed of their order and of what the writers choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of the faults and of what the writers choose.
    pub seed: u64,
    /// The faults, of [`Kind::FAILOVERS`].
    pub faults: Vec<Kind>,
    /// Tasks over the client for Rust, which write without a pause.
    pub tasks: u32,
    /// Programs that use the clients for other languages.
    pub guests: Vec<Guest>,
}

/// A fault, and how the cluster came through it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Takeover {
    /// The fault.
    pub kind: Kind,
    /// When it was commanded.
    pub from: SystemTime,
    /// When the new primary acknowledged its first write. A probe tries every few milliseconds, on
    /// a connection that it has to each node, past the proxies.
    pub takes_writes: SystemTime,
    /// The port of the new primary, past its proxy.
    pub port: u16,
}

/// What a run came across and what it found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// What the ledger and the table say.
    pub report: Report,
    /// The same of each guest, in their order.
    pub guests: Vec<Report>,
    /// The faults in their order.
    pub takeovers: Vec<Takeover>,
}

/// Runs the faults on a cluster of its own. `beside` starts what else is to live through them,
/// given the cluster; it is dropped when the last fault is over. It may write numbers to the table
/// `probed`, as the probe does.
///
/// # Panics
/// If the lab fails, for example to start the cluster, or if the cluster does not recover.
pub fn run<T>(options: &Options, beside: impl FnOnce(&Cluster) -> T) -> Outcome {
    on_threads(run_here(options, beside, async |others, _| drop(others))).0
}

/// The same with the [`Paths`] of this page beside it. Returns what came of them as well.
///
/// # Panics
/// As [`run`].
pub fn run_with_paths(options: &Options, page: &str) -> (Outcome, Vec<PathReport>) {
    on_threads(run_here(options, |cluster| Paths::start(cluster, page), Paths::end))
}

/// `end_beside` is told the URL of the primary.
async fn run_here<T, U>(
    options: &Options,
    beside: impl FnOnce(&Cluster) -> T,
    end_beside: impl AsyncFnOnce(T, String) -> U,
) -> (Outcome, U) {
    let mut stage = Stage::set().await;
    let others = beside(stage.cluster());
    let ledger = Arc::new(Ledger::new());
    let guests = Guests::start(options, &stage, &ledger).await;
    let mut writers = Writers::new();
    for task in 0..options.tasks {
        let writer = Writer::new(task, options.seed, stage.client.clone(), ledger.clone(), None);
        writers.spawn(|stop| writer.write_until(stop));
    }
    let (mut takeovers, mut windows) = (Vec::new(), Vec::new());
    for kind in in_some_order(options) {
        are_at_work(&ledger, &guests).await;
        let (takeover, window) = faults::strike(&mut stage, &ledger, kind).await;
        takeovers.push(takeover);
        windows.push(window);
    }
    are_at_work(&ledger, &guests).await;
    let beside = end_beside(others, stage.url_of_primary()).await;
    let in_time = writers.stop().await;
    let duration = ledger.now();
    let options = crate::Options { seed: options.seed, duration };
    let guests = guests.reports(&options, &stage, &windows).await;
    let rest = end::rest(stage, &ledger).await;
    let report = crate::end::judge(&options, &ledger, duration, &windows, in_time, rest);
    (Outcome { report, guests, takeovers }, beside)
}

async fn are_at_work(ledger: &Ledger, guests: &Guests) {
    assert!(ledger.is_at_work().await, "no write is acknowledged any more");
    guests.are_at_work().await;
}

/// The faults, shuffled.
fn in_some_order(options: &Options) -> Vec<Kind> {
    let mut random = Random::new(options.seed, u64::MAX);
    let mut left = options.faults.clone();
    let mut order = Vec::new();
    while !left.is_empty() {
        order.push(left.swap_remove(random.below(left.len() as u64) as usize));
    }
    order
}
