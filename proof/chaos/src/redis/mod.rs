//! Redis: 100 tasks over one client, and numbers in hashes and lists.
//!
//! A row of PostgreSQL is a number here. Each number is written once, by one of two commands. Their
//! replies show which request they answer, and the data shows in the end how often they ran:
//!
//! * `HINCRBY written n n+1` answers `n+1`, and would leave twice that if it ran twice;
//! * `RPUSH rows n` answers the position of its number in the list, from which nothing is ever
//!   taken.
//!
//! Each task also has a counter. In the order of the calls, the replies of its INCRs ascend by one
//! if all are acknowledged; a gap may be no larger than the number of INCRs that are `Unknown`.
//!
//! # What survives
//! A single server keeps an append-only file and flushes it before it answers (`appendfsync
//! always`), so acknowledged writes survive a crash. A master of a cluster answers before its
//! replica has the write, so writes answered just before a crash would be lost by Redis and not by
//! the client. Therefore a master is killed only while it holds writes back (`CLIENT PAUSE …
//! WRITE`), and once its replica has caught up. Then every acknowledged write is on the replica,
//! and the writes held back are in flight when the master is killed. Redis does not promise that a
//! write survives which it had not copied yet, and no check here asks for it.
//!
//! A cluster whose masters *crash* has no such care taken: a master is killed in the middle of its
//! writes, and its replica takes over by itself. A third of the writes there are followed by `WAIT
//! 1`, in the same flight. What the replica had by that is there in the end; what was acknowledged
//! without it, and is gone, is counted.
//!
//! A cluster runs without a proxy, so its connections are observed from their ends alone. A fault
//! is over there when all nodes agree and the client has read a key of each tag. Moved slots and
//! killed replicas break no connection in use, so they may make no write `Unknown`.

mod book;
mod cluster;
mod crashes;
mod end;
mod keys;
mod single;
mod writes;

use std::sync::Arc;

use onetrip::redis::{Client, Script};

use crate::drive::{Target, Writers, inject_for, on_threads};
use crate::end::{Rest, judge};
use crate::ledger::Ledger;
use crate::writer::Writer;
use crate::{Options, Report};

use book::Book;
use cluster::Six;
use crashes::Crashing;
use keys::Keys;
use single::Single;
use writes::Own;

/// Runs chaos on a private server of its own, and returns its report: see [`Report::findings`].
///
/// # Panics
/// If the lab fails, for example to start a server.
pub fn run(options: &Options) -> Report {
    on_threads(async { run_on(options, Single::set().await).await })
}

/// The same on a cluster of six nodes, three of them masters.
///
/// # Panics
/// If the lab fails.
pub fn run_cluster(options: &Options) -> Report {
    on_threads(async { run_on(options, Six::set().await).await })
}

/// The same on a cluster whose masters crash, and whose replicas take over by themselves.
///
/// # Panics
/// If the lab fails.
pub fn run_crashes(options: &Options) -> Report {
    on_threads(async { run_on(options, Crashing::set().await).await })
}

/// One server or several, and the client under test.
trait Stage: Target {
    fn client(&self) -> &Client;

    fn keys(&self) -> Keys;

    /// Whether the servers keep only what a replica has, too, so that writers wait for one.
    fn loses(&self) -> bool {
        false
    }

    /// Reads the state at the end, and stops the servers.
    async fn rest(self, ledger: &Ledger, book: &Book) -> Rest;
}

async fn run_on(options: &Options, mut stage: impl Stage) -> Report {
    let (ledger, book) = (Arc::new(Ledger::new()), Arc::new(Book::default()));
    stage.keys().prepare(stage.client(), TASKS).await;
    let mut writers = Writers::new();
    for task in 0..TASKS {
        let (keys, waits) = (stage.keys(), stage.loses());
        let own = Own { keys, waits, book: book.clone(), script: script(task) };
        let client = stage.client().clone();
        let writer = Writer::new(task, options.seed, client, ledger.clone(), own);
        writers.spawn(|stop| writer.write_until(stop));
    }
    let faults = inject_for(options, &mut stage, &ledger).await;
    let in_time = writers.stop().await;
    let duration = ledger.now();
    let rest = stage.rest(&ledger, &book).await;
    judge(options, &ledger, duration, &faults, in_time, rest)
}

/// A script that writes numbers and returns the last of them. Every few tasks use a different text.
fn script(task: u32) -> Script {
    Script::new(format!(
        "for _, n in ipairs(ARGV) do redis.call('HINCRBY', KEYS[1], n, n + 1) end \
         return ARGV[#ARGV] -- {}",
        task % 8
    ))
}

/// Tasks that write at the same time.
const TASKS: u32 = 100;
