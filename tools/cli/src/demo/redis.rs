//! The demo's part on Redis: commands over a slow link, throughput by depth, and 10,000 PINGs.

use std::time::Duration;

use comfy_table::Cell as Field;
use onetrip_lab::redis::Installation;
use onetrip_measure::load::{Load, Until};
use onetrip_measure::redis::{Update, Verb, Way};
use onetrip_measure::results::{Cell, Preset, Results};
use onetrip_measure::run::{Plan, Planned};

use super::DemoArgs;
use super::story::{bar, rate, right, table, times};
use crate::command_line::command_line;
use crate::output::thousands;

/// Whether the demo has this part: it starts its own servers, and a program for Redis is installed.
///
/// # Errors
/// The variable that names the program is wrong.
pub(super) fn is_wanted(args: &DemoArgs) -> Result<bool, String> {
    if args.url.is_some() {
        return Ok(false);
    }
    let found = Installation::look().map_err(|error| error.to_string())?;
    Ok(found.is_some())
}

/// The line printed if no server program is installed.
pub(super) const MISSING: &str = "No redis-server or valkey-server was found, so the demo skips Redis; scripts/setup installs one.";

/// Updates over the slow link, and the rest without one.
pub(super) fn plan(args: &DemoArgs) -> Plan {
    let rtt = args.rtt.unwrap_or(super::plan::RTT_MS);
    let updates = [Update::GetSet, Update::Watch, Update::Script].map(Way::Update);
    let mut cells: Vec<Planned> = updates.map(|way| planned(way, rtt, Until::Each(UPDATES))).into();
    let depths = DEPTHS.map(|depth| Way::Depth(Verb::Get, depth));
    cells.extend(depths.map(|way| planned(way, 0.0, Until::Elapsed(DEPTH_TIME))));
    cells.extend(Way::of("pings", &[]).into_iter().map(|way| planned(way, 0.0, Until::Each(1))));
    Plan {
        cells,
        repetitions: args.repetitions,
        seed: 1,
        rows: 0,
        scale: None,
        one_trip: false,
        force: false,
        command: command_line(std::env::args_os()),
        threads: 1,
    }
}

const UPDATES: u64 = 1;
const DEPTHS: [u32; 5] = [1, 10, 100, 1_000, 10_000];
const DEPTH_TIME: Duration = Duration::from_millis(200);

fn planned(way: Way, rtt_added_ms: f64, until: Until) -> Planned {
    Planned::redis(way, rtt_added_ms, Load { until, rate: None, seed: 1 })
}

/// The tables of all that was measured, each with a title.
pub(super) fn tell(results: &Results) -> Vec<String> {
    let of = |workload: &'static str| {
        let cells = results.cells.iter().filter(|cell| cell.key.preset == Preset::Redis);
        cells.filter(move |cell| cell.key.workload == workload).collect::<Vec<_>>()
    };
    let told = [updates(results, &of("update")), depths(&of("depth")), pings(&of("pings"))];
    told.into_iter().flatten().collect()
}

fn updates(results: &Results, cells: &[&Cell]) -> Option<String> {
    let first = cells.first()?;
    let way = super::story::link(first.key.rtt_added_ms);
    let names = |cell: &Cell| match cell.key.mode.as_deref() {
        Some("GET then SET") => "GET, then SET",
        Some("script") => "one script",
        _ => "WATCH with GET, then MULTI, SET, EXEC",
    };
    let server = results.beside.as_ref().map_or(&results.server, |beside| &beside.server);
    let title =
        format!("A value read, changed and written{way}, {} {}", server.product, server.version);
    Some(format!("{title}\n{}", times(cells, |cell| names(cell).to_owned())))
}

fn depths(cells: &[&Cell]) -> Option<String> {
    let first = rate(cells.first()?);
    let fastest = cells.iter().map(|cell| rate(cell)).fold(0.0, f64::max);
    let mut table = table(&["in flight", "GETs per s", "× depth 1", ""]);
    for cell in cells {
        table.add_row([
            right(cell.key.depth.map_or(String::new(), |depth| thousands(depth.into()))),
            right(thousands(rate(cell))),
            right(format!("{:.1}", rate(cell) / first)),
            Field::new(bar(rate(cell) / fastest)),
        ]);
    }
    Some(format!("GETs, pipelined automatically on one connection, no latency added\n{table}"))
}

fn pings(cells: &[&Cell]) -> Option<String> {
    cells.first()?;
    let mut table = table(&["", "s", "in Redis' documentation", ""]);
    let seconds = |cell: &Cell| cell.elapsed_ms().map_or(f64::NAN, |it| it.median / 1e3);
    let slowest = cells.iter().map(|cell| seconds(cell)).fold(0.0, f64::max);
    for cell in cells {
        let is_pipeline = cell.key.mode.as_deref() == Some("pipeline");
        let (name, published) =
            if is_pipeline { ("one pipeline", "0.251") } else { ("one after the other", "1.185") };
        table.add_row([
            Field::new(name),
            right(format!("{:.3}", seconds(cell))),
            right(published.to_owned()),
            Field::new(bar(seconds(cell) / slowest)),
        ]);
    }
    Some(format!("10,000 PINGs, no latency added\n{table}"))
}
