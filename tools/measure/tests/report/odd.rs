//! Results that lack something: every report has to cope with each of them.

use std::sync::LazyLock;

use onetrip_measure::results::{Isolation, Results};

use crate::recorded::{self, Line};
use crate::synthetic::{RTTS, Synthetic, TASKS, redis_results, results, rich};

/// All of them, by name.
pub(crate) fn all() -> &'static [(&'static str, Results)] {
    static ALL: LazyLock<Vec<(&str, Results)>> = LazyLock::new(made);
    &ALL
}

pub(crate) fn named(name: &str) -> &'static Results {
    let (_, results) = all().iter().find(|(it, _)| *it == name).unwrap();
    results
}

fn made() -> Vec<(&'static str, Results)> {
    vec![
        ("nothing", results(Vec::new())),
        ("one_task_count", one_task_count()),
        ("one_repetition", one_repetition()),
        ("stopped", stopped()),
        ("nothing_known", nothing_known()),
        ("one_level", results(Synthetic::new(2).concurrency(&[Isolation::Serializable], &TASKS))),
        ("trips_only", results(Synthetic::new(3).trips(&RTTS))),
        ("one_rtt", one_rtt()),
        ("equal", equal()),
        ("long_names", long_names()),
        ("many_modes", many_modes()),
        ("in_turns", in_turns()),
        ("concurrency_over_rtt", concurrency_over_rtt()),
        ("redis", redis_results(Synthetic::new(12).redis(&RTTS))),
        ("two_servers", two_servers()),
        ("recorded", recorded(Line { latency_ms: 50.0, work_ms: 1.0, is_encrypted: false })),
        ("recorded_quick", recorded(Line { latency_ms: 0.1, work_ms: 3.0, is_encrypted: false })),
        (
            "recorded_encrypted",
            recorded(Line { latency_ms: 9e3, work_ms: 0.5, is_encrypted: true }),
        ),
        ("recorded_once", recorded_once()),
    ]
}

/// A PostgreSQL, and beside it a Valkey whose round trips are twice as long.
fn two_servers() -> Results {
    let mut redis = redis_results(Synthetic::new(13).redis(&[0.0, 5.0]));
    for line in &mut redis.lines {
        line.rtt_ms.median *= 2.0;
    }
    results(Synthetic::new(14).trips(&[0.0, 5.0])).with(redis)
}

fn recorded(line: Line) -> Results {
    results(recorded::cells(line))
}

/// Stopped before the second way.
fn recorded_once() -> Results {
    let mut all = recorded(Line { latency_ms: 5.0, work_ms: 0.3, is_encrypted: false });
    all.cells.truncate(1);
    all.stopped = Some("interrupted".to_owned());
    all
}

fn one_task_count() -> Results {
    results(Synthetic::new(4).concurrency(&Isolation::ALL, &[100]))
}

fn one_repetition() -> Results {
    let mut all = rich().clone();
    for cell in &mut all.cells {
        cell.repetitions.truncate(1);
    }
    all
}

/// After its first operations: some cells have no repetition, and some levels no cell.
fn stopped() -> Results {
    let mut all = rich().clone();
    all.cells.truncate(17);
    for cell in &mut all.cells[9..] {
        cell.repetitions.clear();
        cell.latency = None;
    }
    all.stopped = Some("interrupted".to_owned());
    all
}

/// Nothing but times: no distribution, no trips, no CPU, no round trip; and all of one cell failed.
fn nothing_known() -> Results {
    let mut all = rich().clone();
    all.lines.clear();
    all.server.settings.clear();
    for cell in &mut all.cells {
        cell.latency = None;
        for repetition in &mut cell.repetitions {
            (repetition.trips, repetition.client_cpu_ms, repetition.server_cpu_ms) =
                (None, None, None);
        }
    }
    for repetition in &mut all.cells[0].repetitions {
        repetition.operations = 0;
    }
    all
}

fn one_rtt() -> Results {
    let mut synthetic = Synthetic::new(8);
    let mut cells = synthetic.trips(&[5.0]);
    cells.extend(synthetic.depths(&[5.0]));
    results(cells)
}

/// All operations take the same time, so all lines end in the same place.
fn equal() -> Results {
    let mut all = rich().clone();
    for cell in &mut all.cells {
        for repetition in &mut cell.repetitions {
            repetition.elapsed_ms = 10.0 * repetition.operations as f64;
        }
    }
    all
}

fn long_names() -> Results {
    let mut all = rich().clone();
    for cell in &mut all.cells {
        cell.key.workload = format!("a_workload_with_a_long_name_{}", cell.key.workload);
        cell.key.mode = cell
            .key
            .mode
            .as_ref()
            .map(|mode| format!("Grüße_an_{mode}_mit_vielen_Wörtern_WWWWWWWW"));
    }
    all.command.push("--script=/a/very/long/path/without/any/space/in/it".repeat(4));
    all
}

fn concurrency_over_rtt() -> Results {
    let base = Synthetic::new(11).concurrency(&Isolation::ALL, &[100, 800]);
    let with = |rtt: f64| {
        base.iter().cloned().map(move |mut cell| {
            cell.key.rtt_added_ms = rtt;
            cell
        })
    };
    results(with(0.0).chain(with(5.0)).collect())
}

/// Cells of a workload do not stand side by side.
fn in_turns() -> Results {
    let mut all = rich().clone();
    all.cells.sort_by(|a, b| a.key.rtt_added_ms.total_cmp(&b.key.rtt_added_ms));
    all
}

/// More lines than a chart can have.
fn many_modes() -> Results {
    let mut all = results(Vec::new());
    for number in 0..11 {
        let mut cells = Synthetic::new(number).trips(&RTTS);
        cells.truncate(RTTS.len());
        for cell in &mut cells {
            cell.key.mode = Some(format!("mode {number}"));
        }
        all.cells.extend(cells);
    }
    all
}
