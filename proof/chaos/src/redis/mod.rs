//! Redis: 100 tasks over one client, and numbers in hashes and lists.
//!
//! The rows of PostgreSQL are numbers here, each written once by one of two commands whose replies
//! show whose they are, and which show in the end how often they ran:
//!
//! * `HINCRBY written n n+1` answers `n+1`, and would leave twice that if it ran twice;
//! * `RPUSH rows n` answers the position of its number in the list, from which nothing is ever
//!   taken.
//!
//! And each task has a counter: of its INCRs, as it called them, the replies ascend by one where
//! all are acknowledged, and by no more than there were others of which nobody knows.
//!
//! # What survives
//! A single server keeps an append-only file and flushes it before it answers (`appendfsync
//! always`), so what was acknowledged survives a crash. A master of a cluster answers before its
//! replica has the write, and what it had answered in its last moments would be lost by Redis and
//! not by the client. So a master is killed only while it holds writes back (`CLIENT PAUSE …
//! WRITE`) and once its replica has all that it had before: all that was ever acknowledged is
//! there, and what was under way at that moment, and has come since, is under way when it is
//! killed. That a write survives which Redis had not copied yet is promised by nobody and checked
//! by nobody.
//!
//! In a cluster a connection is seen from its ends alone, there being no proxy. A fault is over
//! there when all nodes agree, and the client has read a key of each kind. Moved slots and killed
//! replicas break no connection that is in use: nothing is `Unknown` for their sake.

mod book;
mod cluster;
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
use keys::Keys;
use single::Single;
use writes::Own;

/// Runs it on a private server of its own, and returns what was found: [`Report::findings`].
///
/// # Panics
/// When the lab fails: without a server there is nothing to say.
pub fn run(options: &Options) -> Report {
    on_threads(async { run_on(options, Single::set().await).await })
}

/// The same on a cluster of six nodes, three of them masters.
///
/// # Panics
/// When the lab fails.
pub fn run_cluster(options: &Options) -> Report {
    on_threads(async { run_on(options, Six::set().await).await })
}

/// One server or several, and the client under test.
trait Stage: Target {
    fn client(&self) -> &Client;

    fn keys(&self) -> Keys;

    /// What is there in the end. The servers are gone then.
    async fn rest(self, ledger: &Ledger, book: &Book) -> Rest;
}

async fn run_on(options: &Options, mut stage: impl Stage) -> Report {
    let (ledger, book) = (Arc::new(Ledger::new()), Arc::new(Book::default()));
    stage.keys().prepare(stage.client(), TASKS).await;
    let mut writers = Writers::new();
    for task in 0..TASKS {
        let own = Own { keys: stage.keys(), book: book.clone(), script: script(task) };
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

/// Writes numbers and returns the last of them. Each few tasks have another text.
fn script(task: u32) -> Script {
    Script::new(format!(
        "for _, n in ipairs(ARGV) do redis.call('HINCRBY', KEYS[1], n, n + 1) end \
         return ARGV[#ARGV] -- {}",
        task % 8
    ))
}

/// Tasks that write at the same time.
const TASKS: u32 = 100;
