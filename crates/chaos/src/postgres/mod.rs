//! PostgreSQL: 200 tasks over one pool, and one table.

mod end;
mod observer;
mod stage;
mod strike;
mod writes;

use std::sync::Arc;

use crate::drive::{Writers, on_threads, strike_for};
use crate::ledger::Ledger;
use crate::writer::Writer;
use crate::{Options, Report};

use stage::Stage;

/// Runs it on a private server of its own, and returns what was found: [`Report::findings`].
///
/// # Panics
/// When the lab fails: without a server there is nothing to say.
pub fn run(options: &Options) -> Report {
    on_threads(run_here(options))
}

async fn run_here(options: &Options) -> Report {
    let mut stage = Stage::set().await;
    let ledger = Arc::new(Ledger::new());
    let mut writers = Writers::new();
    for task in 0..TASKS {
        let writer = Writer::new(task, options.seed, stage.client.clone(), ledger.clone(), None);
        writers.spawn(|stop| writer.write_until(stop));
    }
    let struck = strike_for(options, &mut stage, &ledger).await;
    let in_time = writers.stop().await;
    let duration = ledger.now();
    let rest = end::rest(stage, &ledger).await;
    crate::end::judge(options, &ledger, duration, &struck, in_time, rest)
}

/// Tasks that write at the same time.
const TASKS: u32 = 200;
