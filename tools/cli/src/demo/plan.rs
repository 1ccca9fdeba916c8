//! The plan of the demo.

use std::time::Duration;

use onetrip_measure::concurrency;
use onetrip_measure::load::{Load, Until};
use onetrip_measure::results::Isolation;
use onetrip_measure::run::{Plan, Planned};
use onetrip_measure::trips::{DEPTHS, Way};

use super::DemoArgs;
use crate::command_line::command_line;

/// The transfer over the slow link, the selects without one, and the updates of many tasks.
pub(super) fn plan(args: &DemoArgs) -> Plan {
    let rtt = args.rtt.unwrap_or(if args.url.is_some() { 0.0 } else { RTT_MS });
    let transfers = Way::of("transfer", &[]).into_iter();
    let selects = Way::of("selects", &DEPTHS).into_iter();
    let mut cells: Vec<Planned> =
        transfers.map(|way| trips(way, rtt, Until::Each(TRANSFERS))).collect();
    cells.extend(selects.map(|way| trips(way, 0.0, Until::Elapsed(SELECTS_TIME))));
    cells.extend(PAIR.iter().filter_map(|name| update(name)));
    Plan {
        cells,
        repetitions: args.repetitions,
        seed: 1,
        rows: ROWS,
        scale: None,
        one_trip: false,
        force: args.force,
        command: command_line(std::env::args_os()),
        threads: 1,
    }
}

pub(super) const RTT_MS: f64 = 100.0;
const TRANSFERS: u64 = 2;
const SELECTS_TIME: Duration = Duration::from_millis(300);

/// Updates of one row, which wait for each other, and updates of one row in a hundred.
pub(super) const PAIR: [&str; 2] = ["update_single_row", "update_random_row"];
pub(super) const TASKS: u32 = 200;
const CONNECTIONS: u32 = 10;
const ROWS: u32 = 100;

fn trips(way: Way, rtt_added_ms: f64, until: Until) -> Planned {
    Planned::trips(way, rtt_added_ms, Load { until, rate: None, seed: 1 })
}

fn update(name: &str) -> Option<Planned> {
    let workload = *concurrency::WORKLOADS.iter().find(|it| it.name == name)?;
    let load = Load { until: Until::Each(1), rate: None, seed: 1 };
    let many = (TASKS, CONNECTIONS);
    Some(Planned::concurrency(workload, Isolation::ReadCommitted, many, 0.0, load))
}
