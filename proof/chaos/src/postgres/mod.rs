//! PostgreSQL: 200 tasks over one pool, and one table.

pub(crate) mod end;
pub(crate) mod faults;
pub(crate) mod observer;
pub(crate) mod stage;
pub(crate) mod writes;

use std::sync::Arc;

use onetrip::Config;

use crate::drive::{Writers, inject_for, on_threads};
use crate::ledger::Ledger;
use crate::writer::Writer;
use crate::{Options, Report};

use stage::Stage;

/// Runs chaos on a private server of its own, and returns its report: see [`Report::findings`].
///
/// # Panics
/// If the lab fails, for example to start a server.
pub fn run(options: &Options) -> Report {
    on_threads(run_here(options))
}

/// The table has no index, because a unique one would hide a doubled row. The client's window is so
/// narrow that its queues are in use.
async fn run_here(options: &Options) -> Report {
    let narrow = |config: Config| config.connections_max(8).in_flight_max(16);
    let mut stage = Stage::set(SCHEMA, None, narrow).await;
    let ledger = Arc::new(Ledger::new());
    let mut writers = Writers::new();
    for task in 0..TASKS {
        let writer = Writer::new(task, options.seed, stage.client.clone(), ledger.clone(), None);
        writers.spawn(|stop| writer.write_until(stop));
    }
    let faults = inject_for(options, &mut stage, &ledger).await;
    let in_time = writers.stop().await;
    let duration = ledger.now();
    let rest = end::rest(stage, &ledger).await;
    crate::end::judge(options, &ledger, duration, &faults, in_time, rest)
}

/// Tasks that write at the same time.
pub(crate) const TASKS: u32 = 200;

pub(crate) const SCHEMA: &str = "create table written (n bigint not null, fine bool check (fine))";
